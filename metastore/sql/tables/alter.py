"""ALTER TABLE of a catalog's table: columns, partitioning, order, properties, its name; or a procedure on the table.

::

    ALTER TABLE [IF EXISTS] catalog.schema.table action, …
    COMMENT ON {TABLE catalog.schema.table | COLUMN catalog.schema.table.column} IS {'…' | NULL}
    ALTER TABLE catalog.schema.table RENAME TO name
    [EXPLAIN] ALTER TABLE catalog.schema.table EXECUTE procedure [(arguments)] [WHERE condition]
    [EXPLAIN] ALTER TABLE catalog.schema.table {CREATE | REPLACE | DROP} {BRANCH | TAG} …   -- metastore.sql.ref_actions

        ADD COLUMN [IF NOT EXISTS] column type [NOT NULL] [DEFAULT constant] [COMMENT '…'] [FIRST | AFTER … | BEFORE …]
        ADD COLUMNS [IF NOT EXISTS] (column type …, …)
        DROP COLUMN [IF EXISTS] column
        DROP COLUMNS [IF EXISTS] {(column, …) | column, …}
        RENAME COLUMN column TO name
        ALTER COLUMN column {SET DATA TYPE type | SET NOT NULL | DROP NOT NULL | COMMENT '…' | FIRST | AFTER … | BEFORE …}
        ALTER COLUMN column {SET DEFAULT constant | DROP DEFAULT}
        CHANGE COLUMN column name type [COMMENT '…'] [FIRST | AFTER … | BEFORE …]
        ADD PARTITION FIELD transform [AS name]
        DROP PARTITION FIELD {name | transform}
        REPLACE PARTITION FIELD {name | transform} WITH transform [AS name]
        SET PROPERTIES key = value | DEFAULT, …        -- partitioning = ARRAY['day(ts)', …] among them
        UNSET PROPERTIES key, …
        SET IDENTIFIER FIELDS column, …
        DROP IDENTIFIER FIELDS column, …
        WRITE [DISTRIBUTED BY PARTITION] [LOCALLY] ORDERED BY term [ASC | DESC] [NULLS {FIRST | LAST}], …
        WRITE UNORDERED

A field of a struct is named by its path, with dots. A transform is a column, or ``bucket(16, column)``,
``truncate(4, column)``, ``year``, ``month``, ``day``, ``hour`` of one. Each statement is one commit, and its actions
take effect one after another; it is planned again if another writer was faster. Only a procedure touches data files.
"""  # noqa: E501 - the statements are one picture

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa
import pydantic
from pyiceberg.exceptions import ResolveError, ValidationError
from pyiceberg.table import Table, Transaction
from sqlglot import Token, TokenType

from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.catalogs.iceberg_private import pending
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.snapshots.contention import until_won
from metastore.procedures.files.guards import require_unpublished
from metastore.sql.execute_procedure import execute_procedure, is_execute
from metastore.sql.queries.named_table import place_of, table_name
from metastore.sql.statement import Cursor, Name, Statement
from metastore.sql.tables.alter_columns import (
    add_columns,
    alter_column,
    change_column,
    comment_of,
    drop_columns,
    rename_column,
)
from metastore.sql.tables.identifier_fields import drop_identifier_fields, set_identifier_fields
from metastore.sql.tables.partition_fields import Change, PartitionChange, partition_term
from metastore.sql.tables.ref_actions import change_ref, is_ref_action
from metastore.sql.tables.rename_table import is_rename, rename_table, stands_alone
from metastore.sql.tables.sort_order import write_order
from metastore.sql.tables.table_properties import set_properties, unset_properties
from metastore.sql.target import StatementTarget

_ANSWER: Final[list[pa.Field[Any]]] = [pa.field("ok", pa.bool_()), pa.field("summary", pa.string())]


