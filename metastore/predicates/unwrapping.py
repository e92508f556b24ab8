"""Functions of a column compared with a constant, as conditions on the column itself.

``date(ts) = DATE '2024-01-05'`` holds for the times of a day, ``left(s, 3) = 'abc'`` for texts with a prefix. ``x + 1 >
5`` holds for ``x > 4`` and for numbers that overflow. The rules are Trino's (UnwrapDateTruncInComparison,
UnwrapCastInComparison, UnwrapYearInComparison and others) where they are sound for both Spark and DuckDB.

The condition follows from the question: every row that passes the question passes the condition. A comparison under NOT
is inverted first. Each of these functions is NULL for NULL, so the opposite comparison is the negation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Final

from pyiceberg.expressions import AlwaysFalse, BooleanExpression, Or
from sqlglot import exp

from metastore.model.drill_types import INTEGER_LIMITS, INTEGER_TYPES
from metastore.predicates.columns import PredicateColumn
from metastore.predicates.constants import NotConstant
from metastore.predicates.function_of_column import (
    MAX_DIGITS,
    Comparison,
    Context,
    constant_comparison,
)
from metastore.predicates.time_spans import Literal
from metastore.predicates.unwrapped_numbers import of_arithmetic
from metastore.predicates.unwrapped_times import of_unit

_WIDER: Final[Mapping[exp.DType, frozenset[str]]] = {
    exp.DType.SMALLINT: frozenset({"TINYINT", "SMALLINT"}),
    exp.DType.INT: frozenset({"TINYINT", "SMALLINT", "INT"}),
    exp.DType.BIGINT: frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"}),
    exp.DType.DOUBLE: frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"}),
    exp.DType.TEXT: frozenset({"VARCHAR"}),
    exp.DType.BOOLEAN: frozenset({"BOOLEAN"}),
}
"""Casts that can be unwrapped, by target: the column types. They keep values, BIGINT to DOUBLE only the order."""


@dataclass(frozen=True)
class Unwrapping(Context):
    """Makes conditions from comparisons of functions."""

    def comparison(self, subject: exp.Expr, comparison: Comparison) -> BooleanExpression | None:
        """The condition for ``subject``, a function, compared as ``comparison``; None if it cannot be unwrapped.

        Raises NotConstant, with the reason, if an argument or the literal prevents it.
        """
        subject = subject.unnest()
        if isinstance(subject, exp.Coalesce):
            return self._coalesce(subject, comparison)
        if isinstance(subject, (exp.Add, exp.Sub, exp.Mul, exp.Neg)):
            return of_arithmetic(self, subject, comparison)
        if isinstance(subject, (exp.Left, exp.Substring)):
            return self._prefix(subject, comparison)
        if isinstance(subject, exp.Cast) and subject.to.this is not exp.DType.DATE:
            return self._cast(subject, comparison)
        return of_unit(self, subject, comparison)

    def test(self, node: exp.Expr, text: str, *, inverted: bool) -> BooleanExpression | None:
        """The condition for ``node``, a function that is true or false; None if it cannot be unwrapped."""
        if isinstance(node, exp.StartsWith):
            column, prefix = self.column_of(node.this), self.constants.value(node.expression)
            if column is None or not isinstance(prefix, str):
                return None
            return self.leaves.start_with(column, prefix, inverted=inverted)
        if isinstance(node, exp.IsNan):
            column = self.column_of(node.this)
            if column is None or column.type.name not in ("FLOAT", "DOUBLE") or inverted:
                return None  # NOT isnan(NULL) is TRUE in Spark, NULL in DuckDB
            return self.leaves.is_nan(column, inverted=False)
        if isinstance(node, exp.Coalesce):
            return self._coalesce(node, Comparison("=", True, text, inverted=inverted))
        if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
            column = self.column_of(node.expressions[0])
            if column is not None and node.name.lower() in ("isnull", "isnotnull"):
                return self.leaves.is_null(column, inverted=inverted is not (node.name.lower() == "isnotnull"))
        return None

    # Casts, and coalesce.

    def _cast(self, node: exp.Cast, comparison: Comparison) -> BooleanExpression | None:
        """The comparison on the column itself if the cast keeps all values and their order; else NotConstant."""
        column, kind = self.column_of(node.this), node.to.this
        if column is None:
            return None
        keeps = column.type.name in _WIDER.get(kind, ()) and not node.to.expressions
        if kind is exp.DType.DECIMAL and column.type.name == "DECIMAL" and len(node.to.expressions) == 2:
            precision, scale = (int(each.name) for each in node.to.expressions)
            own_precision, own_scale = column.type.arguments or (MAX_DIGITS, 0)
            keeps = scale >= own_scale and precision - scale >= own_precision - own_scale
        moments = (*self.dialect.instants, *self.dialect.local_times)
        if kind in moments and column.type.name == "TIMESTAMP" and not node.to.expressions:
            keeps = column.zoned is (kind in self.dialect.instants)
        if not keeps:
            raise NotConstant(f"a cast of {column.type} to {node.to.sql(self.dialect.sql)} may change values or fail")
        if (
            kind is exp.DType.DOUBLE
            and column.type.name in INTEGER_TYPES
            and type(comparison.literal) in (int, Decimal)
        ):
            comparison = replace(comparison, literal=float(comparison.literal))  # type: ignore[arg-type]
        found = self.leaves.compare(
            column, comparison.operator, comparison.literal, comparison.text, inverted=comparison.inverted
        )
        return self.leaves.weaken_to(found)

    def _coalesce(self, node: exp.Coalesce, comparison: Comparison) -> BooleanExpression | None:
        """The comparison on the column, or NULL if the default may satisfy it."""
        column = self.column_of(node.this)
        if column is None or len(node.expressions) != 1:
            return None
        default = self.constants.value(node.expressions[0])
        if default is None or not _is_of_type(column, default):
            raise NotConstant(f"coalesce of {column.type} and another type")
        found = self.leaves.compare(
            column, comparison.operator, comparison.literal, comparison.text, inverted=comparison.inverted
        )
        # Beside DOUBLE, two decimals may round to one number.
        if (
            column.type.name == "DOUBLE"
            or constant_comparison(default, comparison.effective, comparison.literal) is not False
        ):
            found = Or(found, self.leaves.is_null(column, inverted=False))
        return self.leaves.weaken_to(found)

    # Texts.

    def _prefix(self, node: exp.Left | exp.Substring, comparison: Comparison) -> BooleanExpression | None:
        column = self.column_of(node.this)
        length_node = node.expression if isinstance(node, exp.Left) else node.args.get("length")
        if column is None or length_node is None:
            return None
        length, text = self.constants.value(length_node), comparison.literal
        starts: tuple[Literal, ...] = (0, 1) if self.dialect.substring_starts_at_zero else (1,)
        if isinstance(node, exp.Substring) and self.constants.value(node.args["start"]) not in starts:
            raise NotConstant("a piece of a text that does not begin at its first letter")
        if column.type.name != "VARCHAR" or not isinstance(text, str) or type(length) is not int or length < 1:
            raise NotConstant("a piece of a text is compared with something else, or has no length")
        return self.leaves.weaken_to(self._begins(column, length, text, comparison))

    def _begins(self, column: PredicateColumn, length: int, text: str, comparison: Comparison) -> BooleanExpression:
        """The condition for the first ``length`` letters of ``column`` compared with ``text``, in code point order."""
        operator = comparison.effective
        if operator in ("=", "!="):
            if len(text) > length:
                return AlwaysFalse() if operator == "=" else self.leaves.is_null(column, inverted=True)
            if len(text) == length:
                return self.leaves.start_with(column, text, inverted=operator == "!=")
            return self.compare(column, operator, text, comparison.text)
        if operator in (">", ">="):
            return self.compare(column, operator, text, comparison.text)
        if len(text) > length:
            raise NotConstant("a text that is longer than the piece it is compared with")
        below = self.compare(column, operator, text, comparison.text)
        if operator == "<=" and len(text) == length:
            return Or(below, self.leaves.start_with(column, text, inverted=False))
        return below


def _is_of_type(column: PredicateColumn, value: Literal) -> bool:
    """Whether the type common to ``column`` and ``value`` is the column's."""
    name = column.type.name
    if name in INTEGER_LIMITS:
        least, most = INTEGER_LIMITS[name]
        return type(value) is int and least <= value <= most
    kinds: Mapping[str, tuple[type, ...]] = {
        "VARCHAR": (str,),
        "BOOLEAN": (bool,),
        "DATE": (date,),
        "DOUBLE": (int, float, Decimal),
        "TIMESTAMP": () if column.zoned else (datetime,),
    }
    return type(value) in kinds.get(name, ())
