"""Processes that an engine keeps only for its tasks. If a task ends such a process, its run fails; nothing is lost."""

from __future__ import annotations

import gc
import threading
from typing import Final

_OBJECTS_PER_COLLECTION: Final = 5_000
"""Threshold of the garbage collector. Tasks create hundreds of thousands of rows, and hardly any reference cycles.
With Python's default of 700, collections take up to a fourth of the time of reading footers. A higher threshold gains
nothing."""

_expendable: Final = threading.Event()


def mark_expendable() -> None:
    """Mark this process as one that an engine keeps only for its tasks, and collect garbage less often from now on.

    If a task ends the process, the engine reports an error.
    """
    _expendable.set()
    gc.set_threshold(_OBJECTS_PER_COLLECTION)


def is_expendable() -> bool:
    """Returns whether a task may risk ending this process, instead of paying for a check that prevents it."""
    return _expendable.is_set()
