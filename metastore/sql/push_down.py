"""What a query asks of one table that it names: columns, and a condition on its rows. Pure.

Both err to one side only: columns that may be needed are among those named, and rows that the query needs satisfy the
condition. DuckDB still carries out the whole query, so that what is not understood here costs time and no row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    NotEqualTo,
    NotIn,
    NotNull,
    Or,
    SetPredicate,
    StartsWith,
    UnaryPredicate,
    UnboundPredicate,
)
from sqlglot import exp

from metastore.sql.query_text import QueryText, Reference

_COMPARISONS: Final[Mapping[type[exp.Expr], Any]] = {
    exp.EQ: EqualTo,
    exp.NEQ: NotEqualTo,
    exp.LT: LessThan,
    exp.LTE: LessThanOrEqual,
    exp.GT: GreaterThan,
    exp.GTE: GreaterThanOrEqual,
}
_MIRRORED: Final[Mapping[type[exp.Expr], type[exp.Expr]]] = {
    exp.LT: exp.GT,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.GTE: exp.LTE,
}
_UNKNOWN: Final = AlwaysTrue()
_PLAIN_JOINS: Final = {"", "INNER", "CROSS", "SEMI", "ANTI"}


@dataclass(frozen=True)
class Asked:
    """What is read of a table."""

    columns: tuple[str, ...]
    condition: BooleanExpression


def asked_of(query: QueryText, reference: Reference, schema: pa.Schema) -> Asked:
    """What ``query`` needs of the table at ``reference``, which has the columns ``schema``."""
    return Asked(_columns(query, reference, schema), _condition(reference.node, schema))


_SIGNS: Final[Mapping[type[BooleanExpression], str]] = {
    EqualTo: "=",
    NotEqualTo: "<>",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}
_TESTS: Final[Mapping[type[BooleanExpression], str]] = {
    IsNull: "IS NULL",
    NotNull: "IS NOT NULL",
    IsNaN: "IS NAN",
}


def said(condition: BooleanExpression) -> str:
    """A condition in SQL's words, for people."""
    match condition:
        case And():
            return f"{said(condition.left)} AND {said(condition.right)}"
        case Or():
            return f"({said(condition.left)} OR {said(condition.right)})"
        case UnaryPredicate():
            return f"{_name(condition)} {_TESTS[type(condition)]}"
        case SetPredicate():
            values = ", ".join(sorted(_text(each.value) for each in condition.literals))
            return f"{_name(condition)} {'IN' if isinstance(condition, In) else 'NOT IN'} ({values})"
        case StartsWith():
            return f"{_name(condition)} LIKE {_text(f'{condition.literal.value}%')}"
        case LiteralPredicate():
            return f"{_name(condition)} {_SIGNS[type(condition)]} {_text(condition.literal.value)}"
    return "TRUE"


def _name(test: UnboundPredicate) -> str:
    return str(getattr(test.term, "name", test.term))


