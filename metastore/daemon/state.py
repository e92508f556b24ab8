"""What the daemon is doing and has done since its start. The endpoint and the log read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from metastore.daemon.decide import LastRun
from metastore.daemon.history import Key
from metastore.daemon.lease import LeaseView
from metastore.daemon.unmatched import Unmatched
from metastore.model.run_unit import RunUnit


@dataclass
class State:
    """Written by the loop and read by the endpoint's threads. Every field is replaced or counted in one step.

    - ``trouble``: the error of the last pass; ``passed_over``: the parts it could not list, with their errors.
    - ``unmatched``: the policies that match no table.
    - ``refused``: why a new configuration was rejected; ``refusals``: how many were.
    - ``unwritten``: why the history could not be written.
    - ``seen``: the loop's last sign of life, in seconds of a monotonic clock; ``interval``: its wait between passes.
    - ``waiting_for``: the catalog whose answer it waits for; ``working_on``: its current action; ``since``: its start.
    - ``last_runs``: by table and action.
    """

    token: int | None = None
    tables: int = 0
    due: int = 0
    passes: int = 0
    last_pass_ms: int | None = None
    seen: float | None = None
    interval: timedelta = timedelta(minutes=1)
    working_on: str | None = None
    waiting_for: str | None = None
    since: float | None = None
    trouble: str | None = None
    unwritten: str | None = None
    passed_over: Mapping[str, str] = field(default_factory=dict)
    unmatched: Sequence[Unmatched] = ()
    refused: str | None = None
    refusals: int = 0
    lease: LeaseView = field(default_factory=LeaseView)
    last_runs: Mapping[Key, LastRun] = field(default_factory=dict)
    runs: Counter[tuple[str, str]] = field(default_factory=Counter)
    milliseconds: Counter[str] = field(default_factory=Counter)
    files_removed: int = 0
    bytes_removed: int = 0

    @property
    def troubles(self) -> list[str]:
        """Returns one sentence for each known problem."""
        found = [self.trouble, self.unwritten, self.lease.trouble]
        found += [f"{place} is skipped: {error}" for place, error in self.passed_over.items()]
        found += [str(each) for each in self.unmatched]
        if self.refused is not None:
            found.append("a new configuration was refused; the log says why")
        return list(dict.fromkeys(each for each in found if each is not None))

    def count(self, run: RunUnit) -> None:
        """Add one run to the counts."""
        action = run.action or ""
        self.runs[action, run.status or ""] += 1
        self.milliseconds[action] += run.milliseconds or 0
        self.files_removed += max(0, (run.files_before or 0) - (run.files_after or 0))
        self.bytes_removed += max(0, (run.bytes_before or 0) - (run.bytes_after or 0))
