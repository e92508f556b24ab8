"""ALTER TABLE … RENAME TO: the catalog's entry gets another name. No file is touched.

::

    ALTER TABLE catalog.schema.table RENAME TO {table | schema.table | catalog.schema.table}

A table keeps its catalog. It is the only action that is no commit to the table, so it stands alone in its statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from sqlglot import TokenType

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.lake.iceberg.catalogs.catalog_errors import error_text, failures_of
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.sql.statement import Cursor, Name
from metastore.sql.target import StatementTarget

_REFUSED: Final = (NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError, NotImplementedError)


def is_rename(cursor: Cursor) -> bool:
    """Whether RENAME TO follows, and not RENAME of a column, which may be called ``to``."""
    return cursor.word == "RENAME" and cursor.word_ahead(1) == "TO" and cursor.word_ahead(2) != "TO"


def stands_alone(cursor: Cursor) -> InvalidRequestError:
    """Returns the error for RENAME TO beside other actions, at the next token."""
    message = "RENAME TO cannot be combined with other actions: use one statement for each"
    return cursor.statement.error(message, cursor.token)


def rename_table(target: StatementTarget, cursor: Cursor, table: TargetTable) -> str:
    """Read RENAME TO and rename ``table``; returns a description.

    Raises InvalidRequestError if the name is taken or the catalog does not rename, NotFoundError for a schema or table
    that does not exist, StorageError if the catalog fails.
    """
    for word in ("RENAME", "TO"):
        cursor.expect_word(word)
    names = cursor.names("the new name of the table")
    if cursor.ahead(TokenType.COMMA):
        raise stands_alone(cursor)
    cursor.end()
    with cursor.statement.at(names[0].token):
        new = _place(target, table, names)
        if new.identifier == table.identifier:
            raise InvalidRequestError(f"{table} has that name already")
        if new.schema_name not in target.catalogs.schemas(new.catalog_name):
            raise NotFoundError(f"schema {new.catalog_name}.{new.schema_name} does not exist")
        if new.newest_pointer() is not None:
            raise InvalidRequestError(f"table {new} exists already")
        new.require_new_name()
        _rename(table, new)
    return f"{table}: is renamed to {new}"


def _place(target: StatementTarget, table: TargetTable, names: Sequence[Name]) -> TargetTable:
    """Returns the place of the new name. Raises InvalidRequestError for one in another catalog."""
    parts = [name.text for name in names]
    known = {name.lower() for name in target.catalogs.names()}
    if len(parts) > 2 and parts[0].lower() in known:
        catalog = target.catalogs.canonical(parts.pop(0))
        if catalog != table.catalog_name:
            raise InvalidRequestError(f"{table} keeps its catalog: a table is not moved to the catalog {catalog}")
    schema = ".".join(parts[:-1]) or table.schema_name
    return target.catalogs.target(table.catalog_name, schema, parts[-1])


def _rename(table: TargetTable, new: TargetTable) -> None:
    source = table.source
    with failures_of(source, *_REFUSED, changing=True), source.turn:
        try:
            source.catalog.rename_table(table.identifier, new.identifier)
        except TableAlreadyExistsError as error:
            raise InvalidRequestError(f"table {new} exists already") from error
        except (NoSuchNamespaceError, NoSuchTableError) as error:
            raise NotFoundError(f"{table} cannot be renamed to {new}: {error_text(error)}") from error
        except NotImplementedError as error:
            raise InvalidRequestError(f"{source} does not rename tables") from error
