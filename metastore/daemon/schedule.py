"""When an action runs again: after an interval, or at the times of a cron expression in UTC. Pure functions.

Cron expressions are read by croniter (extra ``daemon``); intervals need no library.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from metastore.config.policies import is_cron
from metastore.config.units import parse_duration
from metastore.errors import ConfigError, InvalidRequestError
from metastore.ground.optional import library


@dataclass(frozen=True)
class Schedule:
    """One schedule as it stands in the configuration."""

    text: str

    @property
    def is_interval(self) -> bool:
        """Whether it is an interval, counted from the last run, and no cron expression."""
        return not is_cron(self.text)

    def check(self, key: str, origin: str) -> None:
        """Check a cron expression, and that the library that reads it is installed.

        Raises ConfigError that names ``key`` and ``origin``, where it is set.
        """
        try:
            self.next_after(0)
        except InvalidRequestError as error:
            raise ConfigError(f"{key} = {self.text!r}: {error} ({origin})") from error

    def next_after(self, since_ms: int) -> int:
        """Returns the first time after ``since_ms``, in epoch milliseconds."""
        if self.is_interval:
            return since_ms + parse_duration(self.text) // timedelta(milliseconds=1)
        module: Any = library("croniter", "daemon")
        since = datetime.fromtimestamp(since_ms / 1000, tz=timezone.utc)
        try:
            return int(module.croniter(self.text, since).get_next(float) * 1000)
        except (module.CroniterError, ValueError) as error:
            raise InvalidRequestError(f"{self.text!r} is no cron expression: {error}") from error

    def spread_after(self, since_ms: int, jitter: float, seed: str) -> int:
        """Returns :meth:`next_after` plus a delay of at most ``jitter`` times the gap, always the same for ``seed``."""
        due = self.next_after(since_ms)
        gap = self.next_after(due) - due
        return due + int(gap * jitter * spread(seed))


def spread(seed: str) -> float:
    """Returns a number from 0 to 1: always the same for one ``seed``, evenly distributed over many."""
    return int.from_bytes(hashlib.sha256(seed.encode()).digest()[:7], "big") / (1 << 56)
