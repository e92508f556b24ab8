"""``where`` as an Arrow expression that is true for exactly the rows that SQL returns.

Place in the flow: pruning decides what may hold matching rows; this module tests the rows. It reads questions with
pruning's readers. Pruning accepts "may pass", but a leaf here must be exact. Literals that engines interpret
differently, functions, arithmetic and patterns other than a prefix raise :class:`NotExact`. The caller then uses an SQL
engine (:mod:`metastore.duck.sql_filter`).

Semantics are SQL's with Spark's order of numbers. NULL does not pass, also under NOT. NaN equals itself and is larger
than all other numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, tzinfo
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or

from metastore.model.drill_types import INTEGER_TYPES
from metastore.predicates.columns import Columns, PredicateColumn
from metastore.predicates.leaves import Leaves
from metastore.predicates.literals import INVERSE, is_of_many_types, passes_nulls, span_of
from metastore.predicates.number_grid import NumberGrid
from metastore.predicates.predicate import Question, resolve_question
from metastore.predicates.time_spans import Literal, nanoseconds_of

_FLOATS: Final = ("FLOAT", "DOUBLE")


class NotExact(Exception):  # noqa: N818 - no error of the user's: another engine is asked
    """A part of the question has no exact Arrow expression."""


@dataclass(frozen=True)
class RowFilter:
    """An expression over rows, and the top-level columns that it needs."""

    expression: pc.Expression
    columns: frozenset[str]


def arrow_filter(
    question: Question, columns: Columns, schema: pa.Schema, zone: tzinfo, *, superset: bool = False
) -> RowFilter | None:
    """The filter for ``question``; None if every row passes.

    ``zone`` applies to timestamps without a zone. With ``superset``, parts without an exact expression pass all rows.
    Raises NotExact (not with ``superset``), and InvalidRequestError as pruning does.
    """
    leaves = (_WideLeaves if superset else _ExactLeaves)(zone, schema)
    condition = resolve_question(question, columns, leaves)
    if isinstance(condition, AlwaysTrue):
        return None
    return RowFilter(_expression(condition), frozenset(column.path[0] for column in leaves.columns.values()))


def both(left: RowFilter | None, right: RowFilter | None) -> RowFilter | None:
    """A filter that passes the rows that pass both ``left`` and ``right``; None passes every row."""
    if left is None or right is None:
        return left or right
    return RowFilter(left.expression & right.expression, left.columns | right.columns)


def _expression(node: BooleanExpression) -> pc.Expression:
    if isinstance(node, And):
        return _expression(node.left) & _expression(node.right)
    if isinstance(node, Or):
        return _expression(node.left) | _expression(node.right)
    if isinstance(node, (AlwaysTrue, AlwaysFalse)):
        return pc.scalar(isinstance(node, AlwaysTrue))
    assert isinstance(node, _Leaf)
    expression: pc.Expression = node.expression
    return expression


class _Leaf(BooleanExpression):
    """An Arrow expression wrapped as a PyIceberg one, so that pruning's readers can combine it.

    Whether a leaf is NULL or FALSE makes no difference: the readers have pushed NOT down to the leaves, and above them
    both exclude a row.
    """

    expression: Any

    def __init__(self, expression: pc.Expression) -> None:
        super().__init__(expression=expression)

    def __invert__(self) -> BooleanExpression:
        raise NotExact


def _leaf(expression: Any) -> BooleanExpression:
    return _Leaf(expression)


class _ExactLeaves(Leaves):
    """Makes leaves that say exactly which rows pass, or raises NotExact."""

    def __init__(self, zone: tzinfo, schema: pa.Schema) -> None:
        super().__init__(zone)
        self._schema = schema

    def unknown(self, text: str, why: str = "") -> BooleanExpression:
        """Raises NotExact: a part that cannot be read is not exact."""
        raise NotExact

    def not_null(self, column: PredicateColumn, text: str, why: str = "") -> BooleanExpression:
        """Raises NotExact: the rest of an unusable comparison is not exact."""
        raise NotExact

    def recurs(self, column: PredicateColumn, part: str, values: tuple[int, ...], text: str) -> BooleanExpression:
        """Raises NotExact: Arrow may take parts of times in another zone."""
        raise NotExact

    def weaken_to(self, condition: BooleanExpression) -> BooleanExpression:
        """Raises NotExact: a condition that a test implies is not the test."""
        raise NotExact

    def compare(
        self, column: PredicateColumn, operator: str, literal: Literal, text: str, *, inverted: bool
    ) -> BooleanExpression:
        """``column operator literal``."""
        if passes_nulls(column, operator, literal):
            raise NotExact
        asked = INVERSE[operator] if inverted else operator
        field, type_ = self._field(column)
        return _leaf(_comparison(field, type_, asked, self._value(column, literal)))

    def contain(
        self, column: PredicateColumn, literals: Iterable[Literal], text: str, *, inverted: bool
    ) -> BooleanExpression:
        """``column IN (literals)``, limited to the literals that the column's type can hold."""
        field, type_ = self._field(column)
        literals = list(literals)
        if not _are_numbers(column, literals) and is_of_many_types(column, literals):
            raise NotExact
        return _leaf(_membership(field, type_, [self._value(column, each) for each in literals], inverted=inverted))

    def start_with(self, column: PredicateColumn, prefix: str, *, inverted: bool) -> BooleanExpression:
        """``column LIKE 'prefix%'``."""
        field, type_ = self._field(column)
        if not pa.types.is_string(type_):
            raise NotExact
        starts: Any = pc.starts_with(field, prefix)
        return _leaf(~starts if inverted else starts)

    def may_match(self, column: PredicateColumn, prefix: str) -> BooleanExpression:
        """Raises NotExact: the prefix is only a part of the pattern."""
        raise NotExact

    def is_null(self, column: PredicateColumn, *, inverted: bool) -> BooleanExpression:
        """``column IS NULL``."""
        field, _ = self._field(column)
        return _leaf(field.is_valid() if inverted else field.is_null())

    def is_nan(self, column: PredicateColumn, *, inverted: bool) -> BooleanExpression:
        """``isnan(column)``."""
        field, type_ = self._field(column)
        if not pa.types.is_floating(type_):
            raise NotExact
        nan: Any = pc.is_nan(field)
        return _leaf(~nan if inverted else nan)

    def _field(self, column: PredicateColumn) -> tuple[pc.Expression, pa.DataType]:
        place = self._schema.get_field_index(column.path[0])
        if not column.usable or place < 0:
            raise NotExact
        type_ = self._schema.field(place).type
        for name in column.path[1:]:
            if not pa.types.is_struct(type_) or type_.get_field_index(name) < 0:
                raise NotExact
            type_ = type_.field(name).type
        path = self._remember(column).path
        return (pc.field(path[0]) if len(path) == 1 else pc.field(*path)), type_

    def _value(self, column: PredicateColumn, literal: Literal) -> Any:
        """The one value that ``literal`` means beside ``column`` to every engine."""
        if column.type.name == "VARCHAR" and not isinstance(literal, str):
            raise NotExact
        if column.from_directory and isinstance(literal, str) and column.type.name not in ("VARCHAR", "DATE"):
            raise NotExact
        if _are_numbers(column, [literal]) and column.usable:
            return literal  # numbers compare as numbers, whatever their common type is
        if (nanoseconds := nanoseconds_of(column, literal, self.zone)) is not None:
            return nanoseconds
        span = span_of(column, literal, self.zone)
        if span is None or not span.certain:
            raise NotExact
        return span.low


