"""``analyze`` of several tables: one row a table, and a failure at the end if one of them failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from metastore.analyze.request import AnalyzeRequest
from metastore.analyze.worklist import TableOutcome, is_pattern
from metastore.cli.incomplete import Incomplete
from metastore.errors import InvalidRequestError
from metastore.overview.results import Rows
from metastore.session import Session

_COLUMNS: Final = ("table", "status", "files", "new", "changed", "removed", "rows", "seconds", "error")


def is_several(session: Session, table: str) -> bool:
    """Returns whether ``table`` stands for several tables: a pattern, or a whole workspace."""
    return is_pattern(table, session.settings)


def analyze(
    session: Session, pattern: str | None, request: AnalyzeRequest, on_progress: Callable[[int, int], None]
) -> Rows | Incomplete:
    """Analyzes each table that matches ``pattern``, or all. Raises what :meth:`Session.analyze_all` raises."""
    if (given := [name for name in ("schema", "format", "options") if getattr(request, name)]) and pattern is None:
        raise InvalidRequestError(f"{', '.join(given)}: such options are for one table or pattern, not for --all")
    tables = session.tables_matching(*(() if pattern is None else (pattern,)))
    outcomes = []
    for done, outcome in enumerate(session.analyze_all(tables, request), start=1):
        outcomes.append(outcome)
        on_progress(done, len(tables))
    rows = Rows.by_name(_COLUMNS, map(_row, outcomes))
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if not failed:
        return rows
    return Incomplete(rows, f"{len(failed)} of {len(outcomes)} tables could not be analyzed, and stay as they were")


def _row(outcome: TableOutcome) -> Mapping[str, Any]:
    result, error = outcome.result, outcome.error
    row = dict.fromkeys(_COLUMNS) | {"table": str(outcome.table)}
    if result is None:
        return row | {"status": "failed", "error": None if error is None else f"{error.code}: {error}"}
    return row | {name: getattr(result, name) for name in _COLUMNS[1:-1]} | {"seconds": round(result.seconds, 3)}
