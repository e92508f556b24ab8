"""One leaf of a condition as a test of one column's statistics: does it exclude every row, and how is that said.

Bounds contain the data, exact or not, so inexact ones need no care here. Where the container's type has another order
than the column's (a file that held integers where the table now holds text), only "all null" excludes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pyiceberg.expressions import (
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
    SetPredicate,
    StartsWith,
)

from metastore.model.drill_types import FLOAT_TYPES
from metastore.model.statistics import ColumnStatistics
from metastore.predicates.columns import PredicateColumn
from metastore.predicates.literals import INTEGER_TEXT, plain_literal
from metastore.predicates.recurring import Recurring
from metastore.predicates.recurring import excludes as excludes_part

Excludes = Callable[[ColumnStatistics], bool]
Explains = Callable[[ColumnStatistics], str]


@dataclass(frozen=True)
class ColumnTest:
    """``column`` is the quoted path; ``text`` what a person reads; ``excludes`` is certain when it says True.

    ``can_judge`` says whether statistics hold what the test ``needs``, so that other values would have excluded.
    """

    column: str
    text: str
    excludes: Excludes
    explain: Explains
    can_judge: Excludes
    needs: str = "bounds"

    def __str__(self) -> str:
        return self.text


NEVER = ColumnTest(
    "", "the predicate is never true", lambda _: True, lambda _: "the predicate is never true", lambda _: True
)

_SAME_ORDER: Mapping[str, frozenset[str]] = {
    "VARCHAR": frozenset({"VARCHAR"}),
    "FLOAT": FLOAT_TYPES,
    "DOUBLE": FLOAT_TYPES,
}
"""Minor types whose bounds have the order of the column's type; other types hold values that compare as they are."""


def column_test(node: BooleanExpression, column: PredicateColumn) -> ColumnTest:
    """The test for one leaf of a condition over ``column``."""
    name = ".".join(column.path)
    if isinstance(node, IsNull):
        return ColumnTest(
            column.key,
            f"{name} IS NULL",
            _has_no_null,
            lambda _: f"{name}: no nulls",
            _counts_nulls,
            "a count of nulls",
        )
    if isinstance(node, NotNull):
        return ColumnTest(
            column.key,
            f"{name} IS NOT NULL",
            _is_all_null,
            lambda _: f"{name}: all null",
            _counts_nulls,
            "a count of nulls",
        )
    if isinstance(node, IsNaN):
        return ColumnTest(
            column.key, f"{name} is NaN", _has_no_nan, lambda _: f"{name}: no NaN", _counts_nans, "a count of NaN"
        )
    if isinstance(node, Recurring):
        asked, bounds = _recurring(node)
    elif isinstance(node, (In, NotIn)):
        asked, bounds = _membership(node, column)
    elif isinstance(node, (StartsWith, NotStartsWith)):
        asked, bounds = _prefix(node)
    else:
        asked, bounds = _comparison(node, column)
    text = f"{name} {asked}"

    def explain(known: ColumnStatistics) -> str:
        return f"{name}: {_bounds_text(known)}; asked: {asked}"

    return ColumnTest(column.key, text, _guarded(bounds, column), explain, _has_bounds)


def _has_no_null(known: ColumnStatistics) -> bool:
    return known.nulls == 0 or (known.rows is not None and known.rows == known.non_nulls)


def _is_all_null(known: ColumnStatistics) -> bool:
    return known.all_null


def _has_no_nan(known: ColumnStatistics) -> bool:
    return known.nans == 0 or known.all_null


def _counts_nulls(known: ColumnStatistics) -> bool:
    return known.all_null or known.nulls is not None or (known.rows is not None and known.non_nulls is not None)


def _counts_nans(known: ColumnStatistics) -> bool:
    return known.all_null or known.nans is not None


def _has_bounds(known: ColumnStatistics) -> bool:
    return known.all_null or known.min is not None or known.max is not None


def _guarded(bounds: Excludes, column: PredicateColumn) -> Excludes:
    """``bounds`` for containers that have values of a type comparable with the column's."""
    same_order = _SAME_ORDER.get(column.type.name)

    def excludes(known: ColumnStatistics) -> bool:
        if known.all_null:
            return True
        if same_order is not None and known.type not in same_order:
            return False
        try:
            return bounds(known)
        except TypeError:  # values of different types, such as local times and instants, have no order
            return False

    return excludes


