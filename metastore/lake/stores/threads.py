"""Runs small independent steps on files concurrently, as long as this process can start threads.

A commit may be the last action of a process: after the main thread has ended, the interpreter starts no more threads.
The limit on threads may also be reached. Then the steps run one after another; they must be repeatable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Final, TypeVar

from metastore.ground.threads import Threads

Item = TypeVar("Item")
Result = TypeVar("Result")

_AT_ONCE: Final = 16


def for_each(items: Sequence[Item], step: Callable[[Item], Result]) -> list[Result]:
    """Return the results of ``step`` for ``items``, in order. It may run twice for an item. Raises its errors."""
    with Threads(_AT_ONCE) as threads:
        return _results(threads, items, step)


class KeptThreads:
    """Threads that stay for the next call: for short steps of every commit, which cost less than new threads.

    Made once for the life of a process; a forked child begins with none.
    """

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._threads = Threads(_AT_ONCE, "metastore-steps")

    def for_each(self, items: Sequence[Item], step: Callable[[Item], Result]) -> list[Result]:
        """See :func:`for_each`."""
        return _results(self._threads, items, step)


def _results(threads: Threads, items: Sequence[Item], step: Callable[[Item], Result]) -> list[Result]:
    """Returns or raises when every step has ended."""
    pending: list[Future[Result]] = []
    try:
        pending.extend(threads.submit(step, item) for item in items)
    except RuntimeError:
        wait(pending)
        return [step(item) for item in items]
    wait(pending)
    return [future.result() for future in pending]
