"""The kind of a value in a query, as far as its SQL shows it: a text, a whole number, a date.

Place in the flow: Spark and DuckDB combine a text and another value in different ways, so the translation from Spark to
DuckDB asks here. The kind of a column is known if it was marked (:func:`mark`, :func:`mark_columns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

DType = exp.DType

WHOLE: Final = frozenset(
    {DType.TINYINT, DType.SMALLINT, DType.INT, DType.BIGINT, DType.UTINYINT, DType.USMALLINT, DType.UINT}
)
FRACTIONS: Final = frozenset({DType.FLOAT, DType.DOUBLE, DType.DECIMAL})
TEXTS: Final = frozenset({DType.TEXT, DType.VARCHAR, DType.CHAR, DType.NVARCHAR, DType.NCHAR})
BYTES: Final = frozenset({DType.BINARY, DType.VARBINARY, DType.BLOB})
INSTANTS: Final = frozenset({DType.TIMESTAMP, DType.TIMESTAMPTZ, DType.TIMESTAMPLTZ})
NESTED: Final = frozenset({DType.STRUCT, DType.ARRAY, DType.MAP})

_KIND: Final = "kind"
_NEVER_TEXT: Final = "never a text"
"""Keys of the marks on a node."""

_MADE_TEXTS: Final = (exp.Upper, exp.Lower, exp.Trim, exp.ConcatWs, exp.Replace, exp.Initcap, exp.RegexpReplace)
_NEVER_TEXTS: Final = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.Predicate, exp.Not, exp.Connector),
    *(exp.Count, exp.Sum, exp.Avg, exp.Length, exp.Abs, exp.Floor, exp.Ceil, exp.Round, exp.Sqrt, exp.Ln),
    *(exp.Year, exp.Quarter, exp.Month, exp.Day, exp.DayOfMonth, exp.DayOfWeek, exp.DayOfYear, exp.WeekOfYear),
    *(exp.Hour, exp.Minute, exp.Second, exp.Extract, exp.DateDiff, exp.TimestampTrunc, exp.RowNumber, exp.StrPosition),
)

_KEEPING_NUMBERS: Final = (exp.Neg, exp.Abs, exp.Round, exp.Max, exp.Min, exp.First, exp.Last, exp.AnyValue, exp.Window)
"""What returns a number of the kind that it gets."""

_BY_CLASS: Final[Mapping[type[exp.Expr], exp.DType]] = {
    exp.Null: DType.NULL,
    exp.Boolean: DType.BOOLEAN,
    exp.HexString: DType.BINARY,
    **dict.fromkeys((exp.Struct, exp.Tuple), DType.STRUCT),
    exp.Array: DType.ARRAY,
    **dict.fromkeys((exp.TsOrDsToDate, exp.CurrentDate, exp.DateTrunc), DType.DATE),
    **dict.fromkeys((exp.TsOrDsAdd, exp.AddMonths, exp.LastDay), DType.DATE),
    **dict.fromkeys(_MADE_TEXTS, DType.TEXT),
}
"""What is of one kind, whatever it is made of."""

_OF_ARROW: Final = (
    (pa.types.is_boolean, DType.BOOLEAN),
    (pa.types.is_int8, DType.TINYINT),
    (pa.types.is_int16, DType.SMALLINT),
    (pa.types.is_int32, DType.INT),
    (pa.types.is_int64, DType.BIGINT),
    (pa.types.is_uint8, DType.UTINYINT),
    (pa.types.is_uint16, DType.USMALLINT),
    (pa.types.is_uint32, DType.UINT),
    (pa.types.is_float32, DType.FLOAT),
    (pa.types.is_float64, DType.DOUBLE),
    (pa.types.is_decimal, DType.DECIMAL),
    (pa.types.is_date, DType.DATE),
    (pa.types.is_string, DType.TEXT),
    (pa.types.is_large_string, DType.TEXT),
    (pa.types.is_binary, DType.BINARY),
    (pa.types.is_large_binary, DType.BINARY),
    (pa.types.is_struct, DType.STRUCT),
    (pa.types.is_list, DType.ARRAY),
    (pa.types.is_large_list, DType.ARRAY),
    (pa.types.is_map, DType.MAP),
)


def kind_of(node: exp.Expr) -> exp.DType | None:
    """Returns the type of ``node``, in Spark's dialect; DType.NULL for NULL, None if its SQL does not show it."""
    node = node.unnest()
    if node.meta.get(_KIND) is not None:
        marked: exp.DType = node.meta[_KIND]
        return marked
    if isinstance(node, _KEEPING_NUMBERS):
        kind = kind_of(node.this)
        return kind if kind in WHOLE | FRACTIONS else None
    if isinstance(node, exp.Cast):
        named: exp.DType = node.to.this
        return named
    if isinstance(node, exp.Literal):
        return _kind_of_literal(node)
    return _BY_CLASS.get(type(node))


