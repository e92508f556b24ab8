"""``daemon``, ``policy``, ``runs``, ``health`` and ``report``: maintain tables, and watch the maintenance."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from metastore.cli.incomplete import Incomplete
from metastore.cli.invocation import Invocation
from metastore.config.catalogs import OWN_CATALOG
from metastore.config.policy_effects import values_without_effect
from metastore.config.units import format_duration
from metastore.daemon.endpoint import Pages
from metastore.daemon.health import COLUMNS, health_of
from metastore.daemon.inquiry import Inquiries
from metastore.daemon.listing import look_at
from metastore.daemon.logs import JsonLines, TextLines, message_of
from metastore.daemon.loop import check_schedules
from metastore.daemon.policy import TableName, effective
from metastore.daemon.probe import health_of_daemon, lines_of, require_health
from metastore.daemon.process import run_once, serve
from metastore.daemon.report import draw
from metastore.daemon.state import State
from metastore.daemon.unmatched_policies import find_unmatched
from metastore.daemon.workspaces import tables_of
from metastore.errors import NotFoundError
from metastore.model.run_unit import RunUnit
from metastore.overview.formats import plural
from metastore.overview.results import DaemonEnd, Rows
from metastore.session import Session

_log: Final = logging.getLogger(__name__)

_RUN_COLUMNS: Final = (
    "started",
    "table",
    "action",
    "status",
    "reason",
    "seconds",
    "files_before",
    "files_after",
    "bytes_before",
    "bytes_after",
    "snapshots_before",
    "snapshots_after",
    "result",
    "error",
    "host",
    "token",
    "requests",
    "bytes_received",
    "bytes_sent",
)


def daemon(invocation: Invocation, *, once: bool, dry_run: bool, as_json_lines: bool) -> Rows | Incomplete | DaemonEnd:
    """Run the daemon until a signal ends it. With ``once`` or ``dry_run``, make one pass and return its runs.

    Raises ConfigError, and ConflictError if ``once`` finds another daemon at work.
    """
    # Cron and Kubernetes see only the exit code of a pass: it tells whether all runs succeeded.
    invocation.output.log_lines(JsonLines() if as_json_lines else TextLines())
    if once or dry_run:
        state = State()
        found = run_once(invocation.session, dry_run=dry_run, state=state)
        failed = sum(run.status == "failed" for run in found)
        wrong = [plural(failed, "run") + " failed"] if failed else []
        counts = Counter(place.partition(" ")[0] for place in state.passed_over)
        wrong += [f"{plural(count, kind)} passed over" for kind, count in sorted(counts.items())]
        return Incomplete(_runs(found), "; ".join(wrong)) if wrong else _runs(found)
    serve(invocation.load, invocation.open_session, _console if find_spec("jinja2") else None)
    _log.info("the daemon ended; `metastore runs` lists what it did")
    return DaemonEnd()


def _console(session: Callable[[], Session], health: Callable[[], Mapping[str, Any]]) -> Pages:
    from metastore.console.pages import Console  # noqa: PLC0415 - needs the extra `serve`

    console = Console(session, health)

    def page(target: str) -> tuple[HTTPStatus, Mapping[str, str], bytes]:
        answer = console.answer(target)
        return answer.status, answer.headers, answer.body

    return page


def ask(invocation: Invocation, *, only_health: bool) -> Rows:
    """Returns how the running daemon is. With ``only_health``, raises StorageError if it should be restarted."""
    health = health_of_daemon(invocation.settings.daemon.endpoint)
    if only_health:
        require_health(health)
        return Rows(("status",), ((health["status"],),))
    return Rows(("what", "state"), tuple(lines_of(health, round(time.time() * 1000))), readable=True)


def explain(invocation: Invocation, table: str) -> Rows:
    """Returns every value that applies to a table, with its key and file. The table need not exist yet.

    Warns about a missing table, values without effect on it, and policies for its catalog that match nothing.

    Raises InvalidRequestError for a wrong table name, NotFoundError for a catalog that is not configured, ConfigError
    for a schedule that the daemon would refuse. Cron expressions are not checked if their library is missing.
    """
    settings = invocation.settings
    if find_spec("croniter") is not None:
        check_schedules(settings.policies)
    name = TableName.parse(table)
    if name.catalog not in (known := [OWN_CATALOG, *settings.catalogs, *sorted(settings.policies.plugins)]):
        raise NotFoundError(f"no catalog or storage plugin {name.catalog} is configured; there are {', '.join(known)}")
    _warn_of_unmatched(invocation.session, name)
    values = effective(settings.policies, name)
    for note in values_without_effect(values, name.catalog, settings.policies.plugins):
        if note not in settings.warnings:
            _log.warning("%s", note)
    rows = ((name, _readable(given.value), given.key, given.origin) for name, given in values.items())
    return Rows(("setting", "value", "key", "set in"), tuple(rows), readable=True)


def _warn_of_unmatched(session: Session, table: TableName) -> None:
    settings = session.settings
    inquiries = Inquiries(settings.daemon.answer_timeout.total_seconds())
    seen, passed_over = look_at(partial(tables_of, session), [table.catalog], inquiries)
    for place, error in passed_over.items():
        _log.warning("%s is skipped, so its policies could not be checked: %s", place, message_of(error))
    for each in find_unmatched(settings.policies, seen):
        _log.warning("%s", each)
    if table not in seen.tables and not passed_over:
        _log.warning("the table %s does not exist yet", table)


def runs(session: Session, table: str | None, limit: int | None) -> Rows:
    """Returns the daemon's runs, newest first."""
    found = session.metastore.runs.since("")[::-1]
    return _runs([run for run in found if table in (None, run.table)][:limit])


def health(session: Session, table: str | None, *, orphans: bool) -> Rows:
    """Returns the scores of one table or of all, worst first. For one table, orphans are always counted."""
    name = TableName.parse(table) if table else None
    return Rows.by_name(COLUMNS, health_of(session, name, count_orphans=orphans or name is not None))


def report(session: Session, file: Path, table: str | None) -> Rows:
    """Write the chart and return what it shows. Raises NotFoundError if there is nothing to show."""
    name = TableName.parse(table) if table else None
    shown = draw(session, file, name)
    return Rows(("file", "tables"), ((str(file), shown),))


def _runs(runs: Sequence[RunUnit]) -> Rows:
    return Rows.by_name(_RUN_COLUMNS, map(_row, runs))


def _row(run: RunUnit) -> dict[str, Any]:
    row = {name: getattr(run, name, None) for name in _RUN_COLUMNS}
    row["started"] = datetime.fromtimestamp((run.started or 0) / 1000, tz=timezone.utc)
    row["seconds"] = (run.milliseconds or 0) / 1000
    result = json.loads(run.result) if run.result else {}
    row["result"] = {name: value for name, value in result.items() if value} or None
    return row


def _readable(value: Any) -> Any:
    return format_duration(value) if isinstance(value, timedelta) else value
