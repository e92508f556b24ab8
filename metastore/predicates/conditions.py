"""What the WHERE of a query says of the rows of one table alone, as a condition that a scan can be pruned by. Pure.

Rows that the query needs satisfy the condition; what is not understood is taken for true, since DuckDB still carries
out the whole query.

A node of the tree is understood when it is of a known kind and every argument that it has is one that is known here
(:data:`_ARGUMENTS`). So what a parser learns to say of a node, such as that it is negated, makes it unknown and not
wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timezone
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
    NotEqualTo,
    NotIn,
    NotNull,
    Or,
    StartsWith,
)
from sqlglot import exp

from metastore.predicates.written_times import date_of, timestamp_of

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
_TWO_SIDES: Final = frozenset({"this", "expression"})
_ARGUMENTS: Final[Mapping[type[exp.Expr], frozenset[str]]] = {
    **dict.fromkeys((exp.And, exp.Or, exp.Is, exp.Like, *_COMPARISONS), _TWO_SIDES),
    **dict.fromkeys((exp.Paren, exp.Not, exp.Neg, exp.Boolean, exp.DataType), frozenset({"this"})),
    exp.Null: frozenset(),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "expressions"}),
    exp.Column: frozenset({"this", "table"}),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.Table: frozenset({"this", "db", "catalog", "alias"}),
    exp.TableAlias: frozenset({"this"}),
    exp.Join: frozenset({"this", "on", "using", "side", "kind", "method"}),
    exp.Select: frozenset({"with_", "expressions", "distinct", "from_", "joins", "where", "group", "having"})
    | {"qualify", "windows", "order", "limit", "offset"},
}
"""What is understood of each kind of node, when it has no other argument than these."""

_WHOLE_HOURS: Final = re.compile(r"(?<=\d)([+-]\d\d)$", re.ASCII)
"""The end of a time with an offset in hours, or of a day."""


def _is_understood(node: Any, *kinds: type[exp.Expr]) -> bool:
    """Whether ``node`` is of one of ``kinds``, none of their heirs, and says nothing that is not known here."""
    return type(node) in kinds and all(name in _ARGUMENTS[type(node)] for name, value in node.args.items() if value)


def is_plain(table: exp.Table, *more: str) -> bool:
    """Whether nothing hangs on a table but its name, an alias that renames no column, and ``more`` arguments."""
    alias = table.args.get("alias")
    others = {name for name, value in table.args.items() if value} - _ARGUMENTS[exp.Table]
    return others <= set(more) and (alias is None or _is_understood(alias, exp.TableAlias))


def condition_on(tree: exp.Expr, table: exp.Table, schema: pa.Schema) -> BooleanExpression:
    """What WHERE asks of the rows of ``table``, a node of ``tree``, alone; AlwaysTrue where that is not understood."""
    select = table.find_ancestor(exp.Select)
    if select is None or not _is_understood(select, exp.Select) or tree.find(exp.Pivot) is not None:
        return _UNKNOWN
    where, from_, joins = select.args.get("where"), select.args.get("from_"), select.args.get("joins") or []
    if where is None or from_ is None:
        return _UNKNOWN
    others = [from_.this, *(join.this for join in joins)]
    if not any(other is table for other in others) or not _may_go_first(table, others, joins):
        return _UNKNOWN
    return _Conditions(table.alias_or_name.lower(), _by_lower(schema), alone=len(others) == 1).of(where.this)


def _may_go_first(table: exp.Table, others: list[exp.Expr], joins: list[exp.Join]) -> bool:
    """Whether rows of ``table``, one of ``others``, that WHERE drops may be dropped before the joins.

    Not on the side of an outer join that is filled with nulls, and not where joins look for the nearest row, or
    count rows. Nor where more hangs on a table than its name, such as the joins of a FROM that comes first.
    """
    if not is_plain(table):
        return False
    names = [other.alias_or_name.lower() for other in others]
    if names.count(table.alias_or_name.lower()) > 1 or any(other.args.get("joins") for other in others):
        return False
    for join in joins:
        if not _is_understood(join, exp.Join):
            return False
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
        if _is_understood(node, exp.Paren):
            return self.of(node.this)
        if _is_understood(node, exp.And):
            return And(self.of(node.this), self.of(node.expression))
        if _is_understood(node, exp.Or):
            return Or(self.of(node.this), self.of(node.expression))
        if _is_understood(node, exp.Not):
            return self._negated(node.this)
        if _is_understood(node, *_COMPARISONS):
            return self._comparison(node)
        if _is_understood(node, exp.Between):
            low = exp.GTE(this=node.this, expression=node.args["low"])
            high = exp.LTE(this=node.this, expression=node.args["high"])
            return And(self._comparison(low), self._comparison(high))
        return self._leaf(node)

    def _leaf(self, node: exp.Expr) -> BooleanExpression:
        field = self._field(node.this) if _is_understood(node, exp.In, exp.Is, exp.Like) else None
        if field is None:
            return _UNKNOWN
        if isinstance(node, exp.Is):
            return IsNull(field.name) if _is_understood(node.expression, exp.Null) else _UNKNOWN
        if isinstance(node, exp.In):
            values = self._values(node, field)
            return _one_of(field, values) if values else _UNKNOWN
        pattern = node.expression
        if not _is_understood(pattern, exp.Literal) or not pattern.is_string or not _is_text(field.type):
            return _UNKNOWN
        prefix = min(pattern.this.partition("%")[0], pattern.this.partition("_")[0], key=len)
        if prefix == pattern.this:
            return EqualTo(field.name, prefix)
        return StartsWith(field.name, prefix) if prefix else NotNull(field.name)

    def _negated(self, node: exp.Expr) -> BooleanExpression:
        """Only for what is understood exactly: the opposite of too much would be too little."""
        inner = node.this if _is_understood(node, exp.Paren) else node
        field = self._field(inner.this) if _is_understood(inner, exp.In, exp.Is) else None
        if field is not None and isinstance(inner, exp.Is) and _is_understood(inner.expression, exp.Null):
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
        values = [_value(each, field.type) for each in node.expressions]
        return None if not values or None in values else set(values)

    def _field(self, node: exp.Expr) -> pa.Field[Any] | None:
        """The column that ``node`` is, if it surely is one of this table, and none that PyIceberg cannot test."""
        if not isinstance(node, exp.Column) or not _is_understood(node, exp.Column):
            return None
        table = node.table.lower()
        if table != self.alias and (table or not self.alone):
            return None
        found = self.fields.get(node.name.lower())
        return None if found is None or _is_of_many(found.type) else found


def _is_of_many(type_: pa.DataType) -> bool:
    """Whether it is a list or a map, of which PyIceberg reads no file once a condition names it."""
    return pa.types.is_nested(type_) and not pa.types.is_struct(type_)


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
    if _is_understood(node, exp.Paren):
        return _value(node.this, type_)
    if _is_understood(node, exp.Boolean):
        return bool(node.this) if pa.types.is_boolean(type_) else None
    if _is_understood(node, exp.Neg):
        value = _value(node.this, type_)
        return -value if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None
    if _is_understood(node, exp.Cast) and _is_understood(node.args["to"], exp.DataType):
        return _moment(node.this, type_) if _is_moment(node.args["to"].this, type_) else None
    if not _is_understood(node, exp.Literal):
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
        return float(number) if math.isfinite(float(number)) else None
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
    if kind is exp.DType.DATE:
        return pa.types.is_date32(type_)
    return kind in {exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ} and pa.types.is_timestamp(type_)


def _moment(node: exp.Expr, type_: pa.DataType) -> str | None:
    """A day or a point in time as PyIceberg spells it; None for what only DuckDB can read, and beside nanoseconds."""
    if not _is_understood(node, exp.Literal) or not node.is_string:
        return None
    text = node.this
    if pa.types.is_date32(type_):
        day = date_of(text)
        return None if day is None else day.isoformat()
    moment = timestamp_of(_WHOLE_HOURS.sub(r"\1:00", text) if ":" in text else text)
    if moment is None or not pa.types.is_timestamp(type_) or type_.unit == "ns":
        return None
    if type_.tz is None:
        return moment.isoformat(timespec="microseconds") if moment.tzinfo is None else None
    # The session's zone is UTC.
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    with suppress(OverflowError):  # at the ends of Python's calendar
        return aware.astimezone(timezone.utc).isoformat(timespec="microseconds")
    return None
