"""Waits that Ctrl-C or a time limit ends, for work that may take hours.

Place in the flow: the main thread waits here for threads, while a query, a job or a helper process runs. Python handles
a signal when the system call in which it waits is interrupted. A library that also handles SIGINT may restart
interrupted system calls (Polars does, once imported); a wait without a timeout would then continue to its end. So each
wait here is a series of short waits. A time limit (:func:`ending_after`) is looked at between them, so that it ends
what Ctrl-C would end, and in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

from metastore.errors import EngineError

T = TypeVar("T")

_NOTICED_AFTER_S: Final = 0.1

_end: Final[ContextVar[tuple[float, timedelta] | None]] = ContextVar("end", default=None)
"""When the caller's time is over, on the monotonic clock, and the limit that was set."""


@contextmanager
def ending_after(limit: timedelta | None) -> Iterator[None]:
    """Within, waits of this thread raise EngineError once ``limit`` has passed; an earlier end around it stays."""
    around = _end.get()
    own = None if limit is None else (time.monotonic() + limit.total_seconds(), limit)
    token = _end.set(min((each for each in (own, around) if each is not None), default=None))
    try:
        yield
    finally:
        _end.reset(token)


def _require_time() -> None:
    end = _end.get()
    if end is not None and time.monotonic() >= end[0]:
        seconds = f"{end[1].total_seconds():g}"
        raise EngineError(
            f"the statement did not end within {seconds} seconds and was stopped; nothing was changed. Ask for less, "
            "or raise drill.metastore.sql.timeout"
        )


def result_of(future: Future[T]) -> T:
    """Returns ``future.result()``; Ctrl-C ends the wait."""
    while not future.done():
        _require_time()
        wait([future], _NOTICED_AFTER_S)
    return future.result()


def next_of(queue: SimpleQueue[T]) -> T:
    """Returns ``queue.get()``; Ctrl-C ends the wait."""
    while True:
        _require_time()
        with suppress(Empty):
            return queue.get(timeout=_NOTICED_AFTER_S)
