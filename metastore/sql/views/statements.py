"""Stored views as statements and as tables: the results of SHOW CREATE and DESCRIBE. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp

from metastore.ground.quoting import text_constant
from metastore.model.identity import TableInfo
from metastore.model.materialized_view_unit import MaterializedViewMetadataUnit
from metastore.model.tuple_schema import TupleSchema
from metastore.model.view_unit import ViewMetadataUnit
from metastore.sql.views.definition import COLUMN_COMMENTS, COMMENT
from metastore.sql.views.text import DEFAULT_DIALECT

DESCRIPTION = pa.schema(
    [
        pa.field("COLUMN_NAME", pa.string()),
        pa.field("DATA_TYPE", pa.string()),
        pa.field("IS_NULLABLE", pa.string()),
        pa.field("COMMENT", pa.string()),
    ]
)
"""The columns of DESCRIBE: Drill's three columns, and the comment."""


def additional(unit: MaterializedViewMetadataUnit) -> dict[str, Any]:
    """Returns the additional metadata of a materialized view; empty if another program wrote it in another form."""
    try:
        found = json.loads(unit.additional_metadata or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def column_comments(unit: object) -> Mapping[str, str]:
    """Returns the comments on columns, by name; columns without a comment are missing."""
    match unit:
        case ViewMetadataUnit(column_comments=comments):
            return comments or {}
        case MaterializedViewMetadataUnit():
            found: Mapping[str, str] = additional(unit).get(COLUMN_COMMENTS) or {}
            return found
        case _:
            return {}


def create_statement(unit: ViewMetadataUnit | MaterializedViewMetadataUnit) -> str:
    """Returns the statement that defines ``unit``.

    If the query is not in Spark's dialect, a comment before it says so. Such a view must be created through Python,
    where the dialect is an argument.
    """
    comments = column_comments(unit)
    if isinstance(unit, ViewMetadataUnit):
        kind, comment, dialect = "VIEW", unit.comment, unit.dialect or DEFAULT_DIALECT
    else:
        kind, comment, dialect = "MATERIALIZED VIEW", additional(unit).get(COMMENT), DEFAULT_DIALECT
    lines = [f"CREATE {kind} {_quote_table(unit.info)}"]
    if comments:
        columns = TupleSchema.from_json(unit.schema or "{}").columns
        listed = [_identifier(c.name) + _comment(comments.get(c.name)) for c in columns]
        lines[0] += f" ({', '.join(listed)})"
    if comment is not None:
        lines[0] += _comment(comment)
    if dialect != DEFAULT_DIALECT:
        lines.insert(0, f"-- in the SQL of {dialect}")
    return "\n".join([*lines, "AS", unit.sql or ""])


def describe(schema: TupleSchema, comments: Mapping[str, str]) -> pa.Table:
    """Returns the columns of a table or view, as rows."""
    rows = [
        {
            "COLUMN_NAME": column.name,
            "DATA_TYPE": column.type,
            "IS_NULLABLE": "NO" if column.required else "YES",
            "COMMENT": comments.get(column.name),
        }
        for column in schema.columns
    ]
    return pa.Table.from_pylist([*rows, *rows_of_columns_left_out(schema.left_out)], DESCRIPTION)


def rows_of_columns_left_out(reasons: Mapping[str, str]) -> list[dict[str, str | None]]:
    """Returns the rows of columns that reads leave out, behind the others; the comment has type and reason."""
    return [
        {
            "COLUMN_NAME": name,
            "DATA_TYPE": None,
            "IS_NULLABLE": None,
            "COMMENT": f"left out of all reads: {reason}",
        }
        for name, reason in reasons.items()
    ]


def _quote_table(info: TableInfo) -> str:
    return ".".join(_identifier(part) for part in (info.storage_plugin, info.workspace, info.name))


def _identifier(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(DEFAULT_DIALECT)


def _comment(text: str | None) -> str:
    return "" if text is None else " COMMENT " + text_constant(text)
