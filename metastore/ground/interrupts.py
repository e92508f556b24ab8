"""Waits that Ctrl-C ends, for work that may take hours.

Place in the flow: the main thread waits here for threads, while a query, a job or a helper process runs. Python handles
a signal when the system call in which it waits is interrupted. A library that also handles SIGINT may restart
interrupted system calls (Polars does, once imported); a wait without a timeout would then continue to its end. So each
wait here is a series of short waits.
"""

from __future__ import annotations

from concurrent.futures import Future, wait
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

T = TypeVar("T")

_NOTICED_AFTER_S: Final = 0.1


def result_of(future: Future[T]) -> T:
    """Returns ``future.result()``; Ctrl-C ends the wait."""
    while not future.done():
        wait([future], _NOTICED_AFTER_S)
    return future.result()


def next_of(queue: SimpleQueue[T]) -> T:
    """Returns ``queue.get()``; Ctrl-C ends the wait."""
    while True:
        with suppress(Empty):
            return queue.get(timeout=_NOTICED_AFTER_S)
