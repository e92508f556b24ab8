"""The other tables in the configuration, each by the JSON of its newest metadata.

Place in the flow: the proof that a file may be deleted asks this module for every table, in any catalog, that could
need the file. The JSON gives location, snapshots and statistics even of a table that this package cannot parse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from metastore.components.catalogs import Catalogs
from metastore.config.catalogs import OWN_CATALOG
from metastore.errors import MetastoreError
from metastore.lake.iceberg.catalogs.metadata_document import MetadataDocument
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.snapshots.sweep import FileKind, TableFile

PATH_PROPERTIES: Final = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
"""Properties that name folders of data and metadata files. The last two are from older engines."""


@dataclass(frozen=True)
class Unknown:
    """A catalog, schema or table whose needed files cannot be determined, and the reason."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} ({self.why})"


def other_tables(catalogs: Catalogs, target: TargetTable) -> Iterator[TargetTable | Unknown]:
    """Yields every table of every configured catalog except ``target``, and each catalog or schema not listed.

    The metastore's own components are not included: the configuration reserves their folders for them.
    """
    for catalog in catalogs.names():
        if catalog != OWN_CATALOG:
            yield from _of_catalog(catalogs, catalog, target)


def _of_catalog(catalogs: Catalogs, catalog: str, target: TargetTable) -> Iterator[TargetTable | Unknown]:
    try:
        schemas = catalogs.schemas(catalog)
    except MetastoreError as error:
        yield Unknown(f"catalog {catalog}", str(error))
        return
    for schema in schemas:
        try:
            names = catalogs.tables(catalog, schema)
        except MetastoreError as error:
            yield Unknown(f"schema {catalog}.{schema}", str(error))
            continue
        for name in names:
            other = catalogs.target(catalog, schema, name)
            if (other.catalog_name, other.identifier) != (target.catalog_name, target.identifier):
                yield other


def pointer_of(table: TargetTable) -> str | Unknown | None:
    """Returns the location of the newest metadata of ``table``; None if it was dropped since its catalog listed it."""
    try:
        return table.newest_pointer()
    except MetastoreError as error:
        return Unknown(str(table), str(error))


def document_of(table: TargetTable) -> MetadataDocument | Unknown | None:
    """Returns the newest metadata of ``table``; None if it was dropped since its catalog listed it."""
    try:
        return table.newest_document()
    except MetastoreError as error:
        return Unknown(str(table), str(error))


def claimed_folders(document: MetadataDocument) -> tuple[str, ...]:
    """Returns the folders that a table claims: its location, data and metadata below it, those of its properties."""
    location = document.content["location"].rstrip("/")
    properties = document.content.get("properties") or {}
    written = [properties[key] for key in PATH_PROPERTIES if properties.get(key)]
    return tuple(dict.fromkeys([location, f"{location}/data", f"{location}/metadata", *written]))


def named_files(document: MetadataDocument) -> Iterator[str]:
    """Yields every file that the JSON itself names: metadata files, statistics, manifest lists."""
    content = document.content
    yield document.location
    yield from (entry["metadata-file"] for entry in _each(content, "metadata-log"))
    for kind in ("statistics", "partition-statistics"):
        yield from (entry["statistics-path"] for entry in _each(content, kind))
    yield from (file.location for file in manifest_lists(document))


def manifest_lists(document: MetadataDocument) -> list[TableFile]:
    """Returns the manifest lists of all snapshots, each once."""
    found = (snapshot.get("manifest-list") for snapshot in _each(document.content, "snapshots"))
    return [TableFile(location, FileKind.MANIFEST_LIST) for location in dict.fromkeys(found) if location]


def inline_manifests(document: MetadataDocument) -> list[TableFile]:
    """Returns the manifests that snapshots name directly, without a list, as format version 1 allows."""
    found = (path for snapshot in _each(document.content, "snapshots") for path in snapshot.get("manifests") or ())
    return [TableFile(location, FileKind.MANIFEST) for location in dict.fromkeys(found)]


def _each(content: Any, key: str) -> Iterator[Any]:
    yield from content.get(key) or ()
