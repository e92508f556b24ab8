"""A filter of rows, as Iceberg's expression that chooses exactly these rows: refused where there is none.

Place in the flow: reads and deletes of components, ready requests and INFORMATION_SCHEMA take a text in Spark SQL, or a
PyIceberg expression. No engine tests their rows again, so that "holds for every such row, and for more" will not do.
"""

from __future__ import annotations

from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema

from metastore.errors import InvalidRequestError
from metastore.model.column_path import quote
from metastore.predicates.condition import Condition
from metastore.predicates.iceberg_filter import iceberg_filter
from metastore.predicates.spark_sql import double_quoted

Filter = BooleanExpression | str
"""What a caller gives: an expression over column names, or the same in Spark SQL."""


def exact_filter(filter_: Filter, schema: Schema) -> BooleanExpression:
    """The expression over columns of ``schema`` for ``filter_``; an expression is what it is.

    Times without a zone are in UTC; NULL is as in SQL, so that what is unknown of a row does not pass. Raises
    InvalidRequestError for what is no condition, an unknown column, and what Iceberg cannot say exactly.
    """
    if isinstance(filter_, BooleanExpression):
        return filter_
    chosen = iceberg_filter(condition_in(filter_, schema), schema, by_pyiceberg=False)
    if not chosen.exact:
        reasons = "; ".join(note for note in chosen.notes if note.startswith("not usable"))
        raise InvalidRequestError(
            f"the filter {filter_!r} cannot be carried out: {reasons or 'it has a function of a column'}. "
            "Compare columns with constants of their types"
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
