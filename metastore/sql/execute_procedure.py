"""``ALTER TABLE … EXECUTE``: Trino's call of a procedure on one table.

::

    [EXPLAIN] ALTER TABLE catalog.schema.table EXECUTE name [([[argument =>] constant, …])] [WHERE condition]

Names and arguments are those of CALL, and Trino's.
"""

from __future__ import annotations

import pyarrow as pa
import sqlglot
from sqlglot import TokenType
from sqlglot.errors import SqlglotError

from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.procedures.framework.binding import GivenArgument
from metastore.procedures.framework.foreign_calls import of_table
from metastore.sql.call import given_arguments
from metastore.sql.statement import Cursor
from metastore.sql.target import StatementTarget


def is_execute(cursor: Cursor) -> bool:
    """Whether the action of an ALTER TABLE is EXECUTE; it is read then."""
    return cursor.accept_word("EXECUTE")


def execute_procedure(target: StatementTarget, cursor: Cursor, catalog: str, table: TargetTable) -> pa.Table:
    """Run the rest of the statement on ``table``; returns the rows of the procedure, or its plan.

    Raises InvalidRequestError with the place in the text, NotFoundError, and the errors of the procedure.
    """
    statement = cursor.statement
    name = cursor.name("the name of a procedure")
    given: list[GivenArgument] = []
    if cursor.accept(TokenType.L_PAREN):
        given = given_arguments(cursor)
    where = _condition(cursor) if cursor.accept_word("WHERE") else None
    cursor.end()
    *schema, own = table.identifier
    with statement.at(name.token):
        found = target.procedures.find(f"{catalog}.system.{name.text}")
        arguments = of_table(found.procedure, ".".join(schema), own, given, where)
    if statement.explains:
        return target.procedures.explain_given(found, arguments, statement.place(name.token))
    return target.procedures.call_given(found, arguments, statement.place(name.token), statement.on_progress)


def _condition(cursor: Cursor) -> GivenArgument:
    """Returns the rest of the statement as the argument ``filter``, which is in Spark's words."""
    statement, first = cursor.statement, cursor.token
    if first is None:
        raise cursor.expectation_error("a condition")
    text = statement.text[first.start : statement.tokens[-1].end + 1]
    while cursor.token is not None:
        cursor.advance()
    try:
        condition = sqlglot.parse_one(text, dialect="trino").sql(dialect="spark")
    except SqlglotError as error:
        raise statement.error(f"{text!r} is not a condition", first) from error
    return GivenArgument(condition, "filter", place=statement.place(first))
