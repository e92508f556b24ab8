"""ALTER TABLE of a catalog's table: its columns, how it is partitioned, its properties. No data file is touched.

::

    ALTER TABLE catalog.schema.table
        ADD COLUMN [IF NOT EXISTS] column type [NOT NULL] [COMMENT '…'] [FIRST | AFTER column | BEFORE column]
        DROP COLUMN [IF EXISTS] column
        RENAME COLUMN column TO name
        ALTER COLUMN column {SET DATA TYPE type | SET NOT NULL | DROP NOT NULL | COMMENT '…' | FIRST | AFTER … | BEFORE …}
        ADD PARTITION FIELD transform [AS name]
        DROP PARTITION FIELD {name | transform}
        REPLACE PARTITION FIELD {name | transform} WITH transform [AS name]
        SET PROPERTIES key = value | DEFAULT, …        -- partitioning = ARRAY['day(ts)', …] among them
        UNSET PROPERTIES key, …

A field of a struct is named by its path, with dots. A transform is a column, or ``bucket(16, column)``,
``truncate(4, column)``, ``year``, ``month``, ``day``, ``hour`` of one. Each statement is one commit; it is planned again
if another writer was faster.
"""  # noqa: E501 - the statements are one picture

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa
from pyiceberg.exceptions import ResolveError, ValidationError
from pyiceberg.table import Table, Transaction
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import DecimalType
from sqlglot import Token, TokenType

from metastore.errors import InvalidRequestError
from metastore.iceberg.contention import until_won
from metastore.iceberg.iceberg_private import pending
from metastore.iceberg.target import TargetTable
from metastore.sql.column_types import column_type
from metastore.sql.partition_fields import Change, Columns, PartitionChange, partition_term
from metastore.sql.statement import Cursor, Name, Statement
from metastore.sql.table_properties import set_properties, unset_properties
from metastore.sql.target import StatementTarget

_ANSWER: Final[list[pa.Field[Any]]] = [pa.field("ok", pa.bool_()), pa.field("summary", pa.string())]


