"""What the daemon is doing and has done since it began, for whoever asks: the endpoint, and the log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

from metastore.model.run_unit import RunUnit


@dataclass
class State:
    """Written by the loop, read by the endpoint's threads; every field is replaced or counted in one step.

    ``trouble`` is that of the last pass, ``passed_over`` how many catalogs did not answer in it; ``refused`` is why a
    new configuration was not taken. ``seen`` is when the loop last showed life, in seconds of a clock that nobody
    sets, and ``interval`` how long it waits between two passes.
    """

    token: int | None = None
    tables: int = 0
    due: int = 0
    passes: int = 0
    last_pass_ms: int | None = None
    seen: float | None = None
    interval: timedelta = timedelta(minutes=1)
    working_on: str | None = None
    trouble: str | None = None
    passed_over: int = 0
    refused: str | None = None
    runs: Counter[tuple[str, str]] = field(default_factory=Counter)
    milliseconds: Counter[str] = field(default_factory=Counter)
    files_removed: int = 0
    bytes_removed: int = 0

    def count(self, run: RunUnit) -> None:
        """Take one run into the counts."""
        action = run.action or ""
        self.runs[action, run.status or ""] += 1
        self.milliseconds[action] += run.milliseconds or 0
        self.files_removed += max(0, (run.files_before or 0) - (run.files_after or 0))
        self.bytes_removed += max(0, (run.bytes_before or 0) - (run.bytes_after or 0))
