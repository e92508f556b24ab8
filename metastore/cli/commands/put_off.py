"""``deletions``: the list of files whose deletion is put off, and what an operator does with its entries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from metastore.cli.incomplete import Incomplete
from metastore.errors import MetastoreError
from metastore.ground.epoch import moment_of_millis
from metastore.overview.results import Rows
from metastore.session import Session

_COLUMNS: Final = ("table", "path", "bytes", "since", "due", "reason")


def deletions(session: Session, keep: Sequence[str], release: Sequence[str], table: str | None) -> Rows:
    """Take back and release what is named; returns the list then, without a time in ``due`` for what was taken back.

    Raises NotFoundError for a name without an entry.
    """
    if keep:
        session.deletions.keep(*keep)
    if release:
        session.deletions.release(*release)
    return Rows(
        _COLUMNS,
        tuple(
            (
                each.table,
                each.path,
                each.bytes,
                _moment(each.since_ms),
                None if each.due_ms is None else _moment(each.due_ms),
                each.reason if each.due_ms is not None else f"{each.reason}, taken back",
            )
            for each in session.deletions.entries()
            if table in (None, each.table)
        ),
        readable=True,
    )


def delete_due(session: Session) -> Rows | Incomplete:
    """Delete what is due; returns one row a table."""
    outcomes = session.delete_due()
    rows = Rows(("table", "outcome"), tuple((table, str(outcome)) for table, outcome in outcomes.items()))
    failed = [each for each in outcomes.values() if isinstance(each, MetastoreError) or each.failed]
    return Incomplete(rows, f"files of {len(failed)} of {len(outcomes)} tables stay") if failed else rows


def _moment(millis: int) -> datetime | None:
    """Returns the moment to the second."""
    return moment_of_millis(millis // 1000 * 1000)
