"""Waiting for what may take hours, which a Ctrl-C ends.

Place in the flow: where the main thread waits for threads that have a query, a job or a helper process worked on.
Python learns of a signal when the system call that it waits in is interrupted. A library that handles SIGINT, too, may
have such calls begin again instead (Polars does, from its import on), and a wait without a limit then lasts to its end.
So these are many short waits.
"""

from __future__ import annotations

from concurrent.futures import Future, wait
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, TypeVar

T = TypeVar("T")

_NOTICED_AFTER_S: Final = 0.1


def result_of(future: Future[T]) -> T:
    """As ``future.result()``."""
    while not future.done():
        wait([future], _NOTICED_AFTER_S)
    return future.result()


def next_of(queue: SimpleQueue[T]) -> T:
    """As ``queue.get()``."""
    while True:
        with suppress(Empty):
            return queue.get(timeout=_NOTICED_AFTER_S)
