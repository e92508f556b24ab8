"""Compares the statistics of a file with its rows: counts, smallest and largest values, conditions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from support.doctor.same_rows import plain_values

from metastore.model.column_path import quote
from metastore.model.identity import TableInfo
from metastore.session import Session

_MOST_COLUMNS: Final = 100
"""Number of columns of a file that are tested, from the first."""


def contradictions(session: Session, table: TableInfo, rows: pa.Table) -> Iterator[str]:
    """Yields each answer from statistics that contradicts the ``rows`` of ``table``. Raises the errors of scans."""
    scan = session.tables.scan(table)
    names = rows.column_names[:_MOST_COLUMNS]
    ordered = [name for name in names if _has_order(rows.column(name).type)]
    wanted = {f"count({quote((name,))})": [len(rows) - rows.column(name).null_count] for name in names}
    for name in ordered:
        low, high = _extremes(rows.column(name))
        wanted |= {f"min({quote((name,))})": [low], f"max({quote((name,))})": [high]}
    answer = scan.aggregate(["count(*)", *wanted])
    for asked, expected in {"count(*)": [rows.num_rows], **wanted}.items():
        if (found := plain_values(answer[asked])) != expected:
            yield f"{asked} is {found[0]}, and {expected[0]} is read"
    for name in names:
        yield from _lost_by_conditions(session, table, rows.column(name), name)


def _lost_by_conditions(session: Session, table: TableInfo, column: pa.ChunkedArray[Any], name: str) -> Iterator[str]:
    """Yields conditions on existing values that return wrong numbers of rows."""
    quoted = "`" + name.replace("`", "``") + "`"
    first = column.drop_null().slice(0, 1).to_pylist() if _is_plain(column.type) else []
    for value in first:
        literal = _literal(value)
        if literal is None:
            continue
        for operator, compare in (("=", pc.equal), ("<=", pc.less_equal), (">=", pc.greater_equal)):
            passing: Any = compare(column, pa.scalar(value, column.type))
            expected = int(pc.sum(passing).as_py() or 0)
            found = session.tables.scan(table, f"{quoted} {operator} {literal}", [quote((name,))]).count()
            if found != expected:
                yield f"{name} {operator} {literal} returns {found} rows, and {expected} are read"
    nulls = session.tables.scan(table, f"{quoted} IS NULL", [quote((name,))]).count()
    if nulls != column.null_count:
        yield f"{name} IS NULL returns {nulls} rows, and {column.null_count} nulls are read"


def _has_order(type_: pa.DataType) -> bool:
    return (
        pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_decimal128(type_)
        or pa.types.is_string(type_)
        or pa.types.is_date32(type_)
        or pa.types.is_timestamp(type_)
    )


def _is_plain(type_: pa.DataType) -> bool:
    """Returns whether a comparison of the type with a literal means the same in every engine."""
    naive = pa.types.is_timestamp(type_) and type_.tz is None
    return pa.types.is_integer(type_) or pa.types.is_string(type_) or pa.types.is_date32(type_) or naive


def _literal(value: Any) -> str | None:
    """Returns ``value`` as an SQL literal; None if engines do not agree on its form."""
    match value:
        case datetime() if not getattr(value, "nanosecond", 0):  # engines truncate literals to microseconds
            return f"TIMESTAMP_NTZ '{value.isoformat(' ')}'" if value.year >= 1000 else None
        case date() if not isinstance(value, datetime):
            return f"DATE '{value.isoformat()}'" if value.year >= 1000 else None
        case int():
            return str(value)
        case str() if value.isascii() and value.isprintable() and not {"'", "\\"} & set(value):
            return f"'{value}'"
        case _:
            return None


def _extremes(column: pa.ChunkedArray[Any]) -> list[Any]:
    """Returns the smallest and the largest value; NaN is the largest number."""
    present = column.drop_null()
    if pa.types.is_floating(column.type):
        numbers: list[Any] = present.to_pylist()
        ordered = [value for value in numbers if not math.isnan(value)]
        if len(ordered) < len(numbers):
            return [min(ordered) if ordered else "NaN", "NaN"]
        return [min(ordered, default=None), max(ordered, default=None)]
    found = pc.min_max(present)
    return [plain_values(pa.chunked_array([pa.array([found[side]], column.type)]))[0] for side in ("min", "max")]