def compared_values(node: exp.Expr) -> list[exp.Expr]:
    """Returns the values that a comparison, IN or BETWEEN compares."""
    if isinstance(node, exp.Between):
        return [node.this, node.args["low"], node.args["high"]]
    return [node.this, *node.expressions] if isinstance(node, exp.In) else [node.this, node.expression]


def combined_values(node: exp.Expr) -> list[exp.Expr]:
    """Returns the values of which arithmetic, CASE or a function such as ``coalesce`` makes one."""
    if isinstance(node, exp.Case):
        results = [*(each.args["true"] for each in node.args["ifs"]), node.args.get("default")]
    elif isinstance(node, (exp.If, exp.Nvl2)):
        results = [node.args["true"], node.args.get("false")]
    else:
        results = [node.this, *([node.expression] if isinstance(node, exp.Binary) else node.expressions)]
    return [each for each in results if each is not None]


def is_never_text(node: exp.Expr) -> bool:
    """Whether ``node``, of unknown kind, certainly returns no texts."""
    inner = node.unnest()
    return isinstance(inner, _NEVER_TEXTS) or bool(inner.meta.get(_NEVER_TEXT))


def _kind_of_literal(node: exp.Literal) -> exp.DType:
    if node.is_string:
        return DType.TEXT
    if "e" in node.name.lower():
        return DType.DOUBLE
    return DType.DECIMAL if "." in node.name else DType.BIGINT


def mark(node: exp.Expr, type_: pa.DataType) -> None:
    """Mark ``node`` with the kind of an Arrow type."""
    found = next((kind for is_, kind in _OF_ARROW if is_(type_)), None)
    if pa.types.is_timestamp(type_):
        found = DType.TIMESTAMPTZ if type_.tz is not None else DType.TIMESTAMPNTZ
    if found is not None:
        node.meta[_KIND] = found


def mark_kind(node: exp.Expr, kind: exp.DType) -> None:
    """Mark ``node`` with its kind."""
    node.meta[_KIND] = kind


def mark_as(node: exp.Expr, original: exp.Expr) -> None:
    """Mark ``node`` with the kind of ``original``."""
    kind, never_text = kind_of(original), is_never_text(original)
    for each in {id(part): part for part in (node, node.unnest())}.values():
        each.meta[_KIND], each.meta[_NEVER_TEXT] = kind, never_text


def mark_columns(query: exp.Expr, schemas: Iterable[pa.Schema]) -> None:
    """Mark the types of columns in ``query``, which reads only tables of ``schemas``, if the name determines the type.

    It does so if all tables with such a column agree on its type, and the query itself creates no such column.
    """
    query = _without_wrapper(query)
    types: dict[str, set[Any]] = {}
    for schema in schemas:
        for field in schema:
            types.setdefault(field.name.lower(), set()).add(field.type)
    made = {item.alias.lower() for item in query.find_all(exp.Alias) if not isinstance(item.this, exp.Column)}
    made |= {item.alias.lower() for item in query.find_all(exp.Alias) if item.alias.lower() != item.this.name.lower()}
    named = {column.name.lower() for alias in query.find_all(exp.TableAlias) for column in alias.columns}
    tables = {table.alias_or_name.lower() for table in query.find_all(exp.Table, exp.Subquery, exp.CTE)}
    for column in query.find_all(exp.Column):
        name, table = column.name.lower(), column.table.lower()
        is_sure = name not in made | named and (not table or (table in tables and table not in types))
        if is_sure and len(found := types.get(name, set())) == 1:
            mark(column, next(iter(found)))


def _without_wrapper(query: exp.Expr) -> exp.Expr:
    """Returns the query inside a SELECT that only projects it: names mean its own columns there."""
    while isinstance(query, exp.Select):
        used = {name for name, value in query.args.items() if value}
        from_ = query.args.get("from_")
        if used != {"expressions", "from_"} or from_ is None or not isinstance(from_.this, exp.Subquery):
            return query
        query = from_.this.this
    return query
