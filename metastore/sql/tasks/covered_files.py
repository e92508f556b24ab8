"""Data files all of whose rows satisfy a condition, by the partition values of their entries alone.

Place in the flow: DELETE drops these files, and does not read them. A file is covered if the negated condition, as the
one reader of conditions has it, can be true of no row of the file's partition. A condition that is NULL for a row
deletes nothing, so a file of a partition with a NULL value is not covered, nor by a condition with a part that may be
NULL for other reasons, such as a function. Bounds of columns are not asked: a wrong one would delete rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import VoidTransform
from pyiceberg.typedef import Record
from sqlglot import exp

from metastore.duck.queries import Duck
from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.columns.readable_columns import readable_schema
from metastore.lake.iceberg.rows.live_files import partition_test
from metastore.predicates.condition import Condition
from metastore.sql.queries.composed_query import ComposedQuery
from metastore.sql.queries.narrowed_read import fitting
from metastore.sql.queries.push_down import AskedRows, asked_of
from metastore.sql.queries.query_text import QueryText
from metastore.sql.tasks.row_writes import StatementReading

_PLAIN: Final = (
    exp.And,
    exp.Or,
    exp.Not,
    exp.Paren,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.In,
    exp.Between,
    exp.Column,
    exp.Identifier,
    exp.Literal,
    exp.Neg,
    exp.Boolean,
    exp.DataType,
)
"""Parts of a condition that is NULL only if a column is; a CAST is one if it is of a constant."""


def covered_files(negated: ComposedQuery, reading: StatementReading) -> list[int]:
    """Return the numbers of the covered files in ``reading.live``; ``negated`` selects rows by the negated condition.

    A file with deletes is covered only if they are one deletion vector, which says how many rows it takes away.
    """
    live, metadata = reading.live, reading.table.metadata
    asked = _read_condition(negated, metadata)
    if asked is None or not isinstance(asked.condition, Condition):
        return []
    if not all(map(is_plain, asked.condition.tree.walk())):
        return []
    expression = _expression(asked, metadata)
    if isinstance(expression, AlwaysTrue):
        return []
    tests: dict[int, Callable[[Record], bool]] = {}
    found = []
    for number, data in enumerate(live.files):
        spec = metadata.specs()[data.file.spec_id]
        values = [
            data.file.partition[position]
            for position, field in enumerate(spec.fields)
            if not isinstance(field.transform, VoidTransform)
        ]
        if not values or None in values or live.row_count(number) is None:
            continue
        if spec.spec_id not in tests:
            tests[spec.spec_id] = partition_test(metadata, spec, expression)
        if not tests[spec.spec_id](data.file.partition):
            found.append(number)
    return found


def implied_condition(selected: ComposedQuery, reading: StatementReading) -> BooleanExpression | None:
    """Return what is true of every row that the query ``selected`` finds; None if it depends on other rows, too."""
    metadata = reading.table.metadata
    asked = _read_condition(selected, metadata)
    return None if asked is None else _expression(asked, metadata)


def _read_condition(selected: ComposedQuery, metadata: TableMetadata) -> AskedRows | None:
    """Return the condition of a query on one table as the one reader of conditions has it; None for other queries."""
    try:
        with Duck() as duck:
            query = QueryText.parse(selected.query(), duck.check)
    except InvalidRequestError:
        return None  # the query for the rows says what is wrong
    if len(query.references) != 1:
        return None
    columns = schema_to_pyarrow(readable_schema(metadata.schema()), include_field_ids=False)
    return asked_of(query, query.references[0], columns)


def _expression(request: AskedRows, metadata: TableMetadata) -> BooleanExpression:
    try:
        return fitting(request, readable_schema(metadata.schema())).expression
    except InvalidRequestError:
        return AlwaysTrue()


def is_plain(node: exp.Expr) -> bool:
    """Whether a part of a condition is NULL only if a column is."""
    if isinstance(node, exp.Cast):
        return isinstance(node.this.this if isinstance(node.this, exp.Neg) else node.this, exp.Literal)
    return isinstance(node, _PLAIN)
