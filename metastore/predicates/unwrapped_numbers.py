"""Sums and products of a column and a whole number, as conditions on the column: ``x + 1 > 5`` is ``x > 4``.

Numbers for which the arithmetic overflows always pass the condition: an engine fails there, or wraps around.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from pyiceberg.expressions import AlwaysFalse, BooleanExpression, Or
from sqlglot import exp

from metastore.model.drill_types import INTEGER_LIMITS
from metastore.predicates.columns import PredicateColumn
from metastore.predicates.constants import NotConstant
from metastore.predicates.function_of_column import MAX_DIGITS, MIRRORED, Comparison, Context
from metastore.predicates.literals import EXACT
from metastore.predicates.unwrapped_times import moved_days, unwrap_interval


def of_arithmetic(context: Context, node: exp.Expr, comparison: Comparison) -> BooleanExpression | None:
    """The condition for ``node`` (a sum, product or negation) compared as ``comparison``; None if it has no column."""
    if isinstance(node, exp.Neg):
        column, constant, column_first = context.column_of(node.this), 0, False
        kind: type[exp.Expr] = exp.Sub
    else:
        kind, column, column_first = type(node), context.column_of(node.this), True
        other = node.expression
        if column is None:
            column, other, column_first = context.column_of(node.expression), node.this, False
        if column is None:
            return None
        if isinstance(other, exp.Interval):
            return (
                unwrap_interval(context, column, other, -1 if kind is exp.Sub else 1, comparison)
                if column_first
                else None
            )
        constant = context.constants.value(other)  # type: ignore[assignment]
    if column is None or type(constant) is not int:
        raise NotConstant("arithmetic with other than a whole number may round")
    if column.type.name == "DATE" and column_first and kind is not exp.Mul:
        return moved_days(context, column, constant if kind is exp.Add else -constant, comparison)
    if type(comparison.literal) not in (int, Decimal) or not -(2**63) <= comparison.literal < 2**63:  # type: ignore[operator]
        raise NotConstant("arithmetic that is compared with other than whole or decimal numbers of 64 bits may round")
    if column.type.name == "DECIMAL" and kind is not exp.Mul:
        precision, scale = column.type.arguments or (MAX_DIGITS, 0)
        if max(precision - scale, len(str(abs(constant)))) + 1 + scale > MAX_DIGITS:
            raise NotConstant("the sum may have more than 38 digits")
        return context.leaves.weaken_to(
            _inverse(context, column, kind, constant, comparison, column_first=column_first)
        )
    if column.type.name not in INTEGER_LIMITS:
        raise NotConstant(f"arithmetic with {column.type} may round or fail")
    found = _inverse(context, column, kind, constant, comparison, column_first=column_first)
    return context.leaves.weaken_to(
        _or_overflow(context, column, kind, constant, found, comparison, column_first=column_first)
    )


def _inverse(
    context: Context,
    column: PredicateColumn,
    kind: type[exp.Expr],
    constant: int,
    comparison: Comparison,
    *,
    column_first: bool,
) -> BooleanExpression:
    """The comparison solved for the column, as if no number were too large."""
    operator, literal = comparison.effective, Decimal(comparison.literal)  # type: ignore[arg-type]
    if kind is exp.Mul:
        return _divide_literal(context, column, constant, operator, literal, comparison.text)
    if kind is exp.Add:
        bound = EXACT.subtract(literal, Decimal(constant))
    elif column_first:
        bound = EXACT.add(literal, Decimal(constant))
    else:
        bound, operator = EXACT.subtract(Decimal(constant), literal), MIRRORED[operator]
    return context.compare(column, operator, _whole(bound), comparison.text)


def _divide_literal(
    context: Context, column: PredicateColumn, factor: int, operator: str, literal: Decimal, text: str
) -> BooleanExpression:
    if factor == 0:
        raise NotConstant("a product with 0")
    quotient = Fraction(literal) / factor
    operator = MIRRORED[operator] if factor < 0 else operator
    below = math.floor(quotient)
    exact = quotient.denominator == 1
    if operator == "=" and not exact:
        return AlwaysFalse()
    if operator == "!=" and not exact:
        return context.leaves.is_null(column, inverted=True)
    bound = below if exact or operator in ("<=", ">") else below + 1
    return context.compare(column, operator, bound, text)


def _or_overflow(
    context: Context,
    column: PredicateColumn,
    kind: type[exp.Expr],
    constant: int,
    found: BooleanExpression,
    comparison: Comparison,
    *,
    column_first: bool,
) -> BooleanExpression:
    """``found``, or the numbers for which the arithmetic overflows: it fails there, or wraps around."""
    least, most = INTEGER_LIMITS[column.type.name]
    if kind is exp.Mul:
        ends = sorted((Fraction(least, constant), Fraction(most, constant)))
        low, high = math.ceil(ends[0]), math.floor(ends[1])
    elif kind is exp.Add:
        low, high = least - constant, most - constant
    elif column_first:
        low, high = least + constant, most + constant
    else:
        low, high = constant - most, constant - least
    parts = [found]
    if low > least:
        parts.append(context.compare(column, "<", low, comparison.text))
    if high < most:
        parts.append(context.compare(column, ">", high, comparison.text))
    return Or(*parts) if len(parts) > 1 else found


def _whole(number: Decimal) -> int | Decimal:
    return int(number) if number == number.to_integral_value() else number
