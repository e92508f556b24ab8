"""A Spark SQL text as the Iceberg expression that selects exactly its rows; a text without one is refused.

Place in the flow: :mod:`metastore.predicates.given_filter` calls this for filters given as text. No engine tests the
rows again, so an expression that holds for more rows is not sufficient.
"""

from __future__ import annotations

from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema

from metastore.errors import InvalidRequestError
from metastore.model.column_path import quote
from metastore.predicates.condition import Condition
from metastore.predicates.iceberg_filter import iceberg_filter
from metastore.predicates.spark_sql import double_quoted


def exact_filter(text: str, schema: Schema) -> BooleanExpression:
    """The expression for ``text`` over columns of ``schema``.

    Times without a zone are in UTC. NULL is as in SQL: a row with an unknown result does not pass. Raises
    InvalidRequestError for an invalid condition, an unknown column, and a condition that Iceberg cannot express
    exactly.
    """
    chosen = iceberg_filter(condition_in(text, schema), schema, by_pyiceberg=False)
    if not chosen.exact:
        unusable = [note for note in chosen.notes if note.startswith("not usable")]
        reason = "; ".join(unusable) or "it has a function of a column, or a constant that is rounded beside it"
        raise InvalidRequestError(
            f"the filter {text!r} cannot be carried out: {reason}. Compare columns with constants of their types"
        )
    return chosen.expression


def condition_in(text: str, schema: Schema) -> Condition:
    """The condition in ``text``; columns of ``schema`` may be in double quotes, as Presto writes names.

    Raises InvalidRequestError, with line and column, for anything but one condition.
    """
    names = set(schema.column_names)
    in_backquotes = text
    for start, end, name in reversed(double_quoted(text)):
        if name in names:
            in_backquotes = f"{in_backquotes[:start]}{quote(tuple(name.split('.')))}{in_backquotes[end:]}"
    return Condition.of_spark(in_backquotes)
