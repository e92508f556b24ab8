"""Actions of ALTER TABLE on columns: ADD, DROP, RENAME and ALTER COLUMN. Each is read as a change."""

from __future__ import annotations

from collections.abc import Callable

from pyiceberg.table import Transaction
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import DecimalType, StructType
from sqlglot import Token, TokenType

from metastore.lake.iceberg.columns.column_defaults import add_with_default, set_write_default
from metastore.sql.queries.column_types import column_type
from metastore.sql.rows.default_values import Constant, constant
from metastore.sql.statement import Cursor, Name
from metastore.sql.tables.action_lists import next_item
from metastore.sql.tables.column_definition import column_definition, require_defaults, require_type
from metastore.sql.tables.partition_fields import Change, ColumnLookup
from metastore.sql.tables.property_changes import apply_properties


def add_columns(cursor: Cursor, token: Token | None) -> tuple[Change, str]:
    """Read the columns after ADD, which is at ``token``; returns the change, and its description."""
    if not cursor.accept_word("COLUMN"):
        cursor.accept_word("COLUMNS")
    if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
    return _each(cursor, lambda: _add_column(cursor, token, if_not_exists=if_not_exists))


def _each(cursor: Cursor, read: Callable[[], tuple[Change, str]], *, several: bool = False) -> tuple[Change, str]:
    """Read one change, or several in brackets; with ``several`` also without. Returns all of them as one."""
    bracketed = cursor.accept(TokenType.L_PAREN)
    found = [read()]
    while cursor.accept(TokenType.COMMA) if bracketed else several and next_item(cursor):
        found.append(read())
    if bracketed:
        cursor.expect(TokenType.R_PAREN, ", or )")

    def change(transaction: Transaction) -> None:
        for each, _ in found:
            each(transaction)

    return change, "; ".join(summary for _, summary in found)


def _add_column(cursor: Cursor, token: Token | None, *, if_not_exists: bool) -> tuple[Change, str]:
    """ADD COLUMN: the change, and what it does in words. An existing column is an error unless ``if_not_exists``."""
    names = cursor.names("the name of a column")
    column = column_definition(cursor)
    move = _place(cursor)
    columns = ColumnLookup(cursor.statement)

    def change(transaction: Transaction) -> None:
        """Add the column; refuses a type that the version lacks, and NOT NULL for existing rows without a default."""
        if if_not_exists and columns.exists(transaction, names):
            return
        require_type(transaction.table_metadata.format_version, column)
        if column.given is not None:
            require_defaults(transaction.table_metadata.format_version, column.given)
        elif column.required and transaction.table_metadata.snapshots:
            raise cursor.statement.error(
                f"{_join_names(names)} cannot be NOT NULL: existing rows have no value for it; give it a DEFAULT", token
            )
        columns.require_new(transaction, names[:-1], names[-1])
        path = (*columns.path(transaction, names[:-1]), names[-1].text) if names[1:] else (names[0].text,)
        with transaction.update_schema(allow_incompatible_changes=column.required) as update:
            add_with_default(
                update, path, column.kind, column.comment, required=column.required, default=column.default
            )
            if move is not None:
                move(transaction, update, path)

    return change, f"column {_join_names(names)} is added"


def drop_columns(cursor: Cursor) -> tuple[Change, str]:
    """Read the columns after DROP; returns the change, and its description."""
    several = not cursor.accept_word("COLUMN") and cursor.accept_word("COLUMNS")
    if_exists = cursor.accept_words("IF", "EXISTS")
    return _each(cursor, lambda: _drop_column(cursor, if_exists=if_exists), several=several)


def _drop_column(cursor: Cursor, *, if_exists: bool) -> tuple[Change, str]:
    names = cursor.names("the name of a column")
    columns = ColumnLookup(cursor.statement)

    def change(transaction: Transaction) -> None:
        if if_exists and not columns.exists(transaction, names):
            return
        path = columns.path(transaction, names)
        columns.require_unused(transaction, names)
        with transaction.update_schema() as update:
            update.delete_column(path)

    return change, f"column {_join_names(names)} is dropped"


def rename_column(cursor: Cursor) -> tuple[Change, str]:
    """Read both names after RENAME; returns the change, and its description."""
    cursor.accept_word("COLUMN")
    names = cursor.names("the name of a column")
    cursor.expect_word("TO")
    return _rename_column(cursor, names, cursor.name("the new name"))


def _rename_column(cursor: Cursor, names: list[Name], new: Name) -> tuple[Change, str]:
    columns = ColumnLookup(cursor.statement)

    def change(transaction: Transaction) -> None:
        columns.require_new(transaction, names[:-1], new, columns.field(transaction, names).field_id)
        with transaction.update_schema() as update:
            update.rename_column(columns.path(transaction, names), new.text)

    return change, f"column {_join_names(names)} is renamed to {new.text}"


