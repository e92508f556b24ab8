"""Trino's ``TABLE(system.table_changes(…))``: the rows that some snapshots changed, as ``"t$changes"`` has them.

::

    TABLE([catalog.]system.table_changes([schema_name =>] 'db', [table_name =>] 't',
          [[start_snapshot_id =>] 1 [, [end_snapshot_id =>] 2]]))

Place in the flow: DuckDB has no such function, so a query names the metadata table instead before it is parsed. The
rows of the snapshot of the start are not among the changes, those of the end are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import TokenType

from metastore.ground.quoting import double_quoted
from metastore.lake.iceberg.rows.changelog import SnapshotRange
from metastore.lake.inspection.of_changes import CHANGES
from metastore.procedures.framework.arguments import Argument
from metastore.procedures.framework.binding import bind
from metastore.procedures.framework.model import BaseProcedure, columns
from metastore.sql.call import given_arguments
from metastore.sql.queries.version_clauses import RequestedVersion
from metastore.sql.statement import Cursor, Statement

_NAME: Final = ("SYSTEM", "TABLE_CHANGES")
_IDS: Final = ("start_snapshot_id", "end_snapshot_id")
_FUNCTION: Final = BaseProcedure(
    "system",
    "table_changes",
    [
        Argument("schema_name"),
        Argument("table_name"),
        *(Argument(name, "BIGINT", required=False) for name in _IDS),
    ],
    result=columns(),
)


def table_changes(statement: Statement) -> Iterator[tuple[int, int, str, RequestedVersion]]:
    """Yield each place of such a call, the name of the table that stands for it, and which snapshots it means.

    Raises InvalidRequestError, at the argument, for arguments that do not fit.
    """
    for index, token in enumerate(statement.tokens):
        cursor = Cursor(statement, index)
        if not (cursor.accept_word("TABLE") and cursor.accept(TokenType.L_PAREN) and cursor.word):
            continue
        names = cursor.names("a function")
        if tuple(name.text.upper() for name in names[-2:]) != _NAME or not cursor.accept(TokenType.L_PAREN):
            continue
        found = bind(_FUNCTION, given_arguments(cursor), statement.place(names[0].token))
        end = cursor.expect(TokenType.R_PAREN, ")").end + 1
        parts = [
            *(name.text for name in names[:-2]),
            *found["schema_name"].split("."),
            f"{found['table_name']}${CHANGES}",
        ]
        between = SnapshotRange(*(found[name] for name in _IDS))
        yield token.start, end, ".".join(map(double_quoted, parts)), RequestedVersion(between, names[-1].token)
