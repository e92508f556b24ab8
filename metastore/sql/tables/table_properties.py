"""SET PROPERTIES and UNSET PROPERTIES of ALTER TABLE: Iceberg's keys, and three of Trino's that are no properties.

These are ``partitioning``, ``sorted_by`` and ``format_version``.

The brackets around the list are optional, and PROPERTIES may be written TBLPROPERTIES, as in Trino and Spark.
"""

from __future__ import annotations

from typing import Final, cast

from pyiceberg.table import Transaction
from pyiceberg.typedef import TableVersion
from sqlglot import TokenType

from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.catalogs.iceberg_private import upgrade
from metastore.lake.iceberg.rows.row_lineage import VERSION_OF_LINEAGE, with_lineage
from metastore.lake.iceberg.rows.row_mode_values import require_row_mode_value
from metastore.procedures.tables.set_property import require_settable
from metastore.sql.statement import Cursor
from metastore.sql.tables.action_lists import next_item
from metastore.sql.tables.partition_fields import Change, PartitionChange, PartitionTerm, term_of_text
from metastore.sql.tables.property_changes import apply_properties
from metastore.sql.tables.sort_order import sorted_by

PARTITIONING: Final = "partitioning"
FORMAT_VERSIONS: Final = ("format-version", "format_version")
"""Iceberg's and Trino's spelling. It is not stored as a property: it raises the table's format version."""

SORTED_BY: Final = "sorted_by"
"""Trino's name of the sort order. It is not stored as a property."""

_WRITTEN_VERSIONS: Final = ("1", "2", "3")


def set_properties(cursor: Cursor) -> tuple[Change, str]:
    """Read ``PROPERTIES key = value, …`` after SET; returns the change, and its description."""
    if not cursor.accept_word("PROPERTIES"):
        cursor.expect_word("TBLPROPERTIES")
    bracketed = cursor.accept(TokenType.L_PAREN)
    values: dict[str, str | None] = {}
    others: list[Change] = []
    named: list[str] = []
    while True:
        token = cursor.token
        key = _settable(cursor, *FORMAT_VERSIONS, SORTED_BY)
        if key in named:
            raise cursor.statement.error(f"property {key!r} is given twice", token)
        named.append(key)
        cursor.expect(TokenType.EQ, "=")
        other = _no_property(cursor, key)
        if other is None:
            values[key] = checked_value(cursor, key)
        else:
            others.append(other)
        if not next_item(cursor):
            break
    if bracketed:
        cursor.expect(TokenType.R_PAREN, ")")

    def change(transaction: Transaction) -> None:
        apply_properties(transaction, values)
        for each in others:
            each(transaction)

    return change, f"{', '.join(named)} {'is' if len(named) == 1 else 'are'} set"


def _no_property(cursor: Cursor, key: str) -> Change | None:
    """Read the value of a key that is set like a property and is none; returns the change. None for a property."""
    if key == PARTITIONING:
        return PartitionChange(cursor.statement, exactly=tuple(partition_terms(cursor)))
    if key == SORTED_BY:
        return sorted_by(cursor)
    if key in FORMAT_VERSIONS:
        version = written_version(cursor)
        return lambda transaction: _raise_format_version(transaction, version)
    return None


def unset_properties(cursor: Cursor) -> tuple[Change, str]:
    """Read ``PROPERTIES key, …`` after UNSET; returns the change, and its description."""
    if not cursor.accept_word("PROPERTIES"):
        cursor.expect_word("TBLPROPERTIES")
    bracketed = cursor.accept(TokenType.L_PAREN)
    keys = [_settable(cursor)]
    while next_item(cursor):
        keys.append(_settable(cursor))
    if bracketed:
        cursor.expect(TokenType.R_PAREN, ")")
    values: dict[str, str | None] = dict.fromkeys(keys)
    return lambda transaction: apply_properties(transaction, values), f"{', '.join(keys)} back to the default"


def written_version(cursor: Cursor) -> int:
    """Read a format version that this package writes. Raises InvalidRequestError for any other."""
    token = cursor.token
    text = property_value(cursor)
    if text not in _WRITTEN_VERSIONS:
        versions = ", ".join(_WRITTEN_VERSIONS)
        raise cursor.statement.error(f"format version {text or 'DEFAULT'}: this package writes {versions}", token)
    return int(text)


def _raise_format_version(transaction: Transaction, version: int) -> None:
    present = transaction.table_metadata.format_version
    if version < present:
        raise InvalidRequestError(f"the table has format version {present}, which cannot be lowered to {version}")
    if version > present:
        if version == VERSION_OF_LINEAGE:
            with_lineage(transaction.table_metadata.schema())
        upgrade(transaction, cast("TableVersion", version))


def _settable(cursor: Cursor, *also: str) -> str:
    """Read a key that may be set and unset, or one of ``also``."""
    token = cursor.token
    key = property_key(cursor)
    if key in also:
        return key
    try:
        require_settable(key)
    except InvalidRequestError as error:
        raise cursor.statement.error(str(error), token) from error
    return key


def property_key(cursor: Cursor) -> str:
    """Read a property's key: a text, a name in quotes, or words with dots and dashes."""
    if cursor.ahead(TokenType.STRING):
        return cursor.advance().text
    parts = [cursor.name("the key of a property").text]
    while cursor.ahead(TokenType.DOT) or cursor.ahead(TokenType.DASH):
        sign = cursor.statement.source(cursor.advance())
        parts += [sign, cursor.name("the key of a property").text]
    return "".join(parts)


def property_value(cursor: Cursor) -> str | None:
    """Read a value; returns it as the text that Iceberg stores, or None for DEFAULT."""
    if cursor.ahead(TokenType.STRING):
        return cursor.advance().text
    if cursor.accept_word("DEFAULT"):
        return None
    if cursor.word in ("TRUE", "FALSE"):
        return cursor.statement.source(cursor.advance()).lower()
    sign = "-" if cursor.accept(TokenType.DASH) else ""
    if cursor.ahead(TokenType.NUMBER):
        return sign + cursor.advance().text
    raise cursor.expectation_error("a text, a number, TRUE, FALSE or DEFAULT")


def checked_value(cursor: Cursor, key: str) -> str | None:
    """Read the value of ``key`` as :func:`property_value` does; a value that the key cannot have is an error."""
    token = cursor.token
    value = property_value(cursor)
    if value is not None and token is not None:
        with cursor.statement.at(token):
            require_row_mode_value(key, value)
    return value


def partition_terms(cursor: Cursor) -> list[PartitionTerm]:
    """Read ``ARRAY['day(ts)', …]``, or DEFAULT, which is none."""
    if cursor.accept_word("DEFAULT"):
        return []
    cursor.expect_word("ARRAY")
    cursor.expect(TokenType.L_BRACKET, "[")

    def term() -> PartitionTerm:
        token = cursor.expect(TokenType.STRING, "a text such as 'day(ts)'")
        with cursor.statement.at(token):
            return term_of_text(token)

    return cursor.list_before(TokenType.R_BRACKET, "]", term)
