"""Trying again when others were faster: what every procedure that commits does with a lost race."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final, TypeVar

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from metastore.clock import Clock
from metastore.errors import ConflictError
from metastore.iceberg.target import TargetTable

T = TypeVar("T")

_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 1.0
_CLOCK: Final = Clock()


def until_won(target: TargetTable, timeout: timedelta, attempt: Callable[[Table], T], clock: Clock = _CLOCK) -> T:
    """What ``attempt`` returns, made on the fresh table again and again while it loses to other writers.

    It says so by CommitFailedException, after it took back what it wrote. Pauses with jitter between attempts. Raises
    ConflictError when others keep winning for ``timeout``, and whatever else ``attempt`` raises.
    """
    deadline = clock.monotonic() + timeout.total_seconds()
    pause = _FIRST_PAUSE_S
    while True:
        with suppress(CommitFailedException):
            return attempt(target.load())
        if clock.monotonic() >= deadline:
            raise ConflictError(f"other writers of {target} kept winning for {timeout}; nothing was changed")
        clock.pause(random.uniform(pause / 2, pause))  # noqa: S311 - jitter, not a secret
        pause = min(2 * pause, _LONGEST_PAUSE_S)