def alter_column(cursor: Cursor) -> tuple[Change, str]:
    """Read the column and its change after ALTER COLUMN; returns the change, and its description."""
    names = cursor.names("the name of a column")
    columns = ColumnLookup(cursor.statement)
    token = cursor.token
    shown = _join_names(names)
    move = _place(cursor)
    if move is not None:
        return _move_column(cursor, names, move), f"column {shown} is moved"
    if cursor.accept_word("COMMENT"):
        return comment_of(cursor, names, cursor.expect(TokenType.STRING, "a comment").text)
    if cursor.accept_word("DROP"):
        if cursor.accept_word("DEFAULT"):
            return _default(cursor, names, None), f"column {shown} has no default value for new rows"
        cursor.expect_word("NOT")
        cursor.expect_word("NULL")

        def optional(transaction: Transaction) -> None:
            with transaction.update_schema() as update:
                update.make_column_optional(columns.path(transaction, names))

        return optional, f"column {shown} may be NULL"
    sets = cursor.accept_word("SET")
    if sets and cursor.accept_word("DEFAULT"):
        given = constant(cursor)
        return _default(cursor, names, given), f"column {shown} is {given.shown} in new rows without a value"
    if sets and cursor.accept_words("NOT", "NULL"):

        def set_not_null(transaction: Transaction) -> None:
            path = columns.path(transaction, names)
            if transaction.table_metadata.snapshots:
                raise cursor.statement.error(
                    f"{shown} cannot become NOT NULL: the table has rows, and its metadata does not show that "
                    f"none of them is NULL",
                    token,
                )
            with transaction.update_schema(allow_incompatible_changes=True) as update:
                update.update_column(path, required=True)

        return set_not_null, f"column {shown} is NOT NULL"
    cursor.accept_word("DATA")
    cursor.expect_word("TYPE")
    return _set_type(cursor, names, token)


def comment_of(cursor: Cursor, names: list[Name], text: str | None) -> tuple[Change, str]:
    """Returns the change of a column's comment, of the table's own without ``names``; without ``text`` it has none."""
    if not names:
        summary = "has a comment" if text else "has no comment"
        return lambda transaction: apply_properties(transaction, {"comment": text or None}), summary
    columns = ColumnLookup(cursor.statement)

    def set_comment(transaction: Transaction) -> None:
        with transaction.update_schema() as update:
            update.update_column(columns.path(transaction, names), doc=text or "")

    return set_comment, f"column {_join_names(names)} has {'a' if text else 'no'} comment"


def change_column(cursor: Cursor) -> tuple[Change, str]:
    """Read ``column name type [COMMENT '…'] [FIRST | AFTER … | BEFORE …]`` after CHANGE, as Hive and Spark write it."""
    cursor.accept_word("COLUMN")
    names, token = cursor.names("the name of a column"), cursor.token
    new = cursor.name("the new name")
    changes = [_set_type(cursor, names, token)]
    if cursor.accept_word("COMMENT"):
        changes.append(comment_of(cursor, names, cursor.expect(TokenType.STRING, "a comment").text))
    move = _place(cursor)
    if move is not None:
        changes.append((_move_column(cursor, names, move), f"column {_join_names(names)} is moved"))
    if new.text != names[-1].text:
        changes.append(_rename_column(cursor, names, new))

    def change(transaction: Transaction) -> None:
        for each, _ in changes:
            each(transaction)

    return change, "; ".join(summary for _, summary in changes)


def _default(cursor: Cursor, names: list[Name], constant: Constant | None) -> Change:
    """Returns the change of the write default; without ``constant`` the column has none."""
    columns = ColumnLookup(cursor.statement)

    def change(transaction: Transaction) -> None:
        if names[1:] and not isinstance(columns.field(transaction, names[:-1]).field_type, StructType):
            raise cursor.statement.error(
                f"{_join_names(names)} is a part of a list or map: only columns and fields of structs have default "
                "values",
                names[0].token,
            )
        field = columns.field(transaction, names)
        default = None if constant is None else constant.value(field.field_type)
        if constant is not None and default is not None:
            require_defaults(transaction.table_metadata.format_version, constant)
        with transaction.update_schema() as update:
            set_write_default(update, field, default)

    return change


def _set_type(cursor: Cursor, names: list[Name], token: Token | None) -> tuple[Change, str]:
    """A wider type for a column; the scale of decimals stays, because bounds are stored without it."""
    kind = column_type(cursor)
    columns = ColumnLookup(cursor.statement)
    shown = _join_names(names)

    def widen_type(transaction: Transaction) -> None:
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

    return widen_type, f"column {shown} is {kind} now"


_Move = Callable[[Transaction, UpdateSchema, tuple[str, ...]], object]


def _move_column(cursor: Cursor, names: list[Name], move: _Move) -> Change:
    def change(transaction: Transaction) -> None:
        with transaction.update_schema() as update:
            move(transaction, update, ColumnLookup(cursor.statement).path(transaction, names))

    return change


def _place(cursor: Cursor) -> _Move | None:
    """Returns the position FIRST, AFTER a column or BEFORE one; None if the text has none of these."""
    if cursor.accept_word("FIRST"):
        return lambda _, update, path: update.move_first(path)
    if cursor.word not in ("AFTER", "BEFORE"):
        return None
    after = cursor.accept_word("AFTER") or not cursor.accept_word("BEFORE")
    name = cursor.name("the name of a column")
    columns = ColumnLookup(cursor.statement)

    def move(transaction: Transaction, update: UpdateSchema, path: tuple[str, ...]) -> object:
        other = columns.sibling(transaction, path, name)
        return update.move_after(path, other) if after else update.move_before(path, other)

    return move


def _join_names(names: list[Name]) -> str:
    return ".".join(name.text for name in names)