def alter_table(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one ALTER TABLE; returns one row that says what changed.

    Raises InvalidRequestError with the place in the text, NotFoundError, and ConflictError if other writers kept
    winning.
    """
    cursor = Cursor(statement, 2)
    start = cursor.token
    names = cursor.names("catalog.schema.table")
    if len(names) < 3:
        raise statement.error("a table of a catalog is named by three parts, catalog.schema.table", start)
    assert start is not None
    with statement.at(start):
        schema = ".".join(name.text for name in names[1:-1])
        table = target.catalogs.table(names[0].text, schema, names[-1].text)
        if table.is_component:
            raise InvalidRequestError(
                f"{table} is the metastore's own: its columns and partitions are those of its units, its properties "
                "those of the configuration (drill.metastore.iceberg.components), and every opening restores them"
            )
    action = _Action(statement, cursor.token)
    change, summary = _change(cursor, action)
    cursor.end()
    changed = _commit(table, change, action, target.settings.iceberg.commit.timeout)
    rows = [{"ok": changed, "summary": f"{table}: {summary if changed else 'nothing to change'}"}]
    return pa.Table.from_pylist(rows, pa.schema(_ANSWER))


HANDLERS: Final = {("ALTER", "TABLE"): alter_table}


@dataclass(frozen=True)
class _Action:
    """The change that one action makes, and the action's place in the text."""

    statement: Statement
    token: Token | None

    def error(self, message: str) -> InvalidRequestError:
        """Returns the error for an action that the table does not allow."""
        return self.statement.error(message, self.token)


def _commit(table: TargetTable, change: Change, action: _Action, timeout: timedelta) -> bool:
    """Commit the change; returns True if something changed."""

    def attempt(loaded: Table) -> bool:
        transaction = loaded.transaction()
        try:
            change(transaction)
        except InvalidRequestError:
            raise
        except (ValueError, ValidationError, ResolveError) as error:
            raise action.error(f"{table} does not allow that: {error}") from error
        requirements, updates = pending(transaction)
        if updates:
            table.commit(loaded, requirements, updates)
        return bool(updates)

    return until_won(table, timeout, attempt)


def _change(cursor: Cursor, action: _Action) -> tuple[Change, str]:
    match cursor.word:
        case "ADD":
            cursor.advance()
            return _add_field(cursor) if _partition_field(cursor) else _add_column(cursor, action)
        case "DROP":
            cursor.advance()
            return _drop_field(cursor) if _partition_field(cursor) else _drop_column(cursor)
        case "REPLACE":
            cursor.advance()
            cursor.expect_word("PARTITION")
            cursor.expect_word("FIELD")
            return _replace_field(cursor)
        case "RENAME":
            cursor.advance()
            return _rename_column(cursor)
        case "ALTER":
            cursor.advance()
            cursor.accept_word("COLUMN")
            return _alter_column(cursor)
        case "SET":
            cursor.advance()
            return set_properties(cursor)
        case "UNSET":
            cursor.advance()
            return unset_properties(cursor)
    raise cursor.unexpected("ADD, DROP, REPLACE, RENAME, ALTER COLUMN, SET PROPERTIES or UNSET PROPERTIES")


def _partition_field(cursor: Cursor) -> bool:
    if cursor.word != "PARTITION":
        return False
    cursor.advance()
    cursor.expect_word("FIELD")
    return True


# -- columns


def _add_column(cursor: Cursor, action: _Action) -> tuple[Change, str]:
    cursor.accept_word("COLUMN")
    if_not_exists = _accept_words(cursor, "IF", "NOT", "EXISTS")
    names = cursor.names("the name of a column")
    kind = column_type(cursor)
    required = _accept_words(cursor, "NOT", "NULL")
    comment = cursor.expect(TokenType.STRING, "a comment").text if cursor.accept_word("COMMENT") else None
    move = _place(cursor)
    columns = Columns(cursor.statement)

    def change(transaction: Transaction) -> None:
        if if_not_exists and columns.known(transaction, names):
            return
        if required and transaction.table_metadata.snapshots:
            raise action.error(f"{_shown(names)} cannot be NOT NULL: rows that are there already have no value for it")
        columns.require_new(transaction, names[:-1], names[-1])
        path = (*columns.path(transaction, names[:-1]), names[-1].text) if names[1:] else (names[0].text,)
        with transaction.update_schema(allow_incompatible_changes=required) as update:
            update.add_column(path, kind, comment, required=required)
            if move is not None:
                move(transaction, update, path)

    return change, f"column {_shown(names)} is added"


def _drop_column(cursor: Cursor) -> tuple[Change, str]:
    cursor.accept_word("COLUMN")
    if_exists = _accept_words(cursor, "IF", "EXISTS")
    names = cursor.names("the name of a column")
    columns = Columns(cursor.statement)

    def change(transaction: Transaction) -> None:
        if if_exists and not columns.known(transaction, names):
            return
        path = columns.path(transaction, names)
        columns.require_unused(transaction, names)
        with transaction.update_schema() as update:
            update.delete_column(path)

    return change, f"column {_shown(names)} is dropped"


def _rename_column(cursor: Cursor) -> tuple[Change, str]:
    cursor.accept_word("COLUMN")
    names = cursor.names("the name of a column")
    cursor.expect_word("TO")
    new = cursor.name("the new name")
    columns = Columns(cursor.statement)

    def change(transaction: Transaction) -> None:
        columns.require_new(transaction, names[:-1], new, columns.field(transaction, names).field_id)
        with transaction.update_schema() as update:
            update.rename_column(columns.path(transaction, names), new.text)

    return change, f"column {_shown(names)} is called {new.text} now"


def _alter_column(cursor: Cursor) -> tuple[Change, str]:
    names = cursor.names("the name of a column")
    columns = Columns(cursor.statement)
    token = cursor.token
    shown = _shown(names)
    move = _place(cursor)
    if move is not None:

        def moved(transaction: Transaction) -> None:
            with transaction.update_schema() as update:
                move(transaction, update, columns.path(transaction, names))

        return moved, f"column {shown} is moved"
    if cursor.accept_word("COMMENT"):
        text = cursor.expect(TokenType.STRING, "a comment").text

        def commented(transaction: Transaction) -> None:
            with transaction.update_schema() as update:
                update.update_column(columns.path(transaction, names), doc=text)

        return commented, f"column {shown} has a comment"
    if cursor.accept_word("DROP"):
        cursor.expect_word("NOT")
        cursor.expect_word("NULL")

        def optional(transaction: Transaction) -> None:
            with transaction.update_schema() as update:
                update.make_column_optional(columns.path(transaction, names))

        return optional, f"column {shown} may be NULL"
    if cursor.accept_word("SET") and _accept_words(cursor, "NOT", "NULL"):

        def required(transaction: Transaction) -> None:
            path = columns.path(transaction, names)
            if transaction.table_metadata.snapshots:
                raise cursor.statement.error(
                    f"{shown} cannot become NOT NULL: the table has rows, and nothing says that none of them is NULL",
                    token,
                )
            with transaction.update_schema(allow_incompatible_changes=True) as update:
                update.update_column(path, required=True)

        return required, f"column {shown} is NOT NULL"
    cursor.accept_word("DATA")
    cursor.expect_word("TYPE")
    return _set_type(cursor, names, token)


def _set_type(cursor: Cursor, names: list[Name], token: Token | None) -> tuple[Change, str]:
    kind = column_type(cursor)
    columns = Columns(cursor.statement)
    shown = _shown(names)

    def widened(transaction: Transaction) -> None:
        present = columns.field(transaction, names).field_type
        if isinstance(kind, DecimalType) and isinstance(present, DecimalType) and kind.scale != present.scale:
            # PyIceberg allows this change. But bounds are stored as digits without a point, so they would mean other
            # numbers.
            raise cursor.statement.error(
                f"{shown} keeps its {present.scale} digits behind the point: from {present} it can only become "
                f"wider, as decimal(38, {present.scale})",
                token,
            )
        with transaction.update_schema() as update:
            update.update_column(columns.path(transaction, names), kind)

    return widened, f"column {shown} is {kind} now"


_Move = Callable[[Transaction, UpdateSchema, tuple[str, ...]], object]


def _place(cursor: Cursor) -> _Move | None:
    """Returns the position FIRST, AFTER a column or BEFORE one; None if the text has none of these."""
    if cursor.accept_word("FIRST"):
        return lambda _, update, path: update.move_first(path)
    if cursor.word not in ("AFTER", "BEFORE"):
        return None
    after = cursor.accept_word("AFTER") or not cursor.accept_word("BEFORE")
    name = cursor.name("the name of a column")
    columns = Columns(cursor.statement)

    def move(transaction: Transaction, update: UpdateSchema, path: tuple[str, ...]) -> object:
        other = columns.sibling(transaction, path, name)
        return update.move_after(path, other) if after else update.move_before(path, other)

    return move


# -- partitions


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


def _accept_words(cursor: Cursor, first: str, *rest: str) -> bool:
    """Read these words if the first of them is next; the others must follow."""
    if not cursor.accept_word(first):
        return False
    for word in rest:
        cursor.expect_word(word)
    return True


def _shown(names: list[Name]) -> str:
    return ".".join(name.text for name in names)
