"""The newest metadata of any table of a catalog, as the JSON of its file.

Used where the files that a table needs must be known. PyIceberg parses a table as a whole, so a single unknown type or
field hides the table's location and snapshots. The JSON still has them.

Guarantee: the result is the metadata that the catalog's entry points to, with all its snapshots.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import Endpoints, IdentifierKind, RestCatalog
from pyiceberg.catalog.rest.scan_planning import StorageCredential
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.typedef import Identifier

from metastore.errors import FormatError
from metastore.lake.iceberg.catalogs.catalogs import CatalogSource
from metastore.lake.iceberg.catalogs.expiring_versions import looked_at_again
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.lake.iceberg.catalogs.metadata_json import checked, read_document

_POINTER: Final = "metadata_location"
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


@dataclass(frozen=True)
class MetadataDocument:
    """The metadata file at ``pointer``; ``content`` is its JSON, ``io`` reads the table's files."""

    pointer: Pointer
    content: Mapping[str, Any]
    io: FileIO

    @property
    def location(self) -> str:
        """The location of the metadata file."""
        return self.pointer.location


def newest_pointer(source: CatalogSource, identifier: Identifier, known: Pointer | None = None) -> Pointer | None:
    """Return where the table's newest metadata is without reading it; None if there is no table.

    With ``known``, an earlier answer, the search on a file system continues from it by one request. Raises FormatError
    for an entry that names no metadata file, and the errors of the catalog's library.
    """
    try:
        with source.turn:
            return _pointer(source.opened, identifier, known)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None


def newest_document(source: CatalogSource, identifier: Identifier) -> MetadataDocument | None:
    """Return the table's newest metadata; None if there is no table.

    Raises StorageError if its file is missing or cannot be read, FormatError if it is not table metadata, and the
    errors of the catalog's library.
    """
    if isinstance(source.opened, RestCatalog):
        return _document_of_rest(source, source.opened, identifier)
    return looked_at_again(
        lambda: _look(source, identifier), f"the metadata file of {'.'.join(identifier)} in {source}"
    )


def _look(source: CatalogSource, identifier: Identifier) -> MetadataDocument | None:
    pointer = newest_pointer(source, identifier)
    if pointer is None:
        return None
    io = file_io(source.opened, pointer.location)
    return MetadataDocument(pointer, read_document(io, pointer.location), io)


def file_io(catalog: Catalog, location: str) -> FileIO:
    """Return what reads files of ``catalog`` such as ``location``, without the table that they belong to."""
    return catalog.io if isinstance(catalog, FileSystemCatalog) else load_file_io(catalog.properties, location)


def _pointer(catalog: Catalog, identifier: Identifier, known: Pointer | None) -> Pointer:
    if isinstance(catalog, FileSystemCatalog):
        found = catalog.newest_version(identifier, known.version if known else None)
        return Pointer(found.location, found.identity, found.version)
    if isinstance(catalog, RestCatalog):
        return Pointer(str(_answer_of_rest(catalog, identifier, "refs").get("metadata-location") or ""))
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


def newest_view(source: CatalogSource, identifier: Identifier) -> Mapping[str, Any] | None:
    """Return what a REST catalog answers for a view: its location and metadata; None if there is no view.

    Raises the errors of the catalog's library.
    """
    catalog = source.opened
    assert isinstance(catalog, RestCatalog)
    with source.turn, suppress(NoSuchTableError):
        split = catalog._split_identifier_for_path(identifier, IdentifierKind.VIEW)  # noqa: SLF001 - as below
        return _asked_of_rest(catalog, catalog.url(Endpoints.load_view, prefixed=True, **split), identifier)
    return None


def _answer_of_rest(catalog: RestCatalog, identifier: Identifier, snapshots: Literal["all", "refs"]) -> dict[str, Any]:
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


def _document_of_rest(source: CatalogSource, catalog: RestCatalog, identifier: Identifier) -> MetadataDocument | None:
    """Create it from the answer; its credentials may be the only ones that can read the table's files."""
    try:
        with source.turn:
            answer = _answer_of_rest(catalog, identifier, "all")
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    location = str(answer.get("metadata-location") or "")
    given = [StorageCredential.model_validate(each) for each in answer.get("storage-credentials") or ()]
    vended = catalog._resolve_storage_credentials(given, location)  # noqa: SLF001 - as above
    io = load_file_io({**catalog.properties, **(answer.get("config") or {}), **vended}, location)
    return MetadataDocument(Pointer(location), checked(answer.get("metadata"), location), io)