_BOUNDS: Mapping[type[BooleanExpression], tuple[str, Callable[[Any, Any, Any], bool]]] = {
    LessThan: ("<", lambda low, _, value: low is not None and low >= value),
    LessThanOrEqual: ("<=", lambda low, _, value: low is not None and low > value),
    GreaterThan: (">", lambda _, high, value: high is not None and high <= value),
    GreaterThanOrEqual: (">=", lambda _, high, value: high is not None and high < value),
    EqualTo: ("=", lambda low, high, value: (low is not None and low > value) or (high is not None and high < value)),
    NotEqualTo: ("!=", lambda low, high, value: low is not None and low == high == value),
}
"""For each comparison: its sign, and whether bounds (low, high) exclude it for a value."""


def _comparison(node: BooleanExpression, column: PredicateColumn) -> tuple[str, Excludes]:
    operator, outside = _BOUNDS[type(node)]
    assert isinstance(node, LiteralPredicate)
    value = plain_literal(node.literal, zoned=column.zoned)

    def excludes(known: ColumnStatistics) -> bool:
        return outside(known.min, known.max, value)

    return f"{operator} {show(value)}", _of_integers(excludes) if _is_integer_beside_text([value], column) else excludes


def _membership(node: In | NotIn, column: PredicateColumn) -> tuple[str, Excludes]:
    assert isinstance(node, SetPredicate)
    values: list[Any] = [plain_literal(literal, zoned=column.zoned) for literal in node.literals]
    distinct = set(values)
    negated = isinstance(node, NotIn)
    try:
        values.sort()
    except TypeError:  # text beside numbers: no order, nothing to exclude by
        return f"{'NOT ' if negated else ''}IN ({', '.join(map(show, values))})", lambda _: False

    def none_inside(known: ColumnStatistics) -> bool:
        first = 0 if known.min is None else bisect_left(values, known.min)
        return first == len(values) or (known.max is not None and values[first] > known.max)

    def only_one(known: ColumnStatistics) -> bool:
        return known.min is not None and known.min == known.max and known.min in distinct

    excludes = only_one if negated else none_inside
    asked = f"{'NOT ' if negated else ''}IN ({_some(values)})"
    return asked, _of_integers(excludes) if _is_integer_beside_text(values, column) else excludes


def _recurring(node: Recurring) -> tuple[str, Excludes]:
    def outside(known: ColumnStatistics) -> bool:
        return known.min is not None and known.max is not None and excludes_part(node, known.min, known.max)

    return f"has {node.part.lower()} {_some(list(node.values))}", outside


def _prefix(node: StartsWith | NotStartsWith) -> tuple[str, Excludes]:
    prefix: Any = node.literal.value

    def none_starts(known: ColumnStatistics) -> bool:
        low: Any = known.min
        high: Any = known.max
        return (high is not None and high < prefix) or (low is not None and low > prefix and not low.startswith(prefix))

    def all_start(known: ColumnStatistics) -> bool:
        # Whatever lies between two texts with a prefix has that prefix.
        return all(isinstance(bound, str) and bound.startswith(prefix) for bound in (known.min, known.max))

    if isinstance(node, NotStartsWith):
        return f"NOT LIKE {show(prefix + '%')}", all_start
    return f"LIKE {show(prefix + '%')}", none_starts


def _is_integer_beside_text(values: list[Any], column: PredicateColumn) -> bool:
    return column.type.name == "VARCHAR" and type(values[0]) is int


def _of_integers(excludes: Excludes) -> Excludes:
    """``excludes`` for text that is compared with integers: certain only for one text that is an integer's own."""

    def of_text(known: ColumnStatistics) -> bool:
        if known.min != known.max or not isinstance(known.min, str) or not INTEGER_TEXT.fullmatch(known.min):
            return False
        number = int(known.min)
        return excludes(replace(known, min=number, max=number))

    return of_text


def _bounds_text(known: ColumnStatistics) -> str:
    if known.all_null:
        return "all null"
    if known.min == known.max:
        return f"only {show(known.min)}"
    parts = [f"{name} {show(value)}" for name, value in (("min", known.min), ("max", known.max)) if value is not None]
    return ", ".join(parts)


def _some(values: list[Any], most: int = 5) -> str:
    shown = ", ".join(show(value) for value in values[:most])
    return shown if len(values) <= most else f"{shown}, … {len(values)} values"


def show(value: object, longest: int = 40) -> str:
    """``value`` as a person writes it in a predicate, shortened to ``longest`` characters."""
    if isinstance(value, str):
        return f"'{value[:longest]}…'" if len(value) > longest else f"'{value}'"
    if isinstance(value, bytes):
        return f"X'{value[: longest // 2].hex()}{'…' if len(value) > longest // 2 else ''}'"
    return value.isoformat(" ") if isinstance(value, datetime) else str(value)
