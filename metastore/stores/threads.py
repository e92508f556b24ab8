"""Runs small independent steps on files concurrently, as long as this process can start threads.

A commit may be the last action of a process: after the main thread has ended, the interpreter starts no more threads.
The limit on threads may also be reached. Then the steps run one after another; they must be repeatable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_AT_ONCE: Final = 16


def for_each(items: Sequence[Item], step: Callable[[Item], Result]) -> list[Result]:
    """Return the results of ``step`` for ``items``, in order. It may run twice for an item. Raises its errors."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        try:
            pending = [threads.submit(step, item) for item in items]
        except RuntimeError:
            return [step(item) for item in items]
        return [future.result() for future in pending]
