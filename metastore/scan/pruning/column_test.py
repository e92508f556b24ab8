"""One leaf of a condition as a test of a column's statistics: which containers have no passing row, and why.

A test runs over the statistics of many containers at once. Bounds contain the data, exact or not, so inexact bounds
need no special treatment. If a container's type has another order than the column's, only "all null" excludes it. An
example is a file that held integers where the table now holds text. Values of two kinds have no order, so they exclude
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
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

from metastore.model.bounds.bound_arrays import Kind, Mask, Numbers, SortedValues, Texts, have_order, kind_of
from metastore.model.bounds.statistics_columns import (
    ALL_NULL,
    COUNTS_NANS,
    COUNTS_NULLS,
    KNOWN,
    NO_NAN,
    NO_NULL,
    BoundPair,
    StatisticsColumns,
    bound_pair,
)
from metastore.model.drill_types import FLOAT_TYPES
from metastore.model.statistics import ColumnStatistics
from metastore.predicates.columns import PredicateColumn
from metastore.predicates.literals import INTEGER_TEXT, plain_literal
from metastore.predicates.recurring import PARTS, Recurring
from metastore.predicates.recurring import excludes as excludes_part

Excludes = Callable[[StatisticsColumns], Mask]
OutsideBounds = Callable[[BoundPair], Mask]
Explains = Callable[[ColumnStatistics], str]


@dataclass(frozen=True)
class ColumnTest:
    """The test: ``column`` is the quoted path, ``text`` the test in words; where ``excludes`` is True, it is certain.

    ``can_judge`` marks the statistics that hold what the test ``needs``: with these, other values would be excluded.
    """

    column: str
    text: str
    excludes: Excludes
    explain: Explains
    can_judge: Excludes
    needs: str = "bounds"

    def __str__(self) -> str:
        return self.text


def _all(statistics: StatisticsColumns) -> Mask:
    return np.ones(len(statistics), np.bool_)


def _has(flag: int) -> Excludes:
    return lambda known: known.has(flag)


NEVER: Final = ColumnTest("", "the predicate is never true", _all, lambda _: "the predicate is never true", _all)

_SAME_ORDER: Mapping[str, frozenset[str]] = {
    "VARCHAR": frozenset({"VARCHAR"}),
    "FLOAT": FLOAT_TYPES,
    "DOUBLE": FLOAT_TYPES,
}
"""Minor types whose bounds have the same order as the column's type. Column types not listed accept every type."""


def column_test(node: BooleanExpression, column: PredicateColumn) -> ColumnTest:
    """The test for one leaf of a condition over ``column``."""
    name = ".".join(column.path)
    if isinstance(node, IsNull):
        return _of_flags(column, f"{name} IS NULL", NO_NULL, f"{name}: no nulls", COUNTS_NULLS, "a count of nulls")
    if isinstance(node, NotNull):
        return _of_flags(column, f"{name} IS NOT NULL", ALL_NULL, f"{name}: all null", COUNTS_NULLS, "a count of nulls")
    if isinstance(node, IsNaN):
        return _of_flags(column, f"{name} is NaN", NO_NAN, f"{name}: no NaN", COUNTS_NANS, "a count of NaN")
    if isinstance(node, Recurring):
        asked, outside = _recurring(node)
    elif isinstance(node, (In, NotIn)):
        asked, outside = _membership(node, column)
    elif isinstance(node, (StartsWith, NotStartsWith)):
        asked, outside = _prefix(node)
    else:
        asked, outside = _comparison(node, column)
    text = f"{name} {asked}"

    def explain(statistics: ColumnStatistics) -> str:
        return f"{name}: {_bounds_text(statistics)}; asked: {asked}"

    return ColumnTest(column.key, text, _require_comparable(outside, column), explain, lambda known: known.has_bounds)


def _of_flags(column: PredicateColumn, text: str, proves: int, why: str, counts: int, needs: str) -> ColumnTest:
    return ColumnTest(column.key, text, _has(proves), lambda _: why, _has(counts), needs)


def _require_comparable(outside: OutsideBounds, column: PredicateColumn) -> Excludes:
    """``outside``, restricted to containers whose type is comparable with the column's."""
    same_order = _SAME_ORDER.get(column.type.name)

    def excludes(statistics: StatisticsColumns) -> Mask:
        by_bounds = np.zeros(len(statistics), np.bool_)
        for pair in statistics.bounds:
            by_bounds |= outside(pair)
        if same_order is not None:
            by_bounds &= statistics.of_types(same_order)
        return statistics.has(ALL_NULL) | (by_bounds & statistics.has(KNOWN))

    return excludes


def _nothing(pair: BoundPair) -> Mask:
    return np.zeros(len(pair.low.known), np.bool_)


_BOUNDS: Final[Mapping[type[BooleanExpression], tuple[str, Callable[[BoundPair, Any], Mask]]]] = {
    LessThan: ("<", lambda pair, value: pair.low.compare(">=", value)),
    LessThanOrEqual: ("<=", lambda pair, value: pair.low.compare(">", value)),
    GreaterThan: (">", lambda pair, value: pair.high.compare("<=", value)),
    GreaterThanOrEqual: (">=", lambda pair, value: pair.high.compare("<", value)),
    EqualTo: ("=", lambda pair, value: pair.low.compare(">", value) | pair.high.compare("<", value)),
    NotEqualTo: ("!=", lambda pair, value: pair.low.compare("=", value) & pair.high.compare("=", value)),
}
"""Each comparison's sign, and a function that marks where bounds exclude it for a value."""


