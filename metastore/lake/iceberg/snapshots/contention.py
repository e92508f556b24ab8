"""Retries after lost races, for every procedure that commits."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Final, TypeVar

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from metastore.errors import ConflictError
from metastore.ground.clock import Clock
from metastore.lake.iceberg.catalogs.catalog_errors import error_text
from metastore.lake.iceberg.catalogs.target import TargetTable

T = TypeVar("T")

_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 1.0
_CLOCK: Final = Clock()


def kept_losing(table: str, timeout: timedelta, last: Exception | None) -> ConflictError:
    """Return the error of a writer of ``table`` that lost every race for ``timeout``; ``last`` is the last cause."""
    cause = f", at last: {error_text(last)}" if last else ""
    return ConflictError(f"other writers of {table} kept winning for {timeout}{cause}; nothing was changed")


def until_won(target: TargetTable, timeout: timedelta, attempt: Callable[[Table], T], clock: Clock = _CLOCK) -> T:
    """Return the result of ``attempt`` on the newest table, repeated as long as other writers win.

    ``attempt`` signals a lost race by CommitFailedException, after it removed what it wrote. There are pauses with
    jitter between attempts. Raises ConflictError with the last cause if others keep winning for ``timeout``, and any
    other error of ``attempt``.
    """
    deadline = clock.monotonic() + timeout.total_seconds()
    pause = _FIRST_PAUSE_S
    while True:
        try:
            return attempt(target.load())
        except CommitFailedException as error:
            if clock.monotonic() >= deadline:
                raise kept_losing(str(target), timeout, error) from error
        clock.pause(random.uniform(pause / 2, pause))  # noqa: S311 - jitter, not a secret
        pause = min(2 * pause, _LONGEST_PAUSE_S)
