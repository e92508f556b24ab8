"""Work of DuckDB that Ctrl-C or a time limit ends.

DuckDB notices neither before a piece of its work has ended, which may take hours. So another thread does the work, and
the caller waits (:mod:`metastore.ground.interrupts`).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from threading import Event, Thread
from typing import Any, Final, TypeVar

from metastore.ground.interrupts import result_of

T = TypeVar("T")

_AGAIN_S: Final = 0.1
"""Seconds between two interrupts while the work goes on."""


def interruptible(connection: Any, call: Callable[[], T]) -> T:
    """Returns what ``call`` returns, or raises what it raises; it works with the DuckDB ``connection``.

    Raises KeyboardInterrupt, and EngineError when the caller's time is over. The work has ended by then.
    """
    found: Future[T] = Future()
    left = Event()

    def work() -> None:
        if not left.is_set():
            try:
                found.set_result(call())
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
                found.set_exception(error)

    thread = Thread(target=partial(copy_context().run, work), name="metastore-sql")
    try:
        thread.start()
        return result_of(found)
    finally:
        left.set()
        while thread.is_alive():
            if not found.done():
                connection.interrupt()  # an interrupt before the work itself has begun is lost
            thread.join(_AGAIN_S)