class _WideLeaves(_ExactLeaves):
    """Makes leaves that pass every row that should pass; without an exact expression, they pass all rows."""

    def unknown(self, text: str, why: str = "") -> BooleanExpression:
        """Passes all rows."""
        return AlwaysTrue()

    def not_null(self, column: PredicateColumn, text: str, why: str = "") -> BooleanExpression:
        """Passes all rows."""
        return AlwaysTrue()

    def recurs(self, column: PredicateColumn, part: str, values: tuple[int, ...], text: str) -> BooleanExpression:
        """Passes all rows."""
        return AlwaysTrue()

    def weaken_to(self, condition: BooleanExpression) -> BooleanExpression:
        """``condition`` itself."""
        return condition

    def compare(
        self, column: PredicateColumn, operator: str, literal: Literal, text: str, *, inverted: bool
    ) -> BooleanExpression:
        """The exact comparison if possible.

        A column in nanoseconds passes all rows: the engine that tests rows may cut nanoseconds off both sides.
        """
        if column.nanos:
            return AlwaysTrue()
        with suppress(NotExact):
            return super().compare(column, operator, literal, text, inverted=inverted)
        return AlwaysTrue()

    def contain(
        self, column: PredicateColumn, literals: Iterable[Literal], text: str, *, inverted: bool
    ) -> BooleanExpression:
        """The exact test if possible, as in :meth:`compare`."""
        if column.nanos:
            return AlwaysTrue()
        with suppress(NotExact):
            return super().contain(column, literals, text, inverted=inverted)
        return AlwaysTrue()

    def start_with(self, column: PredicateColumn, prefix: str, *, inverted: bool) -> BooleanExpression:
        """The exact test if possible."""
        with suppress(NotExact):
            return super().start_with(column, prefix, inverted=inverted)
        return AlwaysTrue()

    def may_match(self, column: PredicateColumn, prefix: str) -> BooleanExpression:
        """Tests the prefix only."""
        return self.start_with(column, prefix, inverted=False)

    def is_null(self, column: PredicateColumn, *, inverted: bool) -> BooleanExpression:
        """The exact test if possible."""
        with suppress(NotExact):
            return super().is_null(column, inverted=inverted)
        return AlwaysTrue()

    def is_nan(self, column: PredicateColumn, *, inverted: bool) -> BooleanExpression:
        """The exact test if possible."""
        with suppress(NotExact):
            return super().is_nan(column, inverted=inverted)
        return AlwaysTrue()


