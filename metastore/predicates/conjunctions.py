"""Judges the conjuncts of one column together: what they rule out, and what cannot be true.

Place in the flow: :mod:`metastore.predicates.predicate` passes each finished condition through here. The result passes
the same rows. A container is tested by one leaf at a time, so two things would be lost:

* ``x > 4`` passes NaN to some engines, and is ``x > 4 OR x is NaN``. Beside ``x < 5``, which no NaN passes, it is
  ``x > 4`` alone, and excludes files without counts of NaN too.
* ``x IS NULL AND x = 5``, ``x > 5 AND x < 3`` and ``x = 3 AND x IN (4, 5)`` are never true, though a file may have rows
  for each part.

Elements of lists and maps are left alone: a row has many, and another one may pass each part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from pyiceberg.expressions import (
    AlwaysFalse,
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
    Or,
    SetPredicate,
    UnboundPredicate,
)

from metastore.model.drill_types import INTEGER_TYPES
from metastore.model.elements import is_element
from metastore.model.mapping.filters import all_of, conjuncts
from metastore.predicates.columns import PredicateColumn
from metastore.predicates.literals import plain_literal
from metastore.predicates.recurring import Recurring

_BELOW: Final = (LessThan, LessThanOrEqual, EqualTo, In)
"""Leaves that set an upper bound: no NaN passes them."""
_ABOVE: Final = (GreaterThan, GreaterThanOrEqual, EqualTo, In)
_NUMBERS: Final = frozenset({int, float, Decimal})


def judged_together(condition: BooleanExpression, columns: Mapping[str, PredicateColumn]) -> BooleanExpression:
    """``condition``, with the conjuncts of each column simplified by each other; ``columns`` by quoted path."""
    if isinstance(condition, Or):
        return Or(judged_together(condition.left, columns), judged_together(condition.right, columns))
    if not isinstance(condition, And):
        return condition
    parts = [judged_together(part, columns) for part in conjuncts(condition)]
    if any(isinstance(part, AlwaysFalse) for part in parts):
        return AlwaysFalse()
    leaves = _by_column(parts, columns)
    without_nan = {name for name, own in leaves.items() if any(map(_excludes_nan, own))}
    parts = [_without_nan(part, without_nan) for part in parts]
    leaves = _by_column(parts, columns)
    if any(_contradict(own, columns[name]) for name, own in leaves.items() if len(own) > 1):
        return AlwaysFalse()
    return all_of(parts)


def _name(part: BooleanExpression) -> str | None:
    """The column of a leaf; None for anything else."""
    return part.term.name if isinstance(part, (UnboundPredicate, Recurring)) else None  # type: ignore[attr-defined]


def _by_column(
    parts: Sequence[BooleanExpression], columns: Mapping[str, PredicateColumn]
) -> dict[str, list[BooleanExpression]]:
    """The leaves among ``parts`` by their column, if each row has one value of it."""
    found: dict[str, list[BooleanExpression]] = {}
    for part in parts:
        if (name := _name(part)) is not None and not is_element(columns[name].path):
            found.setdefault(name, []).append(part)
    return found


def _excludes_nan(leaf: BooleanExpression) -> bool:
    return isinstance(leaf, _BELOW) and all(value == value for value in _literals(leaf, zoned=False))


def _without_nan(part: BooleanExpression, without_nan: set[str]) -> BooleanExpression:
    """``part`` without its alternative for NaN, if its column is never NaN here."""
    if isinstance(part, Or) and isinstance(part.right, IsNaN):
        name = _name(part.right)
        return part.left if name in without_nan and _name(part.left) == name else part
    return part


def _literals(part: BooleanExpression, *, zoned: bool) -> list[Any]:
    if isinstance(part, LiteralPredicate):
        return [plain_literal(part.literal, zoned=zoned)]
    return [plain_literal(literal, zoned=zoned) for literal in part.literals] if isinstance(part, SetPredicate) else []


def _contradict(leaves: Sequence[BooleanExpression], column: PredicateColumn) -> bool:
    """Whether no value of ``column`` passes all ``leaves``; False where that is not certain."""
    if any(isinstance(leaf, IsNull) for leaf in leaves):
        # Every other leaf is a comparison or says that there is a value: none passes a null.
        return not all(isinstance(leaf, IsNull) for leaf in leaves)
    values = [(leaf, _literals(leaf, zoned=column.zoned)) for leaf in leaves]
    compared = [value for _, own in values for value in own]
    kinds = {type(value) for value in compared}
    if not (len(kinds) == 1 or kinds <= _NUMBERS) or any(value != value for value in compared):
        return False
    is_whole = column.type.name in INTEGER_TYPES
    lows = [_limit(leaf, min(own), is_whole=is_whole) for leaf, own in values if isinstance(leaf, _ABOVE)]
    highs = [_limit(leaf, max(own), is_whole=is_whole) for leaf, own in values if isinstance(leaf, _BELOW)]
    if any(_is_empty(low, high) for low in lows for high in highs):
        return True
    allowed = [frozenset(own) for leaf, own in values if isinstance(leaf, (EqualTo, In))]
    others = {value for leaf, own in values if isinstance(leaf, (NotEqualTo, NotIn)) for value in own}
    return bool(allowed) and not frozenset.intersection(*allowed) - others


def _limit(leaf: BooleanExpression, value: Any, *, is_whole: bool) -> tuple[Any, bool]:
    """A bound and whether it is itself excluded; in a column of whole numbers, the next one is the bound."""
    is_strict = isinstance(leaf, (LessThan, GreaterThan))
    if is_strict and is_whole and type(value) is int:
        return value + (1 if isinstance(leaf, GreaterThan) else -1), False
    return value, is_strict


def _is_empty(low: tuple[Any, bool], high: tuple[Any, bool]) -> bool:
    return bool(low[0] > high[0] or (low[0] == high[0] and (low[1] or high[1])))