def _text(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _columns(query: QueryText, reference: Reference, schema: pa.Schema) -> tuple[str, ...]:
    """Columns whose names stand anywhere in the query; all where it may mean them without naming them."""
    select = reference.node.find_ancestor(exp.Select)
    if select is None or _means_all(query, reference, select):
        return tuple(schema.names)
    return tuple(name for name in schema.names if name.lower() in query.names) or _cheapest(schema)


def _means_all(query: QueryText, reference: Reference, select: exp.Select) -> bool:
    if not select.expressions or any(_takes_all(each) for each in select.expressions):
        return True
    if reference.node.args.get("pivots") or any(join.method for join in select.args.get("joins") or ()):
        return True
    # The name of the table alone is its whole row; COLUMNS('…') means columns by a pattern.
    alias = reference.node.alias_or_name.lower()
    rows = (not each.table and each.name.lower() == alias for each in query.tree.find_all(exp.Column))
    return any(rows) or query.tree.find(exp.Columns) is not None


def _takes_all(projection: exp.Expr) -> bool:
    return any(not isinstance(star.parent, exp.Count) for star in projection.find_all(exp.Star))


def _cheapest(schema: pa.Schema) -> tuple[str, ...]:
    """One column to count rows by: a fixed width is little to read."""
    fixed = [field.name for field in schema if pa.types.is_primitive(field.type)]
    return (*fixed, *schema.names)[:1]


def _condition(table: exp.Table, schema: pa.Schema) -> BooleanExpression:
    """What WHERE asks of the rows of ``table`` alone, as far as it is understood."""
    select = table.find_ancestor(exp.Select)
    where = select.args.get("where") if select is not None else None
    if select is None or where is None or table.args.get("sample") or select.args.get("sample"):
        return _UNKNOWN
    from_ = select.args.get("from_") or select.args.get("from")
    joins = select.args.get("joins") or []
    others = [from_.this if from_ is not None else None, *(join.this for join in joins)]
    if not any(other is table for other in others) or not _may_go_first(table, joins):
        return _UNKNOWN
    return _Conditions(table.alias_or_name.lower(), _by_lower(schema), alone=len(others) == 1).of(where.this)


def _may_go_first(table: exp.Table, joins: list[exp.Join]) -> bool:
    """Whether rows that WHERE drops may be dropped before the joins.

    Not on the side of an outer join that is filled with nulls, and not where joins look for the nearest row, or
    count rows.
    """
    for join in joins:
        if join.method not in {"", "NATURAL"} or (join.kind or "") not in _PLAIN_JOINS:
            return False
        if join.side and (join.side != "LEFT" or join.this is table):
            return False
    return True


def _by_lower(schema: pa.Schema) -> dict[str, pa.Field[Any]]:
    """Fields by their names in lower case, without those that differ in case only."""
    found: dict[str, pa.Field[Any]] = {}
    twice = set()
    for field in schema:
        name = field.name.lower()
        twice |= {name} & found.keys()
        found[name] = field
    return {name: field for name, field in found.items() if name not in twice}


@dataclass(frozen=True)
class _Conditions:
    """Conditions on columns of the table called ``alias``; ``alone`` when names without a table can mean no other."""

    alias: str
    fields: Mapping[str, pa.Field[Any]]
    alone: bool

    def of(self, node: exp.Expr) -> BooleanExpression:
        """A condition that holds wherever ``node`` does."""
        if isinstance(node, exp.Paren):
            return self.of(node.this)
        if isinstance(node, exp.And):
            return And(self.of(node.left), self.of(node.right))
        if isinstance(node, exp.Or):
            return Or(self.of(node.left), self.of(node.right))
        if isinstance(node, exp.Not):
            return self._negated(node.this)
        if type(node) in _COMPARISONS:
            return self._comparison(node)
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            low = exp.GTE(this=node.this, expression=node.args["low"])
            high = exp.LTE(this=node.this, expression=node.args["high"])
            return And(self._comparison(low), self._comparison(high))
        return self._leaf(node)

    def _leaf(self, node: exp.Expr) -> BooleanExpression:
        field = self._field(node.this) if isinstance(node, exp.In | exp.Is | exp.Like) else None
        if field is None:
            return _UNKNOWN
        if isinstance(node, exp.Is):
            return IsNull(field.name) if isinstance(node.expression, exp.Null) else _UNKNOWN
        if isinstance(node, exp.In):
            values = self._values(node, field)
            return _one_of(field, values) if values else _UNKNOWN
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or not pattern.is_string or not _is_text(field.type):
            return _UNKNOWN
        prefix = min(pattern.this.partition("%")[0], pattern.this.partition("_")[0], key=len)
        if prefix == pattern.this:
            return EqualTo(field.name, prefix)
        return StartsWith(field.name, prefix) if prefix else NotNull(field.name)

    def _negated(self, node: exp.Expr) -> BooleanExpression:
        """Only for what is understood exactly: the opposite of too much would be too little."""
        inner = node.this if isinstance(node, exp.Paren) else node
        field = self._field(inner.this) if isinstance(inner, exp.In | exp.Is) else None
        if field is not None and isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return NotNull(field.name)
        if field is not None and isinstance(inner, exp.In):
            values = self._values(inner, field)
            return NotIn(field.name, values) if values else _UNKNOWN
        return _UNKNOWN

    def _comparison(self, node: exp.Expr) -> BooleanExpression:
        left, right, kind = node.this, node.expression, type(node)
        field = self._field(left)
        if field is None:
            left, right, kind = right, left, _MIRRORED.get(kind, kind)
            field = self._field(left)
        value = None if field is None else _value(right, field.type)
        if field is None or value is None:
            return _UNKNOWN
        found: BooleanExpression = _COMPARISONS[kind](field.name, value)
        if pa.types.is_floating(field.type) and kind in {exp.GT, exp.GTE}:
            return Or(found, IsNaN(field.name))  # DuckDB has NaN above all other numbers
        return found

    def _values(self, node: exp.In, field: pa.Field[Any]) -> set[Any] | None:
        """What the list of an IN holds; None unless all of it is understood."""
        if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            return None
        values = [_value(each, field.type) for each in node.expressions]
        return None if not values or None in values else set(values)

    def _field(self, node: exp.Expr) -> pa.Field[Any] | None:
        """The column that ``node`` is, if it surely is one of this table."""
        if not isinstance(node, exp.Column) or node.args.get("db") or node.args.get("catalog"):
            return None
        table = node.table.lower()
        if table != self.alias and (table or not self.alone):
            return None
        return self.fields.get(node.name.lower())


def _one_of(field: pa.Field[Any], values: set[Any]) -> BooleanExpression:
    """IN; of floats as comparisons, to which -0.0 is zero: who looks it up in a set does not find it."""
    if not pa.types.is_floating(field.type):
        return In(field.name, values)
    found: BooleanExpression = AlwaysFalse()
    for value in values:
        found = Or(found, EqualTo(field.name, value))
    return found


def _value(node: exp.Expr, type_: pa.DataType) -> Any:
    """The constant that ``node`` is, as DuckDB takes it beside a column of ``type_``; None if that is not certain."""
    if isinstance(node, exp.Paren):
        return _value(node.this, type_)
    if isinstance(node, exp.Boolean):
        return bool(node.this) if pa.types.is_boolean(type_) else None
    if isinstance(node, exp.Neg):
        value = _value(node.this, type_)
        return -value if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None
    if isinstance(node, exp.Cast) and node.to.this in {exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ}:
        return _moment(node.this, type_) if _is_moment(node.to.this, type_) else None
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return node.this if _is_text(type_) else _moment(node, type_)
    try:
        number = Decimal(node.this)
    except InvalidOperation:
        return None
    if pa.types.is_integer(type_):
        return int(number) if number == number.to_integral_value() and abs(number) < 1 << 63 else None
    if pa.types.is_float64(type_):
        return float(number)
    return _scaled(number, type_.scale) if pa.types.is_decimal(type_) else None


def _scaled(number: Decimal, scale: int) -> Decimal | None:
    """``number`` with as many digits as the column has; None when it has more."""
    try:
        scaled = number.quantize(Decimal(1).scaleb(-scale))
    except InvalidOperation:
        return None
    return scaled if scaled == number else None


def _is_text(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_)


def _is_moment(kind: exp.DType, type_: pa.DataType) -> bool:
    """Whether a constant of ``kind`` keeps its meaning beside a column of ``type_``."""
    return pa.types.is_date32(type_) if kind is exp.DType.DATE else pa.types.is_timestamp(type_)


def _moment(node: exp.Expr, type_: pa.DataType) -> str | None:
    """A day or a point in time as PyIceberg spells it; None for what only DuckDB can read."""
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    text = node.this
    try:
        if pa.types.is_date32(type_):
            return date.fromisoformat(text).isoformat() if len(text) == 10 else None
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if not pa.types.is_timestamp(type_) or len(text) < 10:
        return None
    if type_.tz is None:
        return moment.isoformat(timespec="microseconds") if moment.tzinfo is None else None
    # The session's zone is UTC.
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    return aware.astimezone(timezone.utc).isoformat(timespec="microseconds")