def _comparison(node: BooleanExpression, column: PredicateColumn) -> tuple[str, OutsideBounds]:
    operator, outside = _BOUNDS[type(node)]
    assert isinstance(node, LiteralPredicate)
    value: Any = plain_literal(node.literal, zoned=column.zoned)

    def excludes(pair: BoundPair) -> Mask:
        return outside(pair, value) if have_order(pair.kind, kind_of(value)) else _nothing(pair)

    return f"{operator} {show(value)}", _of_integers(excludes) if _is_integer_beside_text([value], column) else excludes


def _membership(node: In | NotIn, column: PredicateColumn) -> tuple[str, OutsideBounds]:
    """The test as shown, and its mask: no value lies in a container's bounds or, for NOT IN, its only one is listed."""
    assert isinstance(node, SetPredicate)
    values: list[Any] = [plain_literal(literal, zoned=column.zoned) for literal in node.literals]
    negated = "NOT " if isinstance(node, NotIn) else ""
    kinds = {kind_of(value) for value in values}
    if not all(have_order(kind, kind_of(values[0])) for kind in kinds) or any(value != value for value in values):
        # Text beside numbers, or a NaN: there is no order to exclude by.
        return f"{negated}IN ({', '.join(map(show, values))})", _nothing
    values.sort()
    wanted = SortedValues(values)

    def excludes(pair: BoundPair) -> Mask:
        if not have_order(pair.kind, kind_of(values[0])):
            return _nothing(pair)
        places, is_next = pair.low.places(wanted)
        if negated:
            return is_next & pair.low.same_as(pair.high)
        first = np.where(pair.low.known, places, 0)
        beyond = first == len(values)
        found: Mask = beyond | pair.high.above(wanted, np.where(beyond, 0, first))
        return found

    asked = f"{negated}IN ({_some(values)})"
    return asked, _of_integers(excludes) if _is_integer_beside_text(values, column) else excludes


def _recurring(node: Recurring) -> tuple[str, OutsideBounds]:
    part = PARTS[node.part]

    def outside(pair: BoundPair) -> Mask:
        found = _nothing(pair)
        if pair.kind not in _DAY_LENGTHS or not (isinstance(pair.low, Numbers) and isinstance(pair.high, Numbers)):
            return found
        # Two days more than the part allows, since clocks may be set between the bounds.
        near = (pair.high.values - pair.low.values) // _DAY_LENGTHS[pair.kind] < part.days + 2
        for position in np.flatnonzero(near & pair.low.known & pair.high.known).tolist():
            found[position] = excludes_part(node, pair.low.at(position), pair.high.at(position))
        return found

    return f"has {part.name} {_some(list(node.values))}", outside


_DAY_LENGTHS: Final = {Kind.DATE: 1, Kind.LOCAL: 86_400_000_000, Kind.INSTANT: 86_400_000_000}
"""Length of a day in the units of each kind's stored bounds."""


def _prefix(node: StartsWith | NotStartsWith) -> tuple[str, OutsideBounds]:
    """The test as shown, and its mask: all texts lie beside the prefix or, if negated, all have it."""
    prefix = str(node.literal.value)

    def none_starts(pair: BoundPair) -> Mask:
        if not isinstance(pair.low, Texts) or not isinstance(pair.high, Texts) or pair.kind is not Kind.TEXT:
            return _nothing(pair)
        behind = pair.low.compare(">", prefix) & ~pair.low.starts_with(prefix)
        return pair.high.compare("<", prefix) | behind

    def all_start(pair: BoundPair) -> Mask:
        # Every text between two texts with a prefix has that prefix.
        if not isinstance(pair.low, Texts) or not isinstance(pair.high, Texts) or pair.kind is not Kind.TEXT:
            return _nothing(pair)
        return pair.low.starts_with(prefix) & pair.high.starts_with(prefix)

    if isinstance(node, NotStartsWith):
        return f"NOT LIKE {show(prefix + '%')}", all_start
    return f"LIKE {show(prefix + '%')}", none_starts


def _is_integer_beside_text(values: Sequence[Any], column: PredicateColumn) -> bool:
    return column.type.name == "VARCHAR" and type(values[0]) is int


def _of_integers(outside: OutsideBounds) -> OutsideBounds:
    """``outside`` for text compared with integers: certain only if the only text is an integer's canonical spelling."""

    def of_text(pair: BoundPair) -> Mask:
        if pair.kind is not Kind.TEXT:
            return _nothing(pair)
        numbers: list[Any] = [None] * len(pair.low.known)
        for position in np.flatnonzero(pair.low.same_as(pair.high)).tolist():
            text = str(pair.low.at(position))
            numbers[position] = int(text) if INTEGER_TEXT.fullmatch(text) else None
        return outside(bound_pair(Kind.NUMBER, numbers, numbers))

    return of_text


def _bounds_text(statistics: ColumnStatistics) -> str:
    if statistics.all_null:
        return "all null"
    if statistics.min == statistics.max:
        return f"only {show(statistics.min)}"
    parts = [
        f"{name} {show(value)}"
        for name, value in (("min", statistics.min), ("max", statistics.max))
        if value is not None
    ]
    return ", ".join(parts)


def _some(values: list[Any], most: int = 5) -> str:
    shown = ", ".join(show(value) for value in values[:most])
    return shown if len(values) <= most else f"{shown}, … {len(values)} values"


def show(value: object, longest: int = 40) -> str:
    """``value`` as written in a predicate, shortened to ``longest`` characters."""
    if isinstance(value, str):
        return f"'{value[:longest]}…'" if len(value) > longest else f"'{value}'"
    if isinstance(value, bytes):
        return f"X'{value[: longest // 2].hex()}{'…' if len(value) > longest // 2 else ''}'"
    return value.isoformat(" ") if isinstance(value, datetime) else str(value)
