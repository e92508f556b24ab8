"""Processes that an engine keeps for its tasks alone, where what ends one is an error and no loss."""

from __future__ import annotations

import gc
import threading
from typing import Final

_OBJECTS_PER_COLLECTION: Final = 5_000
"""Tasks make rows by the hundred thousand, and next to nothing that only the garbage collector frees: at Python's 700
it takes up to a fourth of the time that footers take. Nothing is gained by more."""

_expendable: Final = threading.Event()


def mark_expendable() -> None:
    """Say that an engine keeps this process for its tasks only: when a task ends it, an error tells that.

    And have garbage collected less often, from now on.
    """
    _expendable.set()
    gc.set_threshold(_OBJECTS_PER_COLLECTION)


def is_expendable() -> bool:
    """Whether a task may do here what could end the process, rather than pay for making sure that it does not."""
    return _expendable.is_set()
