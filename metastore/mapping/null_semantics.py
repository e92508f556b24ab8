"""What a row without a value means to ``!=`` and ``NOT IN``: SQL's answer, and Drill's. Pure.

In SQL a comparison with NULL is neither true nor false, and such a row does not pass. In Apache Drill's metastore,
which compares by Iceberg's evaluator, NULL is a value that differs from every other, so that the row passes. PyIceberg
by itself follows SQL for ``!=`` and Iceberg for ``NOT IN``; here each language has one rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyiceberg.expressions import And, BooleanExpression, IsNull, NotEqualTo, NotIn, NotNull, Or
from pyiceberg.expressions.visitors import rewrite_not


def as_sql(expression: BooleanExpression) -> BooleanExpression:
    """``expression`` without NOT, in which NULL passes neither ``!=`` nor ``NOT IN``."""
    return _with_leaves(rewrite_not(expression), lambda leaf: And(leaf, NotNull(term=leaf.term)))


def as_drill(expression: BooleanExpression) -> BooleanExpression:
    """``expression`` without NOT, in which NULL passes ``!=`` and ``NOT IN``."""
    return _with_leaves(rewrite_not(expression), lambda leaf: Or(leaf, IsNull(term=leaf.term)))


def _with_leaves(node: BooleanExpression, changed: Callable[[Any], BooleanExpression]) -> BooleanExpression:
    if isinstance(node, And):
        return And(_with_leaves(node.left, changed), _with_leaves(node.right, changed))
    if isinstance(node, Or):
        return Or(_with_leaves(node.left, changed), _with_leaves(node.right, changed))
    return changed(node) if isinstance(node, (NotEqualTo, NotIn)) else node
