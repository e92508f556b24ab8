"""``sql``, ``call``, ``procedures``: statements by the session's one door, and their rows.

Promises of rows: every value stands in its own column, also where two columns have one name; and a value that Python
has no type for, such as a date after the year 9999, is text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from metastore.errors import InvalidRequestError
from metastore.session import Session
from metastore.sql.statement import Statement

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Rows:
    """What a statement returned: the names of the columns, and the rows, each with a value for each of them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, table: pa.Table, maps_as_pydicts: Literal["strict"] | None = None) -> Rows:
        """Those of an Arrow table."""
        values = [_values(column, maps_as_pydicts) for column in table.columns]
        return cls(tuple(table.column_names), tuple(zip(*values, strict=True)))

    @classmethod
    def by_name(cls, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Rows:
        """Those that were made here, whose names differ."""
        return cls(tuple(columns), tuple(tuple(row[name] for name in columns) for row in rows))

    def as_document(self) -> Mapping[str, Any]:
        """Each row by the names of its columns; the second one of a name ``a`` is called ``a_2``."""
        names = list(_apart(self.columns))
        return {"columns": names, "rows": [dict(zip(names, row, strict=True)) for row in self.rows]}


def sql(session: Session, text: str, on_progress: OnProgress | None = None) -> Rows:
    """Run any one statement. Raises as :meth:`Session.sql`."""
    return Rows.of(session.sql(text, on_progress))


def call(session: Session, text: str, on_progress: OnProgress | None = None) -> Rows:
    """Run a statement that is a CALL. Raises InvalidRequestError for any other, and as :meth:`Session.sql`."""
    if Statement.parse(text).word(0) != "CALL":
        raise InvalidRequestError("CALL catalog.schema.name(…) is expected; `metastore sql` runs other statements")
    return sql(session, text, on_progress)


def procedures(session: Session, catalog: str | None) -> Rows:
    """Every procedure that can be called, or those in ``catalog``. Raises NotFoundError."""
    return Rows.of(session.procedures.list(catalog))


def _apart(columns: Sequence[str]) -> Iterator[str]:
    """The names, none of them twice."""
    taken, seen = set(columns), set[str]()
    for name in columns:
        own, number = name, 1
        while own in seen or (number > 1 and own in taken):
            number += 1
            own = f"{name}_{number}"
        seen.add(own)
        yield own


def _values(column: pa.ChunkedArray[Any], maps_as_pydicts: Literal["strict"] | None) -> list[Any]:
    try:
        return column.to_pylist(maps_as_pydicts=maps_as_pydicts)
    except OverflowError:
        return [_value(each, maps_as_pydicts) for each in column]


def _value(scalar: pa.Scalar[Any], maps_as_pydicts: Literal["strict"] | None) -> Any:
    """In Python's types where they reach, else with its times as text."""
    try:
        return scalar.as_py(maps_as_pydicts=maps_as_pydicts)
    except OverflowError:
        return scalar.cast(_with_times_as_text(scalar.type)).as_py(maps_as_pydicts=maps_as_pydicts)


def _with_times_as_text(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.StructType):
        return pa.struct([(field.name, _with_times_as_text(field.type)) for field in kind])
    if isinstance(kind, pa.ListType):
        return pa.list_(_with_times_as_text(kind.value_type))
    if isinstance(kind, pa.MapType):
        return pa.map_(_with_times_as_text(kind.key_type), _with_times_as_text(kind.item_type))
    return pa.string() if pa.types.is_date(kind) or pa.types.is_timestamp(kind) else kind
