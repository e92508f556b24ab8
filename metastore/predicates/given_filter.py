"""What a caller gives to choose rows of the metadata: an expression, or a text in Spark SQL.

Place in the flow: reads and deletes of components, ready requests and INFORMATION_SCHEMA take filters here.
"""

from __future__ import annotations

from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema

from metastore.forks import imported_when_needed

Filter = BooleanExpression | str
"""A PyIceberg expression over column names, or the same in Spark SQL."""


def expression_of(filter_: Filter, schema: Schema) -> BooleanExpression:
    """The expression over columns of ``schema`` that ``filter_`` is, or that its text says.

    Raises InvalidRequestError as :func:`metastore.predicates.exact_filter.exact_filter`.
    """
    if isinstance(filter_, BooleanExpression):
        return filter_
    reader = imported_when_needed("metastore.predicates.exact_filter")  # a parser of SQL takes long to import
    expression: BooleanExpression = reader.exact_filter(filter_, schema)
    return expression
