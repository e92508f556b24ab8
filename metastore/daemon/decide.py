"""Decides what is due, from policies, last runs, the newest commit and the time. Pure functions.

An action is due by its schedule, plus a delay that the jitter gives to each table. After a failure it waits, and the
wait doubles with each further failure. While a table has recent commits, its policy's quiet time delays the action, but
not for ever.

The order of the work: the most overdue table goes first. An action is overdue by a number of its own intervals, and one
that never ran by one more. Numbers within a factor of two count as equal; among them the action that gains most goes
first (:mod:`metastore.daemon.gain`). So the care for a table that gains little may be late, but is never missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from metastore.config.daemon import DaemonSettings
from metastore.daemon.gain import Facts, gain
from metastore.daemon.policy import Action, ActionPolicy, TableName
from metastore.daemon.schedule import Schedule
from metastore.model.run_unit import RunUnit

_MOST_DOUBLINGS: Final = 30

_LONG_MS: Final = 120_000
_MANY_FILES: Final = 100_000
"""A run that takes longer, or is on a larger table, leaves the last free worker to other tables."""


@dataclass(frozen=True)
class LastRun:
    """When an action last began on a table, and how many times in a row it has failed.

    ``succeeded_ms`` is the start of its last run that did not fail; None if that is not known. ``run`` is the last one.
    """

    started_ms: int
    failures: int = 0
    succeeded_ms: int | None = field(default=None, compare=False)
    run: RunUnit | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Situation:
    """What is known of one action on one table: its ``last`` run, if any, and size and newest commit of the table.

    ``hints`` are the messages that name one of its files; with one, the action does not wait for its schedule.
    """

    table: TableName
    policy: ActionPolicy
    last: LastRun | None = None
    facts: Facts = field(default_factory=Facts)
    hints: frozenset[str] = frozenset()

    @property
    def gain(self) -> int:
        """What the action may gain, in bytes."""
        return gain(self.policy, self.facts, None if self.last is None else self.last.run)

    @property
    def is_long(self) -> bool:
        """Whether the action may take long: its last run did, or the table has very many files."""
        run = None if self.last is None else self.last.run
        return (self.facts.files or 0) >= _MANY_FILES or (run is not None and (run.milliseconds or 0) >= _LONG_MS)


@dataclass(frozen=True)
class Decision:
    """``due`` now or not; ``at_ms`` is when it is or was, ``reason`` one clause for people."""

    situation: Situation
    due: bool
    at_ms: int
    reason: str


def decide(situation: Situation, settings: DaemonSettings, now_ms: int, since_ms: int | None = None) -> Decision:
    """Returns whether the action is due. One that never ran is due at once, unless it has a cron expression.

    With a cron expression, its first time after ``since_ms``, the start of the daemon, counts. If that is None, the
    action is due at once.
    """
    if not situation.policy.enabled:
        return Decision(situation, due=False, at_ms=0, reason="not enabled")
    at_ms, reason = _time(situation, settings, now_ms, since_ms)
    if at_ms > now_ms:
        return Decision(situation, due=False, at_ms=at_ms, reason=reason)
    quiet, committed = _ms(situation.policy.quiet), situation.facts.committed_ms
    if quiet and committed is not None and now_ms < committed + quiet:
        if now_ms - at_ms < _ms(settings.patience):
            return Decision(situation, due=False, at_ms=committed + quiet, reason="busy: the last commit was just now")
        reason = f"{reason}; busy, but due for {settings.patience}"
    return Decision(situation, due=True, at_ms=at_ms, reason=reason)


def due(
    situations: Iterable[Situation], settings: DaemonSettings, now_ms: int, since_ms: int | None = None
) -> Sequence[Decision]:
    """Returns all actions that are due, table by table in the order of the work.

    Those of one table follow each other in the order of :class:`Action`.
    """
    order = list(Action)
    tables: dict[TableName, list[Decision]] = {}
    for decision in (decide(each, settings, now_ms, since_ms) for each in situations):
        if decision.due:
            tables.setdefault(decision.situation.table, []).append(decision)
    ranks = {table: min(_rank(each, now_ms) for each in found) for table, found in tables.items()}
    for found in tables.values():
        found.sort(key=lambda each: order.index(each.situation.policy.action))
    return [each for table in sorted(tables, key=lambda table: (ranks[table], str(table))) for each in tables[table]]


def wait_after(failures: int, settings: DaemonSettings) -> timedelta:
    """Returns how long an action waits after a number of failures in a row (1 or more)."""
    doubled: timedelta = settings.backoff * (1 << min(failures - 1, _MOST_DOUBLINGS))
    return min(doubled, settings.longest_backoff)


def _rank(decision: Decision, now_ms: int) -> tuple[int, int, int]:
    """Returns a key for the order of the work, which sorts the first to be done first."""
    situation = decision.situation
    if situation.hints:
        return -_MOST_DOUBLINGS, -situation.gain, decision.at_ms
    interval = max(1, Schedule(situation.policy.schedule).next_after(decision.at_ms) - decision.at_ms)
    overdue = (now_ms - decision.at_ms) / interval + (situation.last is None)
    return -int(math.log2(1 + overdue)), -situation.gain, decision.at_ms


def _time(situation: Situation, settings: DaemonSettings, now_ms: int, since_ms: int | None) -> tuple[int, str]:
    policy, last = situation.policy, situation.last
    schedule = Schedule(policy.schedule)
    seed = f"{situation.table} {policy.action}"
    if situation.hints and not (last is not None and last.failures):
        return now_ms, "an event names one of its files"
    if last is None:
        if since_ms is None or schedule.is_interval:
            return min(now_ms, since_ms or now_ms), "never ran"
        return schedule.spread_after(since_ms, settings.jitter, seed), f"schedule {policy.schedule}"
    if last.failures:
        return last.started_ms + _ms(wait_after(last.failures, settings)), f"failed {last.failures} times in a row"
    return schedule.spread_after(last.started_ms, settings.jitter, seed), f"schedule {policy.schedule}"


def _ms(time: timedelta) -> int:
    return time // timedelta(milliseconds=1)
