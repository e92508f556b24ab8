"""The definition of a column after its name, in CREATE TABLE and ALTER TABLE ADD COLUMN.

::

    type [NOT NULL] [DEFAULT constant] [COMMENT '…']        -- after the type in any order
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyiceberg.types import IcebergType, ListType, MapType, StructType
from sqlglot import Token, TokenType

from metastore.lake.iceberg.columns.column_defaults import VERSION_OF_DEFAULTS
from metastore.sql.queries.column_types import column_type
from metastore.sql.rows.default_values import Constant, constant
from metastore.sql.statement import Cursor, Statement


@dataclass(frozen=True)
class ColumnDefinition:
    """A parsed definition. ``default`` is the value in PyIceberg's form; None without a default.

    ``given`` is the constant of a default other than NULL; ``token`` is where the type begins in ``statement``.
    """

    kind: IcebergType
    required: bool
    comment: str | None
    default: Any
    given: Constant | None
    statement: Statement
    token: Token | None


def column_definition(cursor: Cursor) -> ColumnDefinition:
    """Read a definition. Raises InvalidRequestError for a default that is no constant of the type."""
    token = cursor.token
    kind = column_type(cursor)
    required, comment, given = False, None, None
    seen: set[str] = set()
    while (word := cursor.word) in ("NOT", "DEFAULT", "COMMENT"):
        if word in seen:
            raise cursor.statement.error(f"{word} is given twice", cursor.token)
        seen.add(word)
        cursor.advance()
        if word == "NOT":
            cursor.expect_word("NULL")
            required = True
        elif word == "DEFAULT":
            given = constant(cursor)
        else:
            comment = cursor.expect(TokenType.STRING, "a comment").text
    default = None if given is None else given.value(kind)
    given = None if default is None else given
    return ColumnDefinition(kind, required, comment, default, given, cursor.statement, token)


def require_type(version: int, column: ColumnDefinition) -> None:
    """Raises InvalidRequestError, at the type, if tables of the format version do not have it."""
    first = _first_version(column.kind)
    if version < first:
        raise column.statement.error(f"{column.kind} needs {_how_to_upgrade(first, version)}", column.token)


def _first_version(kind: IcebergType) -> int:
    """Returns the first format version with a type, and with all types in it."""
    return max([kind.minimum_format_version(), *map(_first_version, _inner(kind))])


def _inner(kind: IcebergType) -> list[IcebergType]:
    match kind:
        case StructType():
            return [each.field_type for each in kind.fields]
        case ListType():
            return [kind.element_type]
        case MapType():
            return [kind.key_type, kind.value_type]
    return []


def _how_to_upgrade(first: int, version: int) -> str:
    return (
        f"format version {first}, and the table has version {version}: before, run CALL "
        f"catalog.system.upgrade_format_version or ALTER TABLE … SET PROPERTIES format_version = {first}; in CREATE "
        f"TABLE, give format_version = {first}"
    )


def require_defaults(version: int, default: Constant) -> None:
    """Raises InvalidRequestError, at the constant, if tables of the format version have no default values."""
    if version < VERSION_OF_DEFAULTS:
        raise default.statement.error(
            f"default values need {_how_to_upgrade(VERSION_OF_DEFAULTS, version)}", default.token
        )
