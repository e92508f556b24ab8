"""Small independent steps on files, many at a time, for as long as this process can start threads.

A commit may be the last thing that a process does: the interpreter starts no thread any more once its main thread has
ended, and a limit on them may be reached. Then the steps are done one after another; they are such as may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_AT_ONCE: Final = 16


def for_each(items: Sequence[Item], step: Callable[[Item], Result]) -> list[Result]:
    """What ``step`` gives for each of ``items``, in their order. It may be called twice for one. Raises as it does."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        try:
            pending = [threads.submit(step, item) for item in items]
        except RuntimeError:
            return [step(item) for item in items]
        return [future.result() for future in pending]
