"""The pages of maintenance: the daemon's state and runs; for one table what is due, why not yet, and what would go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from metastore.config.units import format_duration
from metastore.console.query import PagePosition, Query, part_of
from metastore.daemon.actions import Actions
from metastore.daemon.decide import Situation, decide
from metastore.daemon.gain import Facts
from metastore.daemon.health import PARTS, health_of
from metastore.daemon.history import day_of, last_runs
from metastore.daemon.policy import WORKSPACE_ACTIONS, Action, TableName, effective, policies
from metastore.daemon.probe import lines_of
from metastore.errors import InvalidRequestError, MetastoreError
from metastore.ground.epoch import moment_of_millis
from metastore.model.run_unit import RunUnit
from metastore.overview.formats import setting_value
from metastore.session import Session

Health = Callable[[], Mapping[str, Any]]
"""Returns the document of the daemon's ``/healthz``; raises a MetastoreError if no daemon answers."""

_RUNS: Final = 100
_DAYS: Final = 7
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class ActionState:
    """One action on one table: whether it is enabled and due, since or from when, why, and its last run."""

    action: str
    enabled: bool
    due: bool
    at: datetime | None
    reason: str
    failures: int
    last: datetime | None


@dataclass(frozen=True)
class PolicyValue:
    """One value of a policy, with the key and the file that set it."""

    name: str
    value: str
    key: str
    origin: str


@dataclass(frozen=True)
class Upkeep:
    """Maintenance of one table: its actions, and the values of its policy."""

    actions: Sequence[ActionState]
    settings: Sequence[PolicyValue]


@dataclass(frozen=True)
class PolicyPage:
    """The maintenance of one table of a storage plugin or catalog, which need not exist yet."""

    table: str
    upkeep: Upkeep


@dataclass(frozen=True, kw_only=True)
class DaemonPage:
    """The daemon's state as names and texts, or why it is not known; one part of its runs of the last days.

    ``failing`` are the actions whose last run failed, with the number of failures in a row.
    """

    state: Sequence[tuple[str, str]]
    unknown: str | None
    search: str
    days: int
    part: PagePosition
    runs: Sequence[RunUnit]
    failing: Sequence[tuple[str, str, int]]


@dataclass(frozen=True)
class PreviewPage:
    """What one action would do to one table now: its status, what it counted, and why it would not run."""

    table: str
    action: str
    status: str
    result: Mapping[str, Any]
    error: str | None


@dataclass(frozen=True)
class HealthPage:
    """The scores of one table by part: what is measured, its value, and its score from 0 to 100."""

    table: str
    score: int | None
    parts: Sequence[tuple[str, str, float, int]]


def policy_page(session: Session, query: Query) -> PolicyPage:
    """Returns the maintenance of the table ``name``; a recent commit to it, which may delay it, is not looked at."""
    name = TableName.parse(query.require("name"))
    return PolicyPage(str(name), upkeep_of(session, name))


def upkeep_of(session: Session, table: TableName, committed_ms: int | None = None) -> Upkeep:
    """Returns the maintenance of a table, from its policy and the runs of the last days.

    ``committed_ms`` is the time of its newest commit.
    """
    is_of_catalog = table.catalog in session.catalogs.names()
    now_ms = session.metastore.clock.now_ms()
    known = last_runs(_recent(session))
    actions = []
    for policy in policies(session.settings.policies, table):
        if is_of_catalog is (policy.action in WORKSPACE_ACTIONS):
            continue
        last = known.get((str(table), policy.action.value))
        situation = Situation(table, policy, last, Facts(committed_ms=committed_ms))
        decided = decide(situation, session.settings.daemon, now_ms)
        actions.append(
            ActionState(
                action=policy.action.value,
                enabled=policy.enabled,
                due=decided.due,
                at=moment_of_millis(decided.at_ms) if decided.at_ms else None,
                reason=decided.reason,
                failures=last.failures if last else 0,
                last=moment_of_millis(last.started_ms) if last else None,
            )
        )
    values = [
        PolicyValue(name, _readable(each.value), each.key, each.origin)
        for name, each in effective(session.settings.policies, table).items()
    ]
    return Upkeep(actions, values)


def daemon_page(session: Session, query: Query, health: Health) -> DaemonPage:
    """Returns the daemon's state by ``health``, and one part of its runs, newest first, that match ``search``."""
    state: Sequence[tuple[str, str]] = ()
    unknown = None
    try:
        state = list(lines_of(health(), session.metastore.clock.now_ms()))
    except MetastoreError as error:
        unknown = str(error)
    search = query.text("search")
    runs = _recent(session)
    failing = sorted((*key, last.failures) for key, last in last_runs(runs).items() if last.failures)
    wanted = [run for run in reversed(runs) if search.lower() in f"{run.table} {run.action} {run.status}".lower()]
    shown, part = part_of(wanted, query.number("page"), _RUNS)
    return DaemonPage(state=state, unknown=unknown, search=search, days=_DAYS, part=part, runs=shown, failing=failing)


def preview_page(session: Session, query: Query) -> PreviewPage:
    """Returns what the action ``action`` would do to the table ``name``, by a dry run. Raises InvalidRequestError."""
    name, text = TableName.parse(query.require("name")), query.require("action")
    wanted = [each for each in policies(session.settings.policies, name) if each.action.value == text]
    if not wanted:
        raise InvalidRequestError(f"there is no action {text}; there are {', '.join(map(str, Action))}")
    actions = Actions(session, lambda: None, lambda: False, dry_run=True)
    outcome = actions.carry_out(name, wanted[0])
    return PreviewPage(str(name), text, outcome.status, outcome.result, outcome.error)


def health_page(session: Session, query: Query) -> HealthPage:
    """Returns the scores of the table ``name``. Reads the manifests of its current snapshot. Raises NotFoundError."""
    name = TableName.parse(query.require("name"))
    [row] = health_of(session, name, count_orphans=False)
    parts = [
        (each.name, each.meaning, row[each.name], row[f"{each.name}_score"])
        for each in PARTS.values()
        if row[each.name] is not None
    ]
    return HealthPage(str(name), row["score"], parts)


def _recent(session: Session) -> Sequence[RunUnit]:
    """Returns the runs of the last days, oldest first."""
    return session.metastore.runs.since(day_of(session.metastore.clock.now_ms() - _DAYS * _DAY_MS))


def _readable(value: Any) -> str:
    return format_duration(value) if isinstance(value, timedelta) else setting_value(value)
