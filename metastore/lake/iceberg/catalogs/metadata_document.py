"""The newest metadata of any table of a catalog, as the JSON of its file.

Used where the files that a table needs must be known. PyIceberg parses a table as a whole, so a single unknown type or
field hides the table's location and snapshots. The JSON still has them.

Guarantee: the result is the metadata that the catalog's entry points to, with all its snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.scan_planning import StorageCredential
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.typedef import Identifier

from metastore.lake.iceberg.catalogs.catalogs import CatalogSource
from metastore.lake.iceberg.catalogs.expiring_versions import looked_at_again
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.lake.iceberg.catalogs.metadata_json import read_document, require_metadata
from metastore.lake.iceberg.catalogs.pointers import Pointer, answer_of_rest, newest_pointer


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


def newest_document(
    source: CatalogSource, identifier: Identifier, pointer: Pointer | None = None
) -> MetadataDocument | None:
    """Return the table's newest metadata; None if there is no table.

    ``pointer`` is where it is, as just listed. That saves a request; if the file is gone by now, the catalog is asked.

    Raises StorageError if its file is missing or cannot be read, FormatError if it is not table metadata, and the
    errors of the catalog's library.
    """
    if isinstance(source.catalog, RestCatalog):
        return _document_of_rest(source, source.catalog, identifier)
    given = iter((pointer,) if pointer else ())
    return looked_at_again(
        lambda: _look(source, identifier, next(given, None)),
        f"the metadata file of {'.'.join(identifier)} in {source}",
    )


def _look(source: CatalogSource, identifier: Identifier, pointer: Pointer | None) -> MetadataDocument | None:
    pointer = pointer or newest_pointer(source, identifier)
    if pointer is None:
        return None
    io = file_io(source.catalog, pointer.location)
    return MetadataDocument(pointer, read_document(io, pointer.location), io)


def file_io(catalog: Catalog, location: str) -> FileIO:
    """Return what reads files of ``catalog`` such as ``location``, without the table that they belong to."""
    return catalog.io if isinstance(catalog, FileSystemCatalog) else load_file_io(catalog.properties, location)


def _document_of_rest(source: CatalogSource, catalog: RestCatalog, identifier: Identifier) -> MetadataDocument | None:
    """Create it from the answer; its credentials may be the only ones that can read the table's files."""
    try:
        with source.turn:
            answer = answer_of_rest(catalog, identifier, "all")
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    location = str(answer.get("metadata-location") or "")
    given = [StorageCredential.model_validate(each) for each in answer.get("storage-credentials") or ()]
    vended = catalog._resolve_storage_credentials(given, location)  # noqa: SLF001 - as above
    io = load_file_io({**catalog.properties, **(answer.get("config") or {}), **vended}, location)
    return MetadataDocument(Pointer(location), require_metadata(answer.get("metadata"), location), io)
