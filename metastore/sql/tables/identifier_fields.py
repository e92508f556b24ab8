"""SET and DROP IDENTIFIER FIELDS of ALTER TABLE: the columns whose values identify a row, as Spark writes it.

Iceberg does not enforce that they are unique. Streaming writers take them as the keys of their upserts.
"""

from __future__ import annotations

from pyiceberg.table import Transaction

from metastore.sql.statement import Cursor, Name
from metastore.sql.tables.action_lists import next_item
from metastore.sql.tables.partition_fields import Change, ColumnLookup


def set_identifier_fields(cursor: Cursor) -> tuple[Change, str]:
    """Read the columns after SET IDENTIFIER FIELDS; returns the change, and its description.

    A column must be required, hold single values, and be no floating-point number.
    """
    columns = _columns(cursor)

    def change(transaction: Transaction) -> None:
        _set(transaction, {_path(cursor, transaction, names) for names in columns})

    return change, f"rows are identified by {_join_columns(columns)}"


def drop_identifier_fields(cursor: Cursor) -> tuple[Change, str]:
    """Read the columns after DROP IDENTIFIER FIELDS; returns the change, and its description."""
    columns = _columns(cursor)

    def change(transaction: Transaction) -> None:
        kept = transaction.table_metadata.schema().identifier_field_names()
        for names in columns:
            path = _path(cursor, transaction, names)
            if path not in kept:
                known = ", ".join(sorted(kept)) or "none"
                raise cursor.statement.error(f"{path} is no identifier field; there are {known}", names[0].token)
            kept = kept - {path}
        _set(transaction, kept)

    return change, f"rows are not identified by {_join_columns(columns)} any more"


def _columns(cursor: Cursor) -> list[list[Name]]:
    found = [cursor.names("the name of a column")]
    while next_item(cursor):
        found.append(cursor.names("the name of a column"))
    return found


def _path(cursor: Cursor, transaction: Transaction, names: list[Name]) -> str:
    return ".".join(ColumnLookup(cursor.statement).path(transaction, names))


def _set(transaction: Transaction, paths: set[str]) -> None:
    if paths != transaction.table_metadata.schema().identifier_field_names():
        with transaction.update_schema() as update:
            update.set_identifier_fields(*sorted(paths))


def _join_columns(columns: list[list[Name]]) -> str:
    return ", ".join(".".join(name.text for name in names) for names in columns)
