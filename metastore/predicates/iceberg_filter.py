"""A condition as PyIceberg's expression over an Iceberg schema, by field ids. Pure.

Place in the flow: used wherever manifests plan a read, or files are read by Iceberg's schema. These are SELECT over
tables of catalogs, components and INFORMATION_SCHEMA, and procedures. The expression holds for every row that satisfies
the condition. It holds for more rows if PyIceberg cannot express a part; a note then names that part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

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
    NotStartsWith,
    Or,
    SetPredicate,
    StartsWith,
    UnboundPredicate,
)
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UnknownType,
)

from metastore.lake.formats.arrow_schema import tuple_schema
from metastore.model.column_path import ColumnPath
from metastore.predicates.columns import Columns
from metastore.predicates.literals import plain_literal
from metastore.predicates.number_grid import NumberGrid
from metastore.predicates.predicate import Predicate, Question, parse
from metastore.predicates.recurring import Recurring

SESSION_ZONE: Final = "UTC"
"""The time zone of SELECT and of procedures."""


@dataclass(frozen=True)
class IcebergFilter:
    """``expression`` uses names of the schema; ``notes`` say what it leaves out; ``unusable`` lists only these parts.

    ``exact`` means that the expression holds only for rows that satisfy the condition.
    """

    expression: BooleanExpression
    notes: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()
    exact: bool = True


def iceberg_filter(
    question: Question, schema: Schema, *, by_pyiceberg: bool = True, absent: Mapping[str, str] = MappingProxyType({})
) -> IcebergFilter:
    """The filter for ``question`` over rows with the columns ``schema``; times without a zone are in UTC.

    ``by_pyiceberg`` means that PyIceberg reads the files; it cannot test a list or map for NULL.
    ``absent`` maps names of columns that a condition cannot use to the reason. Raises InvalidRequestError as
    :func:`metastore.predicates.predicate.parse`.
    """
    predicate = parse(question, columns_of(schema, absent), SESSION_ZONE)
    fitting = _Fitting(predicate, schema, by_pyiceberg=by_pyiceberg)
    expression = fitting.of(predicate.condition)
    unusable = tuple(dict.fromkeys((*predicate.unusable, *fitting.left_out)))
    more = tuple(f"not usable for pruning: {text} (Iceberg has no test for it)" for text in fitting.left_out)
    notes = tuple(dict.fromkeys((*predicate.notes, *more)))
    return IcebergFilter(expression, notes, unusable, exact=predicate.exact and not fitting.left_out)


def columns_of(schema: Schema, absent: Mapping[str, str]) -> Columns:
    """The columns of ``schema`` that a condition may name."""
    return Columns(tuple_schema(schema_to_pyarrow(schema, include_field_ids=False))[0], absent=absent)


class _Fitting:
    """Converts leaves over quoted paths to fields of a schema, and records the leaves that cannot be converted."""

    def __init__(self, predicate: Predicate, schema: Schema, *, by_pyiceberg: bool) -> None:
        self._by_pyiceberg = by_pyiceberg
        self._predicate = predicate
        self._schema = schema
        self.left_out: list[str] = []

    def of(self, node: BooleanExpression) -> BooleanExpression:
        """The condition by fields; AlwaysTrue for a leaf that PyIceberg cannot express, named in ``left_out``."""
        if isinstance(node, And):
            return And(self.of(node.left), self.of(node.right))
        if isinstance(node, Or):
            return Or(self.of(node.left), self.of(node.right))
        if not isinstance(node, (UnboundPredicate, Recurring)):
            return node
        column = self._predicate.columns[node.term.name]  # type: ignore[attr-defined]
        field = _field(self._schema, column.path)
        known = field is not None and isinstance(node, UnboundPredicate)
        if isinstance(node, (IsNull, NotNull)):
            field = _field(self._schema, _optional_part(self._schema, column.path))
        found = self._leaf(node, field, zoned=column.zoned) if known else None  # type: ignore[arg-type]
        if found is None:
            what = node.part.lower() if isinstance(node, Recurring) else "value"
            self.left_out.append(f"a test of the {what} of {'.'.join(column.path)}")
            return AlwaysTrue()
        return found

    def _leaf(self, node: UnboundPredicate, field: NestedField, *, zoned: bool) -> BooleanExpression | None:
        if isinstance(field.field_type, UnknownType):
            return None  # it is NULL, whatever a file stores
        name = str(self._schema.find_column_name(field.field_id))
        if isinstance(node, (IsNull, NotNull)):
            testable = not self._by_pyiceberg or isinstance(field.field_type, (PrimitiveType, StructType))
            return type(node)(name) if testable else None
        found = _test(node, name, field.field_type, zoned=zoned)
        try:
            if found is not None:
                bind(self._schema, found, case_sensitive=True)
        except (ValueError, TypeError):
            return None
        return found


def _field(schema: Schema, path: ColumnPath) -> NestedField | None:
    """The field at ``path``, if it is a value or a field of structs."""
    fields, found = schema.fields, None
    for name in path:
        found = next((field for field in fields if field.name == name), None)
        if found is None:
            return None
        fields = found.field_type.fields if isinstance(found.field_type, StructType) else ()
    return found


def _optional_part(schema: Schema, path: ColumnPath) -> ColumnPath:
    """The part of ``path`` that is NULL where the field is: of a required field, the innermost struct that may be NULL.

    PyIceberg takes no required field for NULL, though it is where its struct is.
    """
    for end in range(len(path), 0, -1):
        field = _field(schema, path[:end])
        if field is None or not field.required:
            return path[:end]
    return path


def _test(node: UnboundPredicate, name: str, type_: Any, *, zoned: bool) -> BooleanExpression | None:
    if isinstance(node, IsNaN):
        return IsNaN(name) if isinstance(type_, (FloatType, DoubleType)) else None
    if isinstance(node, (StartsWith, NotStartsWith)):
        return type(node)(name, node.literal.value) if isinstance(type_, StringType) else None
    if isinstance(node, SetPredicate):
        values = [plain_literal(literal, zoned=zoned) for literal in node.literals]
        return _membership(name, type_, values, negated=isinstance(node, NotIn))
    assert isinstance(node, LiteralPredicate)
    return _comparison(type(node), name, type_, plain_literal(node.literal, zoned=zoned))


def _membership(name: str, type_: Any, values: list[Any], *, negated: bool) -> BooleanExpression | None:
    """IN or NOT IN by single comparisons where a value does not fit its set; None if one cannot be expressed."""
    kind: type[LiteralPredicate] = NotEqualTo if negated else EqualTo
    tests = [_comparison(kind, name, type_, value) for value in values]
    if any(test is None for test in tests):
        return None
    plain = [test.literal.value for test in tests if isinstance(test, kind)]
    others = [test for test in tests if test is not None and not isinstance(test, kind)]
    if isinstance(type_, (FloatType, DoubleType)):
        # A comparison treats -0.0 as zero, but a set lookup does not find it.
        others, plain = [test for test in tests if test is not None], []
    found: BooleanExpression = AlwaysTrue() if negated else AlwaysFalse()
    if plain:
        found = (NotIn if negated else In)(name, set(plain))
        if not negated and len(plain) > _MOST_JUDGED:
            found = And(found, GreaterThanOrEqual(name, min(plain)), LessThanOrEqual(name, max(plain)))
    for test in others:
        found = And(found, test) if negated else Or(found, test)
    return found


_MOST_JUDGED: Final = 200
"""Most values of an IN that Iceberg's evaluators compare with bounds; with more they keep every file."""