def alter_table(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one ALTER TABLE; returns one row that says what changed.

    Raises InvalidRequestError with the place in the text, NotFoundError, and ConflictError if other writers kept
    winning.
    """
    cursor = Cursor(statement, 2)
    if_exists = cursor.accept_words("IF", "EXISTS")
    start = cursor.token
    names = table_name(target, cursor)
    assert start is not None
    if if_exists and (place := place_of(target, cursor, names)).newest_pointer() is None:
        return _answer(False, f"{place}: does not exist")
    table = _table(target, statement, names)
    if is_execute(cursor):
        return execute_procedure(target, cursor, names[0].text, table)
    if is_ref_action(cursor):
        return change_ref(target, cursor, names[0].text, table)
    if statement.explains:
        raise statement.error("EXPLAIN ALTER TABLE is for EXECUTE: other actions change metadata only", cursor.token)
    if is_rename(cursor):
        return _answer(True, rename_table(target, cursor, table))
    actions = [_Action.read(cursor)]
    while cursor.accept(TokenType.COMMA):
        if is_rename(cursor):
            raise stands_alone(cursor)
        actions.append(_Action.read(cursor))
    cursor.end()
    changed = _commit(table, actions, target.settings.iceberg.commit.timeout)
    summary = cursor.with_notes("; ".join(action.summary for action in actions))
    return _answer(changed, f"{table}: {summary if changed else 'nothing to change'}")


def comment(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one COMMENT ON; NULL takes the comment away. Returns and raises as :func:`alter_table`."""
    cursor = Cursor(statement, 2)
    token = cursor.token
    of_column = not cursor.accept_word("TABLE")
    if of_column:
        cursor.expect_word("COLUMN")
    names = table_name(target, cursor, column=of_column)
    column = [names.pop()] if of_column else []
    cursor.expect_word("IS")
    text = None if cursor.accept_word("NULL") else cursor.expect(TokenType.STRING, "a comment in quotes, or NULL").text
    cursor.end()
    table = _table(target, statement, names)
    change, summary = comment_of(cursor, column, text)
    changed = _commit(table, [_Action(statement, token, change, summary)], target.settings.iceberg.commit.timeout)
    return _answer(changed, f"{table}: {summary if changed else 'nothing to change'}")


def _table(target: StatementTarget, statement: Statement, names: Sequence[Name]) -> TargetTable:
    """Returns the table to change. Raises InvalidRequestError for a component, NotFoundError."""
    with statement.at(names[0].token):
        schema = ".".join(name.text for name in names[1:-1])
        table = target.catalogs.table(names[0].text, schema, names[-1].text)
        if table.is_component:
            raise InvalidRequestError(
                f"{table} is the metastore's own: its columns and partitions are those of its units, its properties "
                "those of the configuration (drill.metastore.iceberg.components), and every opening restores them"
            )
    return table


def _answer(changed: bool, summary: str) -> pa.Table:
    return pa.Table.from_pylist([{"ok": changed, "summary": summary}], pa.schema(_ANSWER))


HANDLERS: Final = {
    ("ALTER", "TABLE"): alter_table,
    ("COMMENT", "ON"): comment,
    ("EXPLAIN", "ALTER", "TABLE"): lambda target, statement: alter_table(target, statement.without_explain()),
}
"""Handlers by the first words of their statements."""


@dataclass(frozen=True)
class _Action:
    """One action: its place in the text, the change that it makes, and the description of the change."""

    statement: Statement
    token: Token | None
    change: Change
    summary: str

    @classmethod
    def read(cls, cursor: Cursor) -> _Action:
        """Read an action."""
        token = cursor.token
        change, summary = _change(cursor, token)
        return cls(cursor.statement, token, change, summary)

    def add_to(self, table: TargetTable, transaction: Transaction) -> None:
        """Add the change to ``transaction``. Raises InvalidRequestError if the table does not allow it."""
        try:
            self.change(transaction)
        except InvalidRequestError:
            raise
        except (ValueError, ValidationError, ResolveError) as error:
            raise self.statement.error(f"{table} does not allow that: {_reason(error)}", self.token) from error


def _reason(error: Exception) -> str:
    """Returns the first message of a model that refuses its values, which has many lines; of others the whole text."""
    first = error.errors()[0]["msg"] if isinstance(error, pydantic.ValidationError) else str(error)
    return first.removeprefix("Value error, ")


def _commit(table: TargetTable, actions: Sequence[_Action], timeout: timedelta) -> bool:
    """Commit the changes of all actions as one; returns True if something changed."""

    def attempt(loaded: Table) -> bool:
        require_unpublished(loaded, table)
        transaction = loaded.transaction()
        for action in actions:
            action.add_to(table, transaction)
        requirements, updates = pending(transaction)
        if updates:
            table.commit(loaded, requirements, updates)
        return bool(updates)

    return until_won(table, timeout, attempt)


def _change(cursor: Cursor, token: Token | None) -> tuple[Change, str]:
    """One action of ALTER TABLE: the change of a transaction, and what it does in words."""
    match cursor.word:
        case "ADD":
            cursor.advance()
            return _add_field(cursor) if _partition_field(cursor) else add_columns(cursor, token)
        case "DROP":
            cursor.advance()
            if _identifier_fields(cursor):
                return drop_identifier_fields(cursor)
            return _drop_field(cursor) if _partition_field(cursor) else drop_columns(cursor)
        case "REPLACE":
            cursor.advance()
            cursor.expect_word("PARTITION")
            cursor.expect_word("FIELD")
            return _replace_field(cursor)
        case "RENAME":
            cursor.advance()
            return rename_column(cursor)
        case "ALTER":
            cursor.advance()
            cursor.accept_word("COLUMN")
            return alter_column(cursor)
        case "CHANGE":
            cursor.advance()
            return change_column(cursor)
        case "SET":
            cursor.advance()
            return set_identifier_fields(cursor) if _identifier_fields(cursor) else set_properties(cursor)
        case "UNSET":
            cursor.advance()
            return unset_properties(cursor)
        case "WRITE":
            cursor.advance()
            return write_order(cursor)
    raise cursor.expectation_error(
        "WRITE, ADD, DROP, REPLACE, RENAME, ALTER COLUMN, CHANGE, SET PROPERTIES or UNSET PROPERTIES"
    )


def _partition_field(cursor: Cursor) -> bool:
    if cursor.word != "PARTITION":
        return False
    cursor.advance()
    cursor.expect_word("FIELD")
    return True


def _identifier_fields(cursor: Cursor) -> bool:
    found = cursor.word == "IDENTIFIER" and cursor.word_ahead(1) == "FIELDS"
    if found:
        cursor.advance()
        cursor.advance()
    return found


def _add_field(cursor: Cursor) -> tuple[Change, str]:
    term = partition_term(cursor)
    name = _alias(cursor)
    return PartitionChange(cursor.statement, add=((term, name),)), f"new rows are partitioned by {term} too"


def _drop_field(cursor: Cursor) -> tuple[Change, str]:
    term = partition_term(cursor)
    return PartitionChange(cursor.statement, drop=(term,)), f"new rows are no longer partitioned by {term}"


def _replace_field(cursor: Cursor) -> tuple[Change, str]:
    old = partition_term(cursor)
    cursor.expect_word("WITH")
    new = partition_term(cursor)
    name = _alias(cursor)
    change = PartitionChange(cursor.statement, drop=(old,), add=((new, name),))
    return change, f"new rows are partitioned by {new} and not by {old}"


def _alias(cursor: Cursor) -> str | None:
    return cursor.name("the name of a partition field").text if cursor.accept_word("AS") else None
