"""What the daemon is doing and has done since its start. The endpoint and the log read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from metastore.daemon.decide import LastRun
from metastore.daemon.history import Key
from metastore.daemon.lease import LeaseView
from metastore.daemon.unmatched_policies import UnmatchedLayer
from metastore.model.run_unit import RunUnit

_LONG_PASS: Final = 30
"""Intervals after which a pass counts as trouble: it does not keep up with what becomes due."""


@dataclass(frozen=True)
class Pass:
    """One pass over all tables: how many ``actions`` were due, and what became of them so far.

    ``deferred`` are left for the next pass, because their catalog does not answer. ``began`` is the time in seconds of
    the loop's clock, ``began_ms`` in epoch milliseconds.
    """

    began: float
    began_ms: int
    actions: int = 0
    done: int = 0
    failed: int = 0
    deferred: int = 0

    @property
    def left(self) -> int:
        """How many actions wait for their turn."""
        return self.actions - self.done - self.failed - self.deferred

    def seconds_left(self, now: float) -> float | None:
        """Returns an estimate from the pace so far; None before the first action has ended."""
        ended = self.done + self.failed
        return (now - self.began) / ended * self.left if ended else None


@dataclass
class State:
    """Written by the loop and its workers, read by the endpoint's threads. Each field is changed in one step.

    - ``trouble``: the error of the last pass; ``passed_over``: the parts it could not list, with their errors.
    - ``unmatched``: the policies that match no table.
    - ``refused``: why a new configuration was rejected; ``refusals``: how many were.
    - ``unwritten``: why the history could not be written.
    - ``current``: the pass under way; ``last_full_pass_ms``: when the last one ended that nothing cut short.
    - ``listed_ms``: when the tables were listed, and ``passed_over`` and ``unmatched`` were found.
    - ``seen``: the loop's last sign of life, in seconds of a monotonic clock; ``interval``: its wait between passes.
    - ``working``: the actions under way, with their starts in seconds of that clock, the longest under way first.
    - ``waiting``: by thread, what it waits for an answer of, and since when.
    - ``last_runs``: by table and action.
    - ``events``: objects that events name, ``named`` of tables and ``ignored``; messages that are ``unreadable``.
    """

    token: int | None = None
    tables: int = 0
    due: int = 0
    passes: int = 0
    last_pass_ms: int | None = None
    last_full_pass_ms: int | None = None
    last_full_pass_seconds: float | None = None
    listed_ms: int | None = None
    current: Pass | None = None
    seen: float | None = None
    interval: timedelta = timedelta(minutes=1)
    working: dict[str, float] = field(default_factory=dict)
    waiting: dict[int, tuple[str, float]] = field(default_factory=dict)
    trouble: str | None = None
    unwritten: str | None = None
    passed_over: Mapping[str, str] = field(default_factory=dict)
    unmatched: Sequence[UnmatchedLayer] = ()
    refused: str | None = None
    refusals: int = 0
    lease: LeaseView = field(default_factory=LeaseView)
    last_runs: Mapping[Key, LastRun] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    runs: Counter[tuple[str, str]] = field(default_factory=Counter)
    milliseconds: Counter[str] = field(default_factory=Counter)
    files_removed: int = 0
    bytes_removed: int = 0

    @property
    def at(self) -> Mapping[str, float]:
        """Returns what the daemon is doing, with its starts: its actions, else the answers that it waits for."""
        return dict(self.working) or dict(list(self.waiting.values()))

    @property
    def troubles(self) -> list[str]:
        """Returns one sentence for each known problem."""
        found = [self.trouble, self.unwritten, self.lease.trouble]
        found += [f"{place} is skipped: {error}" for place, error in self.passed_over.items()]
        found += [str(each) for each in self.unmatched]
        if self.refused is not None:
            found.append("a new configuration was refused; the log says why")
        return list(dict.fromkeys(each for each in found if each is not None))

    def troubles_at(self, now: float) -> list[str]:
        """Returns :attr:`troubles`, and that the pass under way lasts too long; ``now`` is of the loop's clock."""
        limit = _LONG_PASS * self.interval.total_seconds()
        current = self.current
        if current is None or now - current.began <= limit:
            return self.troubles
        slow = f"this pass has lasted for over {_LONG_PASS} intervals, and {current.left} of {current.actions} are left"
        return [*self.troubles, f"{slow}: raise daemon.interval, or divide the tables among daemons"]

    def count(self, run: RunUnit) -> None:
        """Add one run to the counts."""
        if self.current is not None:
            ended = {"failed": self.current.failed + 1} if run.status == "failed" else {"done": self.current.done + 1}
            self.current = replace(self.current, **ended)
        action = run.action or ""
        self.runs[action, run.status or ""] += 1
        self.milliseconds[action] += run.milliseconds or 0
        self.files_removed += max(0, (run.files_before or 0) - (run.files_after or 0))
        self.bytes_removed += max(0, (run.bytes_before or 0) - (run.bytes_after or 0))
