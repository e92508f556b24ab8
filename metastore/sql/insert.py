"""INSERT INTO and INSERT OVERWRITE: the rows of a query become new data files of a catalog's table.

::

    INSERT INTO      [TABLE] catalog.schema.table [PARTITION (…)] [BY NAME] [(column, …)] {query | VALUES …}
    INSERT OVERWRITE [TABLE] catalog.schema.table [PARTITION (…)] [BY NAME] [(column, …)] {query | VALUES …}

Values go to the columns in the brackets, or to all columns by position. With BY NAME they go to the columns with the
names of the query's columns. A column without a value is NULL. Types are widened or refused
(:mod:`metastore.writes.conforming`).

INSERT OVERWRITE replaces rows in the same commit: those that match the values in PARTITION; without values, the
partitions that the new rows have; in an unpartitioned table all rows (:mod:`metastore.writes.replaced_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from sqlglot import Token, TokenType

from metastore.sql.expressions import positions_of
from metastore.sql.named_table import named_table
from metastore.sql.partition_clause import PartitionValue, partition_clause
from metastore.sql.row_writes import Reading, RowPlan, run_change
from metastore.sql.select import rows_of
from metastore.sql.statement import Cursor, Name, Statement
from metastore.sql.target import StatementTarget
from metastore.writes.conforming import conformed
from metastore.writes.replaced_rows import Partitions, replaced_rows
from metastore.writes.row_changes import RowChanges


def insert(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one INSERT INTO; returns the row of :func:`metastore.sql.row_writes.run_change`."""
    return _run(target, statement, overwrites=False)


def insert_overwrite(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one INSERT OVERWRITE; returns the row of :func:`metastore.sql.row_writes.run_change`.

    Replaced rows count as deleted. A query without rows changes a partitioned table only if PARTITION has values.
    """
    return _run(target, statement, overwrites=True)


def _run(target: StatementTarget, statement: Statement, *, overwrites: bool) -> pa.Table:
    cursor = Cursor(statement, 2)
    cursor.accept_word("TABLE")
    named = named_table(target, cursor)
    clause = partition_clause(cursor)
    by_name = cursor.accept_word("BY")
    if by_name:
        cursor.expect_word("NAME")
    columns = _columns(cursor)
    start = cursor.token
    if start is None:
        raise cursor.unexpected("a query, or VALUES")
    if by_name and columns:
        raise statement.error(
            "BY NAME uses the column names of the query: give BY NAME or columns in brackets, not both", start
        )
    query = query_from(statement, start)

    def plan(reading: Reading) -> RowPlan:
        fixed = clause.values(cursor, reading)
        rows = rows_of(query, reading.relations)
        schema = reading.table.schema()
        chosen = columns
        if by_name:
            chosen = [Name(name, False, start) for name in rows.column_names]
        clause.require_absent(cursor, reading, chosen)
        taken = {each.place for each in fixed}
        others = [place for place in range(len(schema.fields)) if place not in taken]
        places = positions_of(cursor, schema, list(chosen)) if chosen else others
        if len(places) != rows.num_columns:
            raise statement.error(
                f"the query has {rows.num_columns} columns, and values are expected for {len(places)}: "
                f"{', '.join(schema.fields[place].name for place in places)}",
                start,
            )
        with statement.at(start):
            given = {schema.fields[place].name: rows.column(at) for at, place in enumerate(places)}
            first = np.zeros(rows.num_rows, dtype=np.int64)
            given.update({schema.fields[each.place].name: each.value.take(first) for each in fixed})
            made = conformed(given, schema, reading.job.arrow_schema, rows.num_rows)
        inserted = RowPlan(inserted=made if made.num_rows else None, counts={"inserted": made.num_rows})
        if not overwrites:
            return inserted
        return _overwriting(reading, made, fixed, alone=not reading.relations.has_read(named.table))

    return run_change(target, named.table, plan, "delete" if overwrites else None)


def _overwriting(reading: Reading, made: pa.Table, fixed: Sequence[PartitionValue], *, alone: bool) -> RowPlan:
    """Returns the plan that inserts ``made`` for the rows that they replace; ``alone``: the query read other tables."""
    job, schema = reading.job, reading.table.schema()
    if fixed:
        partitions = Partitions.of_values(schema, [each.field for each in fixed], [each.value for each in fixed])
    else:
        partitions = Partitions.of_rows(job, made)
    replaced = replaced_rows(job, reading.live, partitions)
    return RowPlan(
        inserted=made if made.num_rows else None,
        changes=RowChanges(replaced.addresses) if replaced.addresses.num_rows else None,
        dropped=replaced.files,
        dropped_deletes=replaced.deletes,
        condition=partitions.condition(schema) if alone else None,
        counts={"inserted": made.num_rows, "deleted": replaced.count},
    )


def query_from(statement: Statement, start: Token) -> Statement:
    """Returns the query that begins at ``start``, with its place in the text."""
    before = statement.text[: start.start]
    return Statement.parse("".join(each if each == "\n" else " " for each in before) + statement.text[start.start :])


def _columns(cursor: Cursor) -> Sequence[Name]:
    """Read the columns in brackets; none if the bracket belongs to a query."""
    if not cursor.ahead(TokenType.L_PAREN) or _begins_query(cursor):
        return ()
    cursor.advance()
    found = [cursor.name("the name of a column")]
    while cursor.accept(TokenType.COMMA):
        found.append(cursor.name("the name of a column"))
    cursor.expect(TokenType.R_PAREN, ", or )")
    return found


def _begins_query(cursor: Cursor) -> bool:
    return any(cursor.ahead(kind, by=1) for kind in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN))


HANDLERS: Final = {("INSERT", "INTO"): insert, ("INSERT", "OVERWRITE"): insert_overwrite}
"""Handlers by the first words of their statements."""
