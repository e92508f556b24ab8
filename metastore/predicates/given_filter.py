"""A caller's filter on metadata rows: an expression, or a text in Spark SQL.

Place in the flow: reads and deletes of components, ready requests and INFORMATION_SCHEMA accept filters here.
"""

from __future__ import annotations

from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema

from metastore.ground.forks import imported_when_needed
from metastore.model.mapping.filters import balance

Filter = BooleanExpression | str
"""A PyIceberg expression over column names, or a condition in Spark SQL."""


def expression_of(filter_: Filter, schema: Schema) -> BooleanExpression:
    """The expression for ``filter_`` over columns of ``schema``; a text is parsed.

    Raises InvalidRequestError as :func:`metastore.predicates.exact_filter.exact_filter`.
    """
    if isinstance(filter_, BooleanExpression):
        return balance(filter_)
    reader = imported_when_needed("metastore.predicates.exact_filter")  # importing the SQL parser takes long
    expression: BooleanExpression = reader.exact_filter(filter_, schema)
    return expression
