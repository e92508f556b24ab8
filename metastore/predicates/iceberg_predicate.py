"""Turns a PyIceberg expression into a condition: resolves references, pushes NOT to the leaves, types literals.

Timestamp literals are instants in UTC for columns adjusted to UTC, and local times for others.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
    UnboundPredicate,
)

from metastore.errors import InvalidRequestError
from metastore.predicates.columns import Columns, PredicateColumn
from metastore.predicates.leaves import Leaves
from metastore.predicates.literals import plain_literal


def resolve(expression: BooleanExpression, columns: Columns, leaves: Leaves) -> BooleanExpression:
    """The condition for ``expression``; a reference names a top-level column, or else a path with dots.

    Raises InvalidRequestError for unknown columns and for expressions that are bound already.
    """
    return _Resolution(columns, leaves).resolve(expression, inverted=False)


_OPERATORS: Mapping[type[BooleanExpression], str] = {
    EqualTo: "=",
    NotEqualTo: "!=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}


class _Resolution:
    def __init__(self, columns: Columns, leaves: Leaves) -> None:
        self._columns = columns
        self._leaves = leaves

    def resolve(self, node: BooleanExpression, *, inverted: bool) -> BooleanExpression:
        if isinstance(node, (AlwaysTrue, AlwaysFalse)):
            return AlwaysTrue() if isinstance(node, AlwaysTrue) is not inverted else AlwaysFalse()
        if isinstance(node, Not):
            return self.resolve(node.child, inverted=not inverted)
        if isinstance(node, (And, Or)):
            both = self.resolve(node.left, inverted=inverted), self.resolve(node.right, inverted=inverted)
            return And(*both) if isinstance(node, And) is not inverted else Or(*both)
        if not isinstance(node, UnboundPredicate):
            raise InvalidRequestError(f"cannot prune by {node}: give an expression over column names")
        return self._leaf(node, inverted=inverted)

    def _leaf(self, node: UnboundPredicate, *, inverted: bool) -> BooleanExpression:
        name = getattr(node.term, "name", None)
        if name is None:
            return self._leaves.unknown(str(node))
        column = self._columns.resolve_reference(name)
        try:
            return self._test(node, column, inverted=inverted)
        except OverflowError:
            return self._leaves.unknown(str(node), "a moment beyond the years 1 to 9999")

    def _test(self, node: UnboundPredicate, column: PredicateColumn, *, inverted: bool) -> BooleanExpression:
        if operator := _OPERATORS.get(type(node)):
            literal = plain_literal(node.literal, zoned=column.zoned)  # type: ignore[attr-defined]
            return self._leaves.compare(column, operator, literal, str(node), inverted=inverted)
        if isinstance(node, (In, NotIn)):
            literals = [plain_literal(literal, zoned=column.zoned) for literal in node.literals]
            return self._leaves.contain(column, literals, str(node), inverted=inverted is not isinstance(node, NotIn))
        if isinstance(node, (StartsWith, NotStartsWith)):
            negated = inverted is not isinstance(node, NotStartsWith)
            return self._leaves.start_with(column, str(node.literal.value), inverted=negated)
        if isinstance(node, (IsNull, NotNull)):
            return self._leaves.is_null(column, inverted=inverted is not isinstance(node, NotNull))
        if isinstance(node, (IsNaN, NotNaN)):
            return self._leaves.is_nan(column, inverted=inverted is not isinstance(node, NotNaN))
        return self._leaves.unknown(str(node))
