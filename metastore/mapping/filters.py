"""Filters: PyIceberg expressions over on-disk columns, checked, projected and compiled.

There is no expression tree of our own. A filter is bound to the component's schema (an unknown column is the caller's
error), projected onto partition columns for pruning, and compiled to Arrow for rows.
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


def bound(schema: Schema, expression: BooleanExpression) -> BooleanExpression:
    """``expression`` bound to ``schema``, names case-sensitive. InvalidRequestError names an unknown column."""
    try:
        return bind(schema, expression, case_sensitive=True)
    except (ValueError, TypeError) as error:
        known = ", ".join(field.name for field in schema.fields)
        raise InvalidRequestError(f"the filter {expression} does not fit the columns ({known}): {error}") from error


def all_of(expressions: Iterable[BooleanExpression]) -> BooleanExpression:
    """Conjunction of any number of expressions; AlwaysTrue for none."""
    result: BooleanExpression = AlwaysTrue()
    for expression in expressions:
        result = And(result, expression)
    return result


def conjuncts(expression: BooleanExpression) -> Iterator[BooleanExpression]:
    """The terms that ``expression``, bound or not, joins by AND: itself if there are none."""
    if isinstance(expression, And):
        yield from conjuncts(expression.left)
        yield from conjuncts(expression.right)
    else:
        yield expression


def fixed(term: BooleanExpression) -> tuple[str, frozenset[str] | None]:
    """The column and the strings of which it must have one; None in place of these for any other term."""
    match term:
        case EqualTo(term=Reference(name=name), literal=StringLiteral(value=value)):
            return name, frozenset((value,))
        case In(term=Reference(name=name), literals=literals):
            values = [literal.value for literal in literals if isinstance(literal, StringLiteral)]
            return name, frozenset(values) if len(values) == len(literals) else None
    return "", None


def columns_read(schema: Schema, bound_expression: BooleanExpression) -> frozenset[str]:
    """Names of the top-level columns that an expression bound to ``schema`` reads."""
    names = (schema.find_column_name(field_id) for field_id in extract_field_ids(bound_expression))
    return frozenset(name.split(".", 1)[0] for name in names if name)


def require_partition_columns(schema: Schema, spec: PartitionSpec, expression: BooleanExpression) -> None:
    """Refuse an expression over other than partition columns: a partition's file can only go whole.

    Also where the other column says nothing (``row_group_index < 3000000000``): bound, such a condition is gone.
    """
    bound(schema, expression)
    allowed = [schema.find_column_name(field.source_id) for field in spec.fields]
    if others := sorted(visit(expression, _Columns()) - set(allowed)):
        raise InvalidRequestError(
            f"a delete filter may use partition columns only ({', '.join(map(str, allowed))}), not {', '.join(others)}"
        )


class _Columns(BooleanExpressionVisitor[frozenset[str]]):
    """The names that an unbound expression asks for."""

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
    """The schema of partition values: one field a partition column, ids from 1000."""
    return Schema(*spec.partition_type(schema).fields)


def projected(schema: Schema, spec: PartitionSpec, expression: BooleanExpression) -> BooleanExpression:
    """What ``expression``, which fits ``schema``, requires of partition values.

    True for every partition that can hold a matching row.
    """
    return inclusive_projection(schema, spec, case_sensitive=True)(expression)


def compiled(bound_expression: BooleanExpression) -> pc.Expression:
    """A bound expression as an Arrow filter over columns named as in its schema."""
    return expression_to_pyarrow(bound_expression)