def _are_numbers(column: PredicateColumn, literals: Iterable[Literal]) -> bool:
    """Whether whole or decimal numbers are compared with each other, so that no engine rounds."""
    is_number = column.type.name in (*INTEGER_TYPES, "DECIMAL") and not column.from_directory
    return is_number and all(type(literal) in (int, Decimal) for literal in literals)


_OPERATORS: Final[Mapping[str, Callable[[Any, Any], pc.Expression]]] = {
    "=": lambda field, value: field == value,
    "!=": lambda field, value: field != value,
    "<": lambda field, value: field < value,
    "<=": lambda field, value: field <= value,
    ">": lambda field, value: field > value,
    ">=": lambda field, value: field >= value,
}


def _comparison(field: Any, type_: pa.DataType, asked: str, value: Any) -> Any:
    if pa.types.is_integer(type_) or pa.types.is_decimal(type_):
        return _on_grid(field, type_, asked, value)
    if isinstance(value, float) and not math.isfinite(value):
        raise NotExact
    compared = _OPERATORS[asked](field, _scalar(value, type_))
    if pa.types.is_floating(type_) and asked in (">", ">="):
        return compared | pc.is_nan(field)
    return compared


def _membership(field: Any, type_: pa.DataType, values: Iterable[Any], *, inverted: bool) -> Any:
    """Tests for one of ``values`` by a hash table: Arrow's time for a chain of comparisons grows with its square."""
    if pa.types.is_dictionary(type_) or pa.types.is_float16(type_) or pa.types.is_string_view(type_):
        raise NotExact  # Arrow has no hash table for them.
    present: list[Any] = []
    for value in values:
        if pa.types.is_integer(type_) or pa.types.is_decimal(type_):
            aligned = _grid(type_).align("=", Decimal(value))
            if not isinstance(aligned, bool):
                present.append(_scalar(aligned if pa.types.is_decimal(type_) else int(aligned), type_))
        elif isinstance(value, float) and not math.isfinite(value):
            raise NotExact
        else:
            # Equal numbers have unequal hashes: 0.0 and -0.0.
            present += [_scalar(each, type_) for each in ((0.0, -0.0) if value == 0.0 else (value,))]
    found = field.isin(pa.array(present, type_))
    return ~found & field.is_valid() if inverted else found


def _on_grid(field: Any, type_: pa.DataType, asked: str, value: Any) -> Any:
    """Compares integers or decimals with a number that may be between two of their values, or out of their range."""
    aligned = _grid(type_).align(asked, Decimal(value))
    if isinstance(aligned, bool):
        return field.is_valid() if aligned else _none(field)
    return _OPERATORS[asked](field, _scalar(aligned if pa.types.is_decimal(type_) else int(aligned), type_))


def _none(field: Any) -> Any:
    return field.is_null() & field.is_valid()


def _grid(type_: Any) -> NumberGrid:
    if pa.types.is_decimal(type_):
        return NumberGrid.of_decimal(type_.precision, type_.scale)
    return NumberGrid.of_integer(type_.bit_width, signed=pa.types.is_signed_integer(type_))


def _scalar(value: Any, type_: pa.DataType) -> Any:
    if isinstance(value, datetime) and not pa.types.is_timestamp(type_):
        raise NotExact
    try:
        return pa.scalar(value, type_)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise NotExact from error
