"""NULL in ``!=`` and ``NOT IN``, in the semantics of SQL and in those of Drill. Pure functions.

In SQL a comparison with NULL is neither true nor false, so the row does not pass. In Apache Drill's metastore, which
uses Iceberg's evaluator, NULL is a value that differs from all others, so the row passes. PyIceberg itself follows SQL
for ``!=`` and Iceberg for ``NOT IN``; here each language has one rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyiceberg.expressions import And, BooleanExpression, IsNull, NotEqualTo, NotIn, NotNull, Or
from pyiceberg.expressions.visitors import rewrite_not


def as_sql(expression: BooleanExpression) -> BooleanExpression:
    """Returns ``expression`` without NOT, so that NULL passes neither ``!=`` nor ``NOT IN``."""
    return _with_leaves(rewrite_not(expression), lambda leaf: And(leaf, NotNull(term=leaf.term)))


def as_drill(expression: BooleanExpression) -> BooleanExpression:
    """Returns ``expression`` without NOT, so that NULL passes ``!=`` and ``NOT IN``."""
    return _with_leaves(rewrite_not(expression), lambda leaf: Or(leaf, IsNull(term=leaf.term)))


def _with_leaves(node: BooleanExpression, changed: Callable[[Any], BooleanExpression]) -> BooleanExpression:
    if isinstance(node, And):
        return And(_with_leaves(node.left, changed), _with_leaves(node.right, changed))
    if isinstance(node, Or):
        return Or(_with_leaves(node.left, changed), _with_leaves(node.right, changed))
    return changed(node) if isinstance(node, (NotEqualTo, NotIn)) else node