def _comparison(kind: Any, name: str, type_: Any, value: Any) -> BooleanExpression | None:
    if isinstance(type_, (IntegerType, LongType, DecimalType)):
        return _on_grid(kind, name, type_, value)
    convert = _CONVERSIONS.get(type(type_))
    converted = None if convert is None else convert(value)
    if converted is None:
        return None
    found: BooleanExpression = kind(name, converted)
    return found


def _on_grid(kind: Any, name: str, type_: IntegerType | LongType | DecimalType, value: Any) -> BooleanExpression | None:
    """Compares with a number that may be between two values of the type, or out of its range."""
    if type(value) not in (int, float, Decimal) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(type_, DecimalType):
        grid = NumberGrid.of_decimal(type_.precision, type_.scale)
    else:
        grid = NumberGrid.of_integer(32 if isinstance(type_, IntegerType) else 64)
    aligned = grid.align(_OPERATORS[kind], Decimal(value))
    if isinstance(aligned, bool):
        return NotNull(name) if aligned else AlwaysFalse()
    found: BooleanExpression = kind(name, aligned if isinstance(type_, DecimalType) else int(aligned))
    return found


_OPERATORS: Final[Mapping[Any, str]] = {
    EqualTo: "=",
    NotEqualTo: "!=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}


def _float(value: Any) -> float | None:
    number = float(value) if type(value) in (int, float, Decimal) else math.nan
    return number if math.isfinite(number) else None


def _moment(value: Any, *, zoned: bool) -> str | None:
    if not isinstance(value, datetime) or (value.tzinfo is not None) is not zoned:
        return None
    return value.isoformat(timespec="microseconds")


_CONVERSIONS: Final[Mapping[type[Any], Callable[[Any], Any]]] = {
    BooleanType: lambda value: value if type(value) is bool else None,
    FloatType: _float,
    DoubleType: _float,
    StringType: lambda value: value if isinstance(value, str) else None,
    BinaryType: lambda value: value if isinstance(value, bytes) else None,
    FixedType: lambda value: value if isinstance(value, bytes) else None,
    DateType: lambda value: value.isoformat() if type(value) is date else None,
    TimeType: lambda value: value.isoformat(timespec="microseconds") if isinstance(value, time) else None,
    TimestampType: lambda value: _moment(value, zoned=False),
    TimestamptzType: lambda value: _moment(value, zoned=True),
}
"""Converts a constant to the value that PyIceberg expects beside a type; None if PyIceberg would change the value."""
