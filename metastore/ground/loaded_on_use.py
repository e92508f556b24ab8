"""Public names of a package that are loaded on first use.

This module makes a package's ``__getattr__`` and ``__dir__``. ``import`` of the package loads nothing that is not used,
and ``dir()`` still lists all names. Type checkers read the imports under ``TYPE_CHECKING`` in the package.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def loaded_on_use(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Returns ``__getattr__`` and ``__dir__`` for ``package``; ``modules`` maps each public name to its module.

    A name must not equal the name of a module in the package, because the module would replace it.
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
