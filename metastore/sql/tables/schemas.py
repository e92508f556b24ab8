"""Schemas of catalogs: CREATE, DROP, DESCRIBE, SHOW CREATE.

::

    CREATE {SCHEMA | DATABASE | NAMESPACE} [IF NOT EXISTS] catalog.schema [WITH (key = value, …)]
    DROP {SCHEMA | DATABASE | NAMESPACE} [IF EXISTS] catalog.schema [CASCADE | RESTRICT]
    DESCRIBE {SCHEMA | DATABASE | NAMESPACE} catalog.schema
    SHOW CREATE {SCHEMA | DATABASE | NAMESPACE} catalog.schema

DROP SCHEMA deletes no file. CASCADE drops each table as DROP TABLE does, one after another, and then the schema; a
schema with views or other schemas in it stays. ALTER SCHEMA is refused, with the way.

In a catalog of type filesystem only an empty folder is removed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
)
from sqlglot import TokenType

from metastore.config.catalogs import OWN_CATALOG
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.ground.quoting import text_constant
from metastore.lake.iceberg.catalogs.catalog_errors import failures_of
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.redaction import redact_value
from metastore.sql.statement import Cursor, Name, Statement
from metastore.sql.tables.table_properties import property_key, property_value
from metastore.sql.target import StatementTarget

_DONE: Final[list[pa.Field[Any]]] = [pa.field("ok", pa.bool_()), pa.field("summary", pa.string())]


def create_schema(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one CREATE SCHEMA; a SQLite database that does not exist is created."""
    cursor = Cursor(statement, 2)
    if_not_exists = cursor.accept_words("IF", "NOT", "EXISTS")
    names = _names(cursor)
    token = cursor.token
    properties = _properties(cursor)
    cursor.end()
    with statement.at(names[0].token):
        catalog = target.catalogs.open(names[0].text)
        place = _place(target, names)
        place.require_new_name()
    if properties and place.source.settings.type == "filesystem":
        raise statement.error(f"{place.source} has folders for schemas, and no properties of them", token)
    passing = (NamespaceAlreadyExistsError, NoSuchNamespaceError)
    with failures_of(place.source, *passing, changing=True), place.source.turn:
        try:
            known = catalog.namespace_exists(place.identifier[:-1])
            if not known:
                catalog.create_namespace(place.identifier[:-1], properties)
        except NamespaceAlreadyExistsError:
            known = True
        except NoSuchNamespaceError as error:
            raise NotFoundError(f"{statement.place(names[0].token)}: {error}") from error
    if known and not if_not_exists:
        raise statement.error(f"schema {_full_name(place)} exists already", names[0].token)
    return answer_row(not known, f"{_full_name(place)}: {'exists already' if known else 'is created'}")


