"""Filters: PyIceberg expressions over on-disk columns; this module checks, projects and compiles them.

The package has no expression classes of its own. A filter is bound to the component's schema (an unknown column is the
caller's error), projected onto partition columns for pruning, and compiled to Arrow for rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow.compute as pc
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundPredicate,
    EqualTo,
    In,
    Not,
    Or,
    Reference,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import StringLiteral
from pyiceberg.expressions.visitors import (
    BooleanExpressionVisitor,
    bind,
    extract_field_ids,
    inclusive_projection,
    visit,
)
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema

from metastore.errors import InvalidRequestError


def bind_filter(schema: Schema, expression: BooleanExpression) -> BooleanExpression:
    """Returns ``expression`` bound to ``schema``, case-sensitive. Raises InvalidRequestError for an unknown column."""
    try:
        return bind(schema, expression, case_sensitive=True)
    except (ValueError, TypeError) as error:
        known = ", ".join(field.name for field in schema.fields)
        raise InvalidRequestError(f"the filter {expression} does not fit the columns ({known}): {error}") from error


def all_of(expressions: Iterable[BooleanExpression]) -> BooleanExpression:
    """Returns the conjunction of any number of expressions, as a balanced tree; AlwaysTrue for none."""
    return And(AlwaysTrue(), AlwaysTrue(), *expressions)


def balance(expression: BooleanExpression) -> BooleanExpression:
    """Returns the same condition, with chains of AND and of OR as trees of small depth.

    Callers chain hundreds of terms, and every visitor of an expression calls itself for each level.
    """
    if isinstance(expression, Not):
        return Not(balance(expression.child))
    kind = type(expression)
    if not isinstance(expression, (And, Or)):
        return expression
    terms: list[BooleanExpression] = []
    waiting: list[BooleanExpression] = [expression]
    while waiting:
        term = waiting.pop()
        if isinstance(term, (And, Or)) and type(term) is kind:
            waiting += (term.right, term.left)
        else:
            terms.append(balance(term))
    return kind(*terms)


def conjuncts(expression: BooleanExpression) -> Iterator[BooleanExpression]:
    """Yields the terms of the conjunction ``expression``, bound or not, or the expression itself if it has no AND."""
    if isinstance(expression, And):
        yield from conjuncts(expression.left)
        yield from conjuncts(expression.right)
    else:
        yield expression


def allowed_strings(term: BooleanExpression) -> tuple[str, frozenset[str] | None]:
    """Returns the column and the allowed strings of an equality or IN term; None as strings for any other term."""
    match term:
        case EqualTo(term=Reference(name=name), literal=StringLiteral(value=value)):
            return name, frozenset((value,))
        case In(term=Reference(name=name), literals=literals):
            values = [literal.value for literal in literals if isinstance(literal, StringLiteral)]
            return name, frozenset(values) if len(values) == len(literals) else None
    return "", None


def columns_read(schema: Schema, bound_expression: BooleanExpression) -> frozenset[str]:
    """Returns the names of the top-level columns in an expression that is bound to ``schema``."""
    names = (schema.find_column_name(field_id) for field_id in extract_field_ids(bound_expression))
    return frozenset(name.split(".", 1)[0] for name in names if name)


def columns_tested(bound_expression: BooleanExpression) -> frozenset[str]:
    """Returns the names of the columns that a bound expression over columns without fields tests."""
    return visit(bound_expression, _Columns())


def require_partition_columns(schema: Schema, spec: PartitionSpec, expression: BooleanExpression) -> None:
    """Raises InvalidRequestError if the expression has other than partition columns.

    A partition's file can only be deleted as a whole. The unbound expression is checked, because binding removes
    conditions that are always true (``row_group_index < 3000000000``).
    """
    bind_filter(schema, expression)
    allowed = [schema.find_column_name(field.source_id) for field in spec.fields]
    if others := sorted(visit(expression, _Columns()) - set(allowed)):
        raise InvalidRequestError(
            f"a delete filter may use partition columns only ({', '.join(map(str, allowed))}), not {', '.join(others)}"
        )


class _Columns(BooleanExpressionVisitor[frozenset[str]]):
    """Collects the column names of an unbound expression."""

    def visit_true(self) -> frozenset[str]:
        return frozenset()

    visit_false = visit_true

    def visit_not(self, child_result: frozenset[str]) -> frozenset[str]:
        return child_result

    def visit_and(self, left_result: frozenset[str], right_result: frozenset[str]) -> frozenset[str]:
        return left_result | right_result

    visit_or = visit_and

    def visit_unbound_predicate(self, predicate: UnboundPredicate) -> frozenset[str]:
        assert isinstance(predicate.term, Reference)
        return frozenset((predicate.term.name,))

    def visit_bound_predicate(self, predicate: BoundPredicate) -> frozenset[str]:
        return frozenset((predicate.term.ref().field.name,))


def partition_schema(schema: Schema, spec: PartitionSpec) -> Schema:
    """Returns the schema of partition values: one field for each partition column, ids from 1000."""
    return Schema(*spec.partition_type(schema).fields)


def project_on_partitions(schema: Schema, spec: PartitionSpec, expression: BooleanExpression) -> BooleanExpression:
    """Returns a condition on partition values that every partition with a row matching ``expression`` meets.

    ``expression`` must fit ``schema``.
    """
    return inclusive_projection(schema, spec, case_sensitive=True)(expression)


def to_arrow_filter(bound_expression: BooleanExpression) -> pc.Expression:
    """Returns a bound expression as an Arrow filter over columns named as in its schema."""
    return expression_to_pyarrow(bound_expression)
