"""A comparison of a function of a column with a constant, and the context needed to translate it.

Place in the flow: :mod:`metastore.predicates.unwrapping` and its submodules turn it into conditions on the column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from pyiceberg.expressions import BooleanExpression
from sqlglot import exp

from metastore.predicates.columns import PredicateColumn
from metastore.predicates.condition import Dialect
from metastore.predicates.constants import Constants
from metastore.predicates.leaves import Leaves
from metastore.predicates.time_spans import Literal

INVERSE: Final = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

MAX_DIGITS: Final = 38
"""Digits of the largest decimal."""


@dataclass(frozen=True)
class Comparison:
    """``… operator literal``, under NOT if ``inverted``; ``text`` is the source text of the whole comparison."""

    operator: str
    literal: Literal
    text: str
    inverted: bool = False

    @property
    def effective(self) -> str:
        """The operator with NOT applied."""
        return INVERSE[self.operator] if self.inverted else self.operator


def constant_comparison(left: Literal, operator: str, right: Literal) -> bool | None:
    """Whether ``left operator right``; None for types that engines may compare differently."""
    numbers = (int, Decimal)
    alike = type(left) is type(right) and type(left) in (int, str, date, bool, Decimal, datetime)
    if not alike and not (type(left) in numbers and type(right) in numbers):
        return None
    one: Any = left
    other: Any = right
    try:
        found: Mapping[str, Callable[[], bool]] = {
            "=": lambda: one == other,
            "!=": lambda: one != other,
            "<": lambda: one < other,
            "<=": lambda: one <= other,
            ">": lambda: one > other,
            ">=": lambda: one >= other,
        }
        return bool(found[operator]())
    except TypeError:  # a local time and an instant
        return None


@dataclass(frozen=True)
class Context:
    """``column_of`` returns the column that a node names, None for anything else."""

    dialect: Dialect
    column_of: Callable[[exp.Expr], PredicateColumn | None]
    constants: Constants
    leaves: Leaves

    def compare(self, column: PredicateColumn, operator: str, literal: Literal, text: str) -> BooleanExpression:
        """``column operator literal``."""
        return self.leaves.compare(column, operator, literal, text, inverted=False)
