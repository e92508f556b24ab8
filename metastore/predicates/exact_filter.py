"""A text in Spark SQL as Iceberg's expression that chooses exactly its rows: refused where there is none.

Place in the flow: :mod:`metastore.predicates.given_filter` comes here with a filter that is a text. No engine tests its
rows again, so that "holds for every such row, and for more" will not do.
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
    """The expression over columns of ``schema`` for ``text``.

    Times without a zone are in UTC; NULL is as in SQL, so that what is unknown of a row does not pass. Raises
    InvalidRequestError for what is no condition, an unknown column, and what Iceberg cannot say exactly.
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
    """The condition in ``text``, in which columns of ``schema`` may stand in double quotes, as Presto writes names.

    Raises InvalidRequestError, with line and column, for anything but one condition.
    """
    names = set(schema.column_names)
    in_backquotes = text
    for start, end, name in reversed(double_quoted(text)):
        if name in names:
            in_backquotes = f"{in_backquotes[:start]}{quote(tuple(name.split('.')))}{in_backquotes[end:]}"
    return Condition.of_spark(in_backquotes)