def drop_schema(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run one DROP SCHEMA; returns one row that says what was done."""
    cursor = Cursor(statement, 2)
    if_exists = cursor.accept_words("IF", "EXISTS")
    names = _names(cursor)
    cascades = cursor.accept_word("CASCADE")
    if not cascades:
        cursor.accept_word("RESTRICT")
    cursor.end()
    with statement.at(names[0].token):
        place = _place(target, names)
        known = target.catalogs.schemas(place.catalog_name)
        if place.schema_name not in known:
            if if_exists:
                return answer_row(False, f"{_full_name(place)}: does not exist")
            raise NotFoundError(f"schema {_full_name(place)} does not exist")
        inner = [each for each in known if each.startswith(f"{place.schema_name}.")]
        inner += target.catalogs.views_in(place.catalog_name, place.identifier[:-1]) or []
        tables = target.catalogs.tables(place.catalog_name, place.schema_name)
        if inner or (tables and not cascades):
            what = (
                f"the schemas and views {', '.join(inner)}" if inner else f"{len(tables)} tables, such as {tables[0]}"
            )
            way = "drop them first" if inner else "drop them first, or add CASCADE, which keeps their files"
            raise InvalidRequestError(f"schema {_full_name(place)} has {what}: {way}")
        if tables and place.source.settings.type == "filesystem":
            raise InvalidRequestError(f"{place.source} has no entries to drop: a table there is its folder")
        for table in tables:
            with suppress(NotFoundError):  # another writer has dropped it meanwhile
                target.catalogs.target(place.catalog_name, place.schema_name, table).drop_entry()
        _drop(place)
    dropped = f", with {len(tables)} tables, whose files stay" if tables else ""
    return answer_row(True, f"{_full_name(place)}: is dropped{dropped}")


def _drop(place: TargetTable) -> None:
    """Drop the empty schema. Raises InvalidRequestError if another writer has put something into it."""
    refused = NamespaceNotEmptyError if place.source.settings.type != "filesystem" else OSError
    with failures_of(place.source, refused, NoSuchNamespaceError, changing=True), place.source.turn:
        try:
            place.source.catalog.drop_namespace(place.identifier[:-1])
        except NoSuchNamespaceError as error:
            raise NotFoundError(f"schema {_full_name(place)} does not exist any more") from error
        except refused as error:
            raise InvalidRequestError(f"schema {_full_name(place)} is not empty, and stays: {error}") from error


def describe_schema(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns names and values of what the catalog knows of a schema; secrets are masked."""
    place, properties = _read_schema(target, Cursor(statement, 2))
    found = {"Catalog Name": place.catalog_name, "Namespace Name": place.schema_name, **properties}
    return pa.table({"info_name": pa.array(list(found), pa.string()), "info_value": pa.array(found.values())})


def show_create_schema(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns the statement that creates a schema like this one."""
    place, properties = _read_schema(target, Cursor(statement, 3))
    given = ", ".join(f"{text_constant(key)} = {text_constant(value)}" for key, value in properties.items())
    text = f"CREATE SCHEMA {_full_name(place)}{f' WITH ({given})' if given else ''}"
    return pa.table({"create_statement": pa.array([text], pa.string())})


def rename_schema(target: StatementTarget, statement: Statement) -> pa.Table:
    """Refuse ALTER SCHEMA: Iceberg's catalogs do not rename schemas."""
    names = _names(Cursor(statement, 2))
    with statement.at(names[0].token):
        place = _place(target, names)
    raise statement.error(
        f"{place.source} does not rename or change schemas: run CREATE SCHEMA, then ALTER TABLE … RENAME TO for each "
        f"table of {_full_name(place)}, and DROP SCHEMA",
        names[0].token,
    )


def _read_schema(target: StatementTarget, cursor: Cursor) -> tuple[TargetTable, dict[str, str]]:
    """Read the name of a schema; returns its place, and its properties. Raises NotFoundError."""
    names = _names(cursor)
    cursor.end()
    with cursor.statement.at(names[0].token):
        place = _place(target, names)
        if place.schema_name not in target.catalogs.schemas(place.catalog_name):
            raise NotFoundError(f"schema {_full_name(place)} does not exist")
        with failures_of(place.source), place.source.turn:
            properties = place.source.catalog.load_namespace_properties(place.identifier[:-1])
    return place, {key: redact_value(key, str(value)) for key, value in sorted(properties.items())}


def _properties(cursor: Cursor) -> dict[str, str]:
    """Read ``[WITH (key = value, …)]``."""
    found: dict[str, str] = {}
    if cursor.accept_word("WITH"):
        cursor.expect(TokenType.L_PAREN, "(")
        while not found or cursor.accept(TokenType.COMMA):
            key = property_key(cursor)
            cursor.expect(TokenType.EQ, "=")
            found[key] = property_value(cursor) or ""
        cursor.expect(TokenType.R_PAREN, ", or )")
    return found


def _names(cursor: Cursor) -> list[Name]:
    names = cursor.names("catalog.schema")
    if len(names) < 2:
        raise cursor.statement.error("a schema is named by its catalog and its name, catalog.schema", names[0].token)
    return names


def _place(target: StatementTarget, names: list[Name]) -> TargetTable:
    """Returns the place of any table of the schema. Raises NotFoundError for a catalog that is not configured."""
    if target.catalogs.canonical(names[0].text) == OWN_CATALOG:
        raise InvalidRequestError(f"{OWN_CATALOG} is the metastore's own: its schemas are neither made nor dropped")
    return target.catalogs.target(names[0].text, ".".join(name.text for name in names[1:]), "_")


def _full_name(place: TargetTable) -> str:
    return f"{place.catalog_name}.{place.schema_name}"


def answer_row(changed: bool, summary: str) -> pa.Table:
    """Returns the one row of a statement about a table or schema."""
    return pa.Table.from_pylist([{"ok": changed, "summary": summary}], pa.schema(_DONE))


HANDLERS: Final = {
    (*words, kind): handler
    for kind in ("SCHEMA", "DATABASE", "NAMESPACE")
    for words, handler in (
        (("CREATE",), create_schema),
        (("DROP",), drop_schema),
        (("ALTER",), rename_schema),
        (("DESCRIBE",), describe_schema),
        (("SHOW", "CREATE"), show_create_schema),
    )
}
"""Handlers by the first words of their statements."""
