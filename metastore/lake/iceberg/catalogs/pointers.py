"""Where the tables of a catalog point: the location of each table's newest metadata file, which is not read.

A pointer that has not changed means a table that has not changed. Some catalogs give all pointers in one listing
(:func:`listed_pointers`); the others are asked for one table after the other (:func:`newest_pointer`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import Endpoints, IdentifierKind, RestCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.typedef import Identifier

from metastore.errors import FormatError
from metastore.lake.iceberg.catalogs.catalogs import CatalogSource
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog

_POINTER: Final = "metadata_location"
_KIND: Final = "table_type"
_NOT_FOUND: Final = 404
_ONE_LEVEL: Final = ("hive", "glue")


@dataclass(frozen=True)
class Pointer:
    """Where the metadata of a version is. ``identity`` tells it from a later file at the same location.

    ``version`` counts the versions of a table of the file system; None for others.
    """

    location: str
    identity: Hashable = None
    version: int | None = None


def newest_pointer(source: CatalogSource, identifier: Identifier, earlier: Pointer | None = None) -> Pointer | None:
    """Return where the table's newest metadata is without reading it; None if there is no table.

    With ``earlier``, a previous answer, the search on a file system continues from it by one request. Raises
    FormatError for an entry that names no metadata file, and the errors of the catalog's library.
    """
    try:
        with source.turn:
            return _pointer(source.catalog, identifier, earlier)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def listed_pointers(source: CatalogSource) -> dict[tuple[str, str], str] | None:
    """Return the pointers of all tables of the catalog, by schema and name, from one listing of it.

    A pointer is empty for an entry that names no metadata file. None for a catalog whose listings have no pointers.
    Raises the errors of the catalog's library.
    """
    match source.settings.type:
        case "sql" | "in-memory":
            listing = _listed_by_sql
        case "hive":
            listing = _listed_by_hive
        case "glue":
            listing = _listed_by_glue
        case _:
            return None
    with source.turn:
        return {(schema, name): pointer or "" for schema, name, pointer in listing(source.catalog)}


def _pointer(catalog: Catalog, identifier: Identifier, earlier: Pointer | None) -> Pointer:
    if isinstance(catalog, FileSystemCatalog):
        found = catalog.newest_version(identifier, earlier.version if earlier else None)
        return Pointer(found.location, found.identity, found.version)
    if isinstance(catalog, RestCatalog):
        return Pointer(str(answer_of_rest(catalog, identifier, "refs").get("metadata-location") or ""))
    parameters = _parameters(catalog, identifier)
    if parameters is None:
        # Another kind of catalog: load by PyIceberg, which must be able to parse the table.
        return Pointer(catalog.load_table(identifier).metadata_location)
    if not parameters.get(_POINTER):
        raise FormatError(f"{'.'.join(identifier)} names no metadata file: it is not an Iceberg table")
    return Pointer(parameters[_POINTER])


def _parameters(catalog: Catalog, identifier: Identifier) -> Mapping[str, str] | None:
    """Return what the catalog stores about a table; None for an unknown kind of catalog."""
    kind = catalog.properties.get("type")
    if kind in _ONE_LEVEL and len(identifier) != len(("database", "table")):
        raise NoSuchTableError(f"a {kind} catalog has namespaces of one level, so no {'.'.join(identifier)}")
    match kind:
        case "sql" | "in-memory":
            return {_POINTER: _pointer_of_sql(catalog, identifier)}
        case "hive":
            return _parameters_of_hive(catalog, *identifier)
        case "glue":
            return _parameters_of_glue(catalog, *identifier)
    return None


def _parameters_of_hive(catalog: Any, database: str, name: str) -> Mapping[str, str]:
    with catalog._client as client:  # noqa: SLF001 - PyIceberg has no public way
        return dict(catalog._get_hive_table(client, database_name=database, table_name=name).parameters)  # noqa: SLF001


def _parameters_of_glue(catalog: Any, database: str, name: str) -> Mapping[str, str]:
    try:
        found = catalog.glue.get_table(DatabaseName=database, Name=name)
    except catalog.glue.exceptions.EntityNotFoundException as error:
        raise NoSuchTableError(f"no table {database}.{name}") from error
    return dict(found["Table"].get("Parameters") or {})


def _pointer_of_sql(catalog: Catalog, identifier: Identifier) -> str:
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog  # noqa: PLC0415 - needs the extra that has SQLAlchemy
    from sqlalchemy import select  # noqa: PLC0415 - as above

    assert isinstance(catalog, SqlCatalog)
    wanted = select(IcebergTables.metadata_location).where(
        IcebergTables.catalog_name == catalog.name,
        IcebergTables.table_namespace == Catalog.namespace_to_string(identifier[:-1]),
        IcebergTables.table_name == identifier[-1],
    )
    with catalog.engine.connect() as connection:
        row = connection.execute(wanted).first()
    if row is None:
        raise NoSuchTableError(f"no table {'.'.join(identifier)}")
    return row[0] or ""


def _listed_by_sql(catalog: Any) -> Iterator[tuple[str, str, str | None]]:
    from pyiceberg.catalog.sql import IcebergTables  # noqa: PLC0415 - needs the extra that has SQLAlchemy
    from sqlalchemy import select  # noqa: PLC0415 - as above

    wanted = select(IcebergTables.table_namespace, IcebergTables.table_name, IcebergTables.metadata_location).where(
        IcebergTables.catalog_name == catalog.name
    )
    only_tables = catalog._iceberg_type_filter()  # noqa: SLF001 - PyIceberg has no public way to leave out views
    with catalog.engine.connect() as connection:
        yield from connection.execute(wanted if only_tables is None else wanted.where(only_tables))


def _listed_by_hive(catalog: Any) -> Iterator[tuple[str, str, str | None]]:
    with catalog._client as client:  # noqa: SLF001 - PyIceberg has no public way
        for database in client.get_all_databases():
            for table in client.get_table_objects_by_name(database, client.get_all_tables(database)):
                if _is_iceberg(table.parameters):
                    yield database, table.tableName, table.parameters.get(_POINTER)


def _listed_by_glue(catalog: Any) -> Iterator[tuple[str, str, str | None]]:
    for (database,) in catalog.list_namespaces():
        for page in catalog.glue.get_paginator("get_tables").paginate(DatabaseName=database):
            for table in page["TableList"]:
                parameters = table.get("Parameters") or {}
                if _is_iceberg(parameters):
                    yield database, table["Name"], parameters.get(_POINTER)


def _is_iceberg(parameters: Mapping[str, str] | None) -> bool:
    return (parameters or {}).get(_KIND, "").lower() == "iceberg"


def newest_view(source: CatalogSource, identifier: Identifier) -> Mapping[str, Any] | None:
    """Return what a REST catalog answers for a view: its location and metadata; None if there is no view.

    Raises the errors of the catalog's library.
    """
    catalog = source.catalog
    assert isinstance(catalog, RestCatalog)
    with source.turn, suppress(NoSuchTableError):
        split = catalog._split_identifier_for_path(identifier, IdentifierKind.VIEW)  # noqa: SLF001 - as below
        return _asked_of_rest(catalog, catalog.url(Endpoints.load_view, prefixed=True, **split), identifier)
    return None


def answer_of_rest(catalog: RestCatalog, identifier: Identifier, snapshots: Literal["all", "refs"]) -> dict[str, Any]:
    """Return the server's answer for a table: PyIceberg would parse all of its metadata or fail."""
    split = catalog._split_identifier_for_path(identifier)  # noqa: SLF001 - PyIceberg has no public way
    address = catalog.url(Endpoints.load_table, prefixed=True, **split)
    return _asked_of_rest(catalog, address, identifier, snapshots=snapshots)


def _asked_of_rest(catalog: RestCatalog, address: str, identifier: Identifier, **parameters: str) -> dict[str, Any]:
    """Return the JSON at ``address``. Raises NoSuchTableError."""
    response = catalog._session.get(address, params=parameters)  # noqa: SLF001 - PyIceberg has no public way
    if response.status_code == _NOT_FOUND:
        raise NoSuchTableError(f"nothing is called {'.'.join(identifier)}")
    response.raise_for_status()
    answer: dict[str, Any] = response.json()
    return answer
