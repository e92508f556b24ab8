"""Finds conditions that NaN may satisfy: Arrow must not choose row groups by them.

Bounds in Parquet footers leave NaN out. If all other values of a row group are equal, Arrow takes that value for the
value of every row, and skips the row group although a row with NaN satisfies the condition. So rows are read first, and
the condition is tested afterwards.
"""

from __future__ import annotations

from pyiceberg.expressions import (
    And,
    BooleanExpression,
    BoundIsNaN,
    BoundNotEqualTo,
    BoundNotIn,
    BoundPredicate,
    Not,
    Or,
)
from pyiceberg.types import DoubleType, FloatType


def may_pass_nan(condition: BooleanExpression) -> bool:
    """Returns whether a row may satisfy the bound ``condition`` because it has NaN."""
    match condition:
        case And() | Or():
            return may_pass_nan(condition.left) or may_pass_nan(condition.right)
        case Not():
            return _names_float(condition.child)
        case BoundIsNaN() | BoundNotEqualTo() | BoundNotIn():
            return _names_float(condition)
    return False


def _names_float(condition: BooleanExpression) -> bool:
    match condition:
        case And() | Or():
            return _names_float(condition.left) or _names_float(condition.right)
        case Not():
            return _names_float(condition.child)
        case BoundPredicate():
            return isinstance(condition.term.ref().field.field_type, FloatType | DoubleType)
    return False
