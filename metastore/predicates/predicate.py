"""Turns a question (SQL text or a PyIceberg expression) into a condition that statistics can answer.

The condition is also a PyIceberg expression: over quoted column paths, without NOT, with literals of the columns' own
types. Rows that pass the question always pass the condition. Parts that cannot be used become "may pass", with a note.
These are functions, arithmetic, column-to-column comparisons, subqueries, and patterns without a prefix. NOT is first
pushed down to the leaves, so "may pass" never turns into "cannot".

A row passes only if the question is TRUE: NULL does not pass, also under NOT, ``!=`` and NOT IN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.expressions import BooleanExpression

from metastore.errors import InvalidRequestError
from metastore.model.mapping.filters import all_of
from metastore.predicates import iceberg_predicate, sql_predicate
from metastore.predicates.columns import Columns, PredicateColumn
from metastore.predicates.condition import AllOf, Condition, SparkCondition
from metastore.predicates.conjunctions import judged_together
from metastore.predicates.leaves import Leaves
from metastore.predicates.spark_sql import double_quoted
from metastore.predicates.time_zones import zone_named

Question = str | BooleanExpression | Condition | AllOf
"""A condition on the rows of one table: Spark SQL, a PyIceberg expression, or one or several parsed conditions."""


@dataclass(frozen=True)
class Predicate:
    """A question in the form that evaluation understands.

    ``condition`` names columns by quoted path, ``columns`` holds the named columns, ``notes`` say what was not usable.
    """

    text: str
    condition: BooleanExpression
    columns: Mapping[str, PredicateColumn]
    notes: tuple[str, ...] = ()
    unusable: tuple[str, ...] = ()
    """The parts of the question that exclude nothing, or less than they could."""
    exact: bool = True
    """Whether the condition passes exactly the rows that pass the question."""


def parse(question: Question, columns: Columns, time_zone: str | None = None) -> Predicate:
    """Parses ``question``: a Spark SQL predicate, a parsed condition, or a PyIceberg expression.

    ``time_zone`` is the session's, for timestamp literals without a zone. With None, such literals exclude only what
    they exclude in every zone. Raises InvalidRequestError for a syntax error, an unknown column, an unknown time zone,
    or a text in double quotes that is a column's name, unless the question is a :class:`SparkCondition`.
    """
    leaves = Leaves(None if time_zone is None else zone_named(time_zone))
    condition = judged_together(resolve_question(question, columns, leaves), leaves.columns)
    return Predicate(
        str(question).strip(), condition, leaves.columns, tuple(leaves.notes), tuple(leaves.unusable), leaves.exact
    )


def resolve_question(question: Question, columns: Columns, leaves: Leaves) -> BooleanExpression:
    """The condition for ``question`` over ``columns``, made by ``leaves``.

    Raises InvalidRequestError as :func:`parse`.
    """
    if isinstance(question, BooleanExpression):
        return iceberg_predicate.resolve(question, columns, leaves)
    if isinstance(question, AllOf):
        return all_of(sql_predicate.translate(part, columns, leaves) for part in question.parts)
    if isinstance(question, str):
        if '"' in question and not isinstance(question, SparkCondition):
            _require_one_reading(question, columns)
        question = Condition.of_spark(question)
    return sql_predicate.translate(question, columns, leaves)


def _require_one_reading(text: str, columns: Columns) -> None:
    """Raise InvalidRequestError for a text in double quotes that is a column's name."""
    for start, _, value in double_quoted(text):
        if column := columns.find(value):
            raise InvalidRequestError(
                f'"{value}" at position {start + 1} of {text!r} has two readings: SQL reads the column {column}, Spark '
                f"the text '{value}'. Write `{column}` for the column or '{value}' for the text; "
                "metastore.SparkCondition(…) and --spark-quotes keep Spark's reading"
            )
