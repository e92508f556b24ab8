"""What a forked child must not take over from its parent: locks that are held, work under way, open connections.

A fork copies memory, but of the threads only the one that forked. A lock that another thread held at that moment would
stay locked in the child for ever, and what it guarded may be half changed. So each owner of such state says how it
begins anew. Every child does so before it runs anything else.

A module that another thread was importing would stay half imported, and locked. So reading and committing import
nothing. What PyIceberg and Arrow import on first use is imported with the modules that use it. What takes too long to
import for those who never need it is imported by :func:`imported_when_needed`, and forks wait until that is done.

Before Python 3.12 a cached property has a lock too, one for all objects of its class: those of this package and of
PyIceberg are renewed here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from itertools import count
from threading import RLock
from typing import Any, Final
from weakref import WeakMethod

_renewals: Final[dict[int, WeakMethod[Callable[[], Any]]]] = {}
_numbers: Final = count()
_importing: Final = RLock()
"""Held while a module is imported on use, and by who forks."""

_PACKAGES: Final = ("metastore", "pyiceberg")


def imported_when_needed(module: str) -> Any:
    """The module of that name. No process is forked while it is being imported here."""
    with _importing:
        return import_module(module)


def renew_in_child(renew: Callable[[], None]) -> None:
    """Call ``renew``, a method, in every child that this process forks as long as its object lives."""
    number = next(_numbers)
    _renewals[number] = WeakMethod(renew, lambda _: _renewals.pop(number, None))


def _begin_anew() -> None:
    if sys.version_info < (3, 12):
        for each in _cached_properties():
            vars(each)["lock"] = RLock()
    for known in list(_renewals.values()):
        renew = known()
        if renew is not None:
            renew()


def _cached_properties() -> Iterator[cached_property[Any]]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _PACKAGES:
            classes = [each for each in vars(module).values() if isinstance(each, type)]
            yield from (each for one in classes for each in vars(one).values() if isinstance(each, cached_property))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
    os.register_at_fork(
        before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release
    )
