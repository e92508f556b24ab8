"""SET PROPERTIES and UNSET PROPERTIES of ALTER TABLE: Iceberg's keys, and ``partitioning``, which is not a property.

The brackets around the list are optional, and PROPERTIES may be written TBLPROPERTIES, as in Trino and Spark.
"""

from __future__ import annotations

from typing import Final, cast

from pyiceberg.table import Transaction
from pyiceberg.typedef import TableVersion
from sqlglot import TokenType

from metastore.errors import InvalidRequestError
from metastore.iceberg.iceberg_private import upgrade
from metastore.iceberg.row_lineage import VERSION_OF_LINEAGE, with_lineage
from metastore.procedures.tables.set_property import require_settable
from metastore.sql.partition_fields import Change, PartitionChange, PartitionTerm, term_of_text
from metastore.sql.statement import Cursor

PARTITIONING: Final = "partitioning"
FORMAT_VERSIONS: Final = ("format-version", "format_version")
"""Iceberg's and Trino's spelling. It is not stored as a property: it raises the table's format version."""

_WRITTEN_VERSIONS: Final = ("1", "2", "3")


def set_properties(cursor: Cursor) -> tuple[Change, str]:
    """Read ``PROPERTIES key = value, …`` after SET; returns the change, and its description."""
    if not cursor.accept_word("PROPERTIES"):
        cursor.expect_word("TBLPROPERTIES")
    bracketed = cursor.accept(TokenType.L_PAREN)
    values: dict[str, str | None] = {}
    terms: list[PartitionTerm] | None = None
    version: int | None = None
    named: list[str] = []
    while True:
        token = cursor.token
        key = _settable(cursor, *FORMAT_VERSIONS)
        if key in named:
            raise cursor.statement.error(f"property {key!r} stands there twice", token)
        named.append(key)
        cursor.expect(TokenType.EQ, "=")
        if key == PARTITIONING:
            terms = partition_terms(cursor)
        elif key in FORMAT_VERSIONS:
            version = written_version(cursor)
        else:
            values[key] = property_value(cursor)
        if not cursor.accept(TokenType.COMMA):
            break
    if bracketed:
        cursor.expect(TokenType.R_PAREN, ")")
    partitioning = None if terms is None else PartitionChange(cursor.statement, exactly=tuple(terms))

    def change(transaction: Transaction) -> None:
        _apply_properties(transaction, values)
        if version is not None:
            _raise_format_version(transaction, version)
        if partitioning is not None:
            partitioning(transaction)

    return change, f"{', '.join(named)} {'is' if len(named) == 1 else 'are'} set"


def unset_properties(cursor: Cursor) -> tuple[Change, str]:
    """Read ``PROPERTIES key, …`` after UNSET; returns the change, and its description."""
    if not cursor.accept_word("PROPERTIES"):
        cursor.expect_word("TBLPROPERTIES")
    bracketed = cursor.accept(TokenType.L_PAREN)
    keys = [_settable(cursor)]
    while cursor.accept(TokenType.COMMA):
        keys.append(_settable(cursor))
    if bracketed:
        cursor.expect(TokenType.R_PAREN, ")")
    values: dict[str, str | None] = dict.fromkeys(keys)
    return lambda transaction: _apply_properties(transaction, values), f"{', '.join(keys)} back to the default"


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


def _apply_properties(transaction: Transaction, values: dict[str, str | None]) -> None:
    present = transaction.table_metadata.properties
    changed = {key: value for key, value in values.items() if value is not None and present.get(key) != value}
    removed = [key for key, value in values.items() if value is None and key in present]
    if changed:
        transaction.set_properties(changed)
    if removed:
        transaction.remove_properties(*removed)


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
    raise cursor.unexpected("a text, a number, TRUE, FALSE or DEFAULT")


def partition_terms(cursor: Cursor) -> list[PartitionTerm]:
    """Read ``ARRAY['day(ts)', …]``."""
    cursor.expect_word("ARRAY")
    cursor.expect(TokenType.L_BRACKET, "[")
    found: list[PartitionTerm] = []
    while not cursor.accept(TokenType.R_BRACKET):
        if found:
            cursor.expect(TokenType.COMMA, ", or ]")
        token = cursor.expect(TokenType.STRING, "a text such as 'day(ts)'")
        with cursor.statement.at(token):
            found.append(term_of_text(token))
    return found
