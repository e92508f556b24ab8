"""Waits that a Ctrl-C ends, also where a library has system calls begin again after a signal."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

import pytest

from metastore.ground.interrupts import next_of, result_of


class Interrupting:
    """Interrupts the main thread once that waits in ``within``; what it waits for comes when it is free, or late."""

    def __init__(self, within: Callable[..., object], end: Callable[[], object]) -> None:
        self._name = within.__name__
        self._end = end
        self._free = threading.Event()
        self.noticed = False
        self._thread = threading.Thread(target=self._interrupt)

    def _interrupt(self) -> None:
        while not self._waits():
            if self._free.is_set():
                return
        os.kill(os.getpid(), signal.SIGINT)
        self.noticed = self._free.wait(20)
        self._end()

    def _waits(self) -> bool:
        frame = sys._current_frames()[threading.main_thread().ident or 0]
        names = []
        while frame.f_back is not None:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        return self._name in names

    def __enter__(self) -> Interrupting:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._free.set()
        self._thread.join()


@pytest.mark.usefixtures("restarted_calls")
def test_an_interrupt_ends_the_wait_for_a_result() -> None:
    """Long before the result is there."""
    future: Future[int] = Future()
    with Interrupting(result_of, lambda: future.set_result(1)) as thread, pytest.raises(KeyboardInterrupt):
        result_of(future)
    assert thread.noticed
    assert result_of(future) == 1


@pytest.mark.usefixtures("restarted_calls")
def test_an_interrupt_ends_the_wait_for_what_is_next() -> None:
    """Long before something comes."""
    queue: SimpleQueue[int] = SimpleQueue()
    with Interrupting(next_of, lambda: queue.put(1)) as thread, pytest.raises(KeyboardInterrupt):
        next_of(queue)
    assert thread.noticed
    assert next_of(queue) == 1


def test_errors_are_those_of_the_work() -> None:
    """A work's own TimeoutError is no reason to wait longer."""
    future: Future[int] = Future()
    future.set_exception(TimeoutError("of the work"))
    with pytest.raises(TimeoutError, match="of the work"):
        result_of(future)
