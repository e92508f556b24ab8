"""Public names of a package that are loaded when they are first asked for.

A package's ``__getattr__`` and ``__dir__`` are made here, so that ``import`` of it loads nothing that is not used, and
who explores it finds all of its names all the same. Type checkers read the imports that stand under ``TYPE_CHECKING``
beside them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def loaded_on_use(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of ``package``, whose names stand in ``modules``: by name, that of the module.

    A name must not be that of a module in the package, which would take its place.
    """
    own = vars(sys.modules[package])

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        own[name] = getattr(import_module(f"{package}.{modules[name]}"), name)
        return own[name]

    def names() -> list[str]:
        return sorted({*own, *modules})

    return get, names
