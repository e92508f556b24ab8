"""INSERT INTO: the rows of a query become new data files of a catalog's table.

::

    INSERT INTO [TABLE] catalog.schema.table [BY NAME] [(column, …)] {query | VALUES …}

Values go to the columns in the brackets, or to all columns by position. With BY NAME they go to the columns with the
names of the query's columns. A column without a value is NULL. Types are widened or refused
(:mod:`metastore.writes.conforming`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from sqlglot import Token, TokenType

from metastore.errors import InvalidRequestError
from metastore.sql.expressions import positions_of
from metastore.sql.named_table import named_table
from metastore.sql.row_writes import Reading, RowPlan, run_change
from metastore.sql.select import rows_of
from metastore.sql.statement import Cursor, Name, Statement
from metastore.sql.target import StatementTarget
from metastore.writes.conforming import conformed


def insert(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one INSERT; returns the row of :func:`metastore.sql.row_writes.run_change`."""
    cursor = Cursor(statement, 2)
    cursor.accept_word("TABLE")
    named = named_table(target, cursor)
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
        rows = rows_of(query, reading.relations)
        schema = reading.table.schema()
        chosen = columns
        if by_name:
            chosen = [Name(name, False, start) for name in rows.column_names]
        places = positions_of(cursor, schema, list(chosen)) if chosen else list(range(len(schema.fields)))
        if len(places) != rows.num_columns:
            raise statement.error(
                f"the query has {rows.num_columns} columns, and values are expected for {len(places)}: "
                f"{', '.join(schema.fields[place].name for place in places)}",
                start,
            )
        with statement.at(start):
            given = {schema.fields[place].name: rows.column(at) for at, place in enumerate(places)}
            made = conformed(given, schema, reading.job.arrow_schema, rows.num_rows)
        return RowPlan(inserted=made if made.num_rows else None, counts={"inserted": made.num_rows})

    return run_change(target, named.table, plan, None)


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


def insert_overwrite(target: StatementTarget, statement: Statement) -> pa.Table:  # noqa: ARG001 - handlers' signature
    """Refused, because settings of Spark decide which rows it removes."""
    raise InvalidRequestError(
        f"{statement.place(statement.tokens[0])}: INSERT OVERWRITE is not supported: use MERGE INTO, or a "
        f"DELETE with a "
        "condition and then an INSERT INTO"
    )


HANDLERS: Final = {("INSERT", "INTO"): insert, ("INSERT", "OVERWRITE"): insert_overwrite}
"""Handlers by the first words of their statements."""
