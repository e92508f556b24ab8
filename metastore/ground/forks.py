"""State that a forked child must not take over from its parent: held locks, work in progress, open connections.

A fork copies memory, but only the thread that forked. A lock that another thread held at that moment would stay locked
in the child for ever, and the data that it guards may be half changed. So each owner of such state registers a function
that resets it. Every child calls these functions before it runs anything else.

A module that another thread was importing would stay half imported, and locked. So reading and committing import
nothing. Modules that PyIceberg and Arrow import on first use are imported with the modules that need them. A module
that loads too slowly for callers that do not need it is imported by :func:`imported_when_needed`, and forks wait until
that import is done.

Before Python 3.12 a cached property also has a lock, one for all objects of its class. This module resets the locks of
this package and of PyIceberg.
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
"""Held while a module is imported on use, and while this process forks."""

_PACKAGES: Final = ("metastore", "pyiceberg")


def imported_when_needed(module: str) -> Any:
    """Returns the module of that name. No process is forked while this function imports it."""
    with _importing:
        return import_module(module)


def renew_in_child(renew: Callable[[], None]) -> None:
    """Call ``renew``, a method, in every forked child of this process, as long as the method's object exists."""
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
