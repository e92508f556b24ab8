"""A query that runs in each task over some rows of its tables: plain data, which pickles.

Place in the flow: :mod:`metastore.sql.tasks.division` decides which tables are divided. Every task runs the same text
in the same DuckDB, so a value does not depend on where it was computed. The rows of tables that are not divided travel
to each task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from metastore.config.sql import SqlSettings
from metastore.duck.queries import Duck, Failure
from metastore.sql.queries.composed_query import ComposedQuery
from metastore.sql.queries.query_errors import Hints, error_of
from metastore.sql.queries.relation import Relation
from metastore.sql.queries.relations import Relations
from metastore.sql.queries.row_parts import HeldRows, RowPart, in_schema
from metastore.sql.queries.select import PreparedQuery, QueryTable, QueryView, prepared_query, rows_of
from metastore.sql.statement import Statement

MOST_HELD_BYTES: Final = 32 << 20
"""The most bytes of other tables that travel to every task."""


@dataclass(frozen=True)
class TaskTable:
    """A table in a task: ``rows`` of a table that is not divided."""

    name: str
    schema: pa.Schema
    rows: HeldRows | None


@dataclass(frozen=True)
class DividedQuery:
    """A query that runs in each task over its own rows of the divided tables."""

    statement: Statement
    text: str
    registered: Sequence[TaskTable | QueryView]
    hints: Hints

    def rows(self, parts: Mapping[int, RowPart]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the query over ``parts`` of the divided tables, by their numbers; others have no rows.

        Raises InvalidRequestError, with line and column, for a value that an expression refuses, and the errors of
        reading ``parts``.
        """
        nothing = HeldRows.of(iter(()), pa.schema([]))
        with Duck(SqlSettings(threads=1)) as duck:
            for number, each in enumerate(self.registered):
                if isinstance(each, QueryView):
                    duck.add_view(each.name, each.text)
                else:
                    rows = each.rows or parts.get(number) or nothing
                    duck.add(each.name, each.schema, partial(in_schema, rows, each.schema))
            try:
                yield from duck.stream(self.text).batches
            except Failure as failure:
                raise error_of(self.statement, failure, self.text, self.hints) from failure.__cause__


def register(duck: Duck, prepared: PreparedQuery, streams: Sequence[int]) -> None:
    """Register the tables without rows; those with the numbers ``streams`` as streams, which a plan shows as such."""
    for number, each in enumerate(prepared.registered):
        if isinstance(each, QueryView):
            duck.add_view(each.name, each.text)
            continue
        schema = each.relation.part(each.asked.columns)
        if number in streams:
            duck.add(each.name, schema, lambda: iter(()))
        else:
            duck.add_empty(each.name, schema)


def prepared_columns(prepared: PreparedQuery) -> pa.Schema:
    """Returns the columns of the rows of a query. Raises :class:`metastore.duck.queries.Failure`."""
    with Duck() as duck:
        register(duck, prepared, ())
        return duck.columns(prepared.text)[0]


def hold_rows(table: QueryTable, room: int) -> HeldRows | None:
    """Returns the rows that are asked of ``table``; None if they are more than ``room`` bytes."""
    rows = table.relation.on_store(table.asked)
    if rows is not None and rows.size > MOST_HELD_BYTES:
        return None
    relation: Relation = table.relation
    found = HeldRows.of(relation.batches(table.asked), relation.part(table.asked.columns))
    return found if len(found.content) <= room else None


def held_rows(composed: ComposedQuery, relations: Relations) -> pa.Table | None:
    """Returns the rows of the query ``composed``, which runs here once, as tasks may read them in its place.

    Returns None if they are too many, if two columns have one name, or if a type of DuckDB would become another one on
    the way. Raises the errors of the query.
    """
    with composed.errors():
        prepared = prepared_query(composed.query(), relations)
        with Duck() as duck:
            register(duck, prepared, ())
            try:
                columns, types = duck.columns(prepared.text)
            except Failure:
                return None  # the query of the whole statement says what is wrong
            if len({name.lower() for name in columns.names}) < len(columns.names):
                return None
            again = f"FROM {duck.add('held', columns, lambda: iter(()))}"
            if duck.columns(again)[1] != types:
                return None
        rows = rows_of(composed.query(), relations)
    return rows if rows.nbytes <= MOST_HELD_BYTES else None
