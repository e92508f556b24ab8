"""The other tables that the configuration knows, each by the JSON of its newest metadata.

Place in the flow: the proof that a file may be deleted asks here for every table that could need it, in whichever
catalog. A table that this package cannot parse has its location, snapshots and statistics in its JSON all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from metastore.catalogs import Catalogs
from metastore.config.catalogs import OWN_CATALOG
from metastore.errors import MetastoreError
from metastore.iceberg.metadata_document import MetadataDocument
from metastore.iceberg.sweep import FileKind, TableFile
from metastore.iceberg.target import TargetTable

PATH_PROPERTIES: Final = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
"""Properties that name folders of data and metadata files; the last two are those of older engines."""


@dataclass(frozen=True)
class Unknown:
    """A catalog, schema or table of which nobody can tell which files it needs, and why not."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} ({self.why})"


def other_tables(catalogs: Catalogs, target: TargetTable) -> Iterator[TargetTable | Unknown]:
    """Every table of every configured catalog but ``target``, and what could not be listed.

    The metastore's own components are not among them: their folders are theirs alone, by the configuration.
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
    """Where the newest metadata of ``table`` lies; None when it was dropped since its catalog listed it."""
    try:
        return table.newest_pointer()
    except MetastoreError as error:
        return Unknown(str(table), str(error))


def document_of(table: TargetTable) -> MetadataDocument | Unknown | None:
    """The newest metadata of ``table``; None when it was dropped since its catalog listed it."""
    try:
        return table.newest_document()
    except MetastoreError as error:
        return Unknown(str(table), str(error))


def claimed_folders(document: MetadataDocument) -> tuple[str, ...]:
    """The folders that a table claims: its location, data and metadata below it, and where its properties lead."""
    location = document.content["location"].rstrip("/")
    properties = document.content.get("properties") or {}
    written = [properties[key] for key in PATH_PROPERTIES if properties.get(key)]
    return tuple(dict.fromkeys([location, f"{location}/data", f"{location}/metadata", *written]))


def named_files(document: MetadataDocument) -> Iterator[str]:
    """Every file that the JSON itself names: metadata files, statistics, manifest lists."""
    content = document.content
    yield document.location
    yield from (entry["metadata-file"] for entry in _each(content, "metadata-log"))
    for kind in ("statistics", "partition-statistics"):
        yield from (entry["statistics-path"] for entry in _each(content, kind))
    yield from (file.location for file in manifest_lists(document))


def manifest_lists(document: MetadataDocument) -> list[TableFile]:
    """The manifest lists of all snapshots, each once."""
    found = (snapshot.get("manifest-list") for snapshot in _each(document.content, "snapshots"))
    return [TableFile(location, FileKind.MANIFEST_LIST) for location in dict.fromkeys(found) if location]


def inline_manifests(document: MetadataDocument) -> list[TableFile]:
    """Manifests that snapshots name themselves, without a list, as format version 1 allows."""
    found = (path for snapshot in _each(document.content, "snapshots") for path in snapshot.get("manifests") or ())
    return [TableFile(location, FileKind.MANIFEST) for location in dict.fromkeys(found)]


def _each(content: Any, key: str) -> Iterator[Any]:
    yield from content.get(key) or ()
