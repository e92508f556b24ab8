"""The definition of a column after its name, in CREATE TABLE and ALTER TABLE ADD COLUMN.

::

    type [NOT NULL] [DEFAULT constant] [COMMENT '…']        -- after the type in any order
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyiceberg.types import IcebergType
from sqlglot import TokenType

from metastore.iceberg.column_defaults import VERSION_OF_DEFAULTS
from metastore.sql.column_types import column_type
from metastore.sql.default_values import Constant, constant
from metastore.sql.statement import Cursor


@dataclass(frozen=True)
class ColumnDefinition:
    """A parsed definition. ``default`` is the value in PyIceberg's form; None without a default.

    ``given`` is the constant of a default other than NULL.
    """

    kind: IcebergType
    required: bool
    comment: str | None
    default: Any
    given: Constant | None


def column_definition(cursor: Cursor) -> ColumnDefinition:
    """Read a definition. Raises InvalidRequestError for a default that is no constant of the type."""
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
    return ColumnDefinition(kind, required, comment, default, None if default is None else given)


def require_defaults(version: int, given: Constant) -> None:
    """Raises InvalidRequestError, at the constant, if tables of the format version have no default values."""
    if version < VERSION_OF_DEFAULTS:
        raise given.statement.error(
            f"default values need format version {VERSION_OF_DEFAULTS}, and the table has version {version}: before, "
            f"run CALL catalog.system.upgrade_format_version or ALTER TABLE … SET PROPERTIES format_version = "
            f"{VERSION_OF_DEFAULTS}; in CREATE TABLE, give format_version = {VERSION_OF_DEFAULTS}",
            given.token,
        )
