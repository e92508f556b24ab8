"""The limits of the statement that this thread runs: time, memory and threads of its query.

Place in the flow: the door sets them around a statement, of the call or else of the configuration. A query asks here
when its database is opened. After its time, a statement ends at its next wait, as with Ctrl-C
(:mod:`metastore.ground.interrupts`); the commit at its end has no waits, so it happens whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from metastore.config.sql import SqlSettings
from metastore.ground.interrupts import ending_after

_LIMITS: Final[ContextVar[SqlSettings | None]] = ContextVar("limits", default=None)


@contextmanager
def limit_queries(limits: SqlSettings) -> Iterator[None]:
    """Within, queries of this thread have ``limits``; they raise EngineError when the time is over."""
    token = _LIMITS.set(limits)
    try:
        with ending_after(limits.timeout):
            yield
    finally:
        _LIMITS.reset(token)


def limits_or(configured: SqlSettings) -> SqlSettings:
    """Returns the limits of this thread's statement; ``configured`` outside of one."""
    return _LIMITS.get() or configured
