"""The tables in the configuration: where each points, and the JSON of its newest metadata.

Place in the flow: the proof that a file may be deleted asks this module for every table, in any catalog, that could
need the file. The JSON gives location, snapshots and statistics even of a table that this package cannot parse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from metastore.components.catalogs import Catalogs
from metastore.config.catalogs import OWN_CATALOG
from metastore.errors import MetastoreError
from metastore.lake.iceberg.catalogs.metadata_document import MetadataDocument
from metastore.lake.iceberg.catalogs.pointers import Pointer
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.rows.reach_index import TableKey
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


@dataclass(frozen=True)
class CatalogListing:
    """The pointer of every table of the ``catalogs`` that were listed completely, and what could not be listed."""

    pointers: Mapping[TableKey, Pointer]
    catalogs: frozenset[str]
    unknown: tuple[Unknown, ...]


def listing(catalogs: Catalogs, component: TargetTable | None = None) -> CatalogListing:
    """Returns where all tables of the configured catalogs point now. Errors of catalogs are part of the listing.

    Of the metastore's own components only ``component`` is included, if it is one: the configuration reserves their
    folders for them.
    """
    pointers: dict[TableKey, Pointer] = {}
    unknown: list[Unknown] = []
    complete: set[str] = set()
    if component is not None and component.is_component:
        pointer = component.newest_version()
        if pointer is not None:
            pointers[OWN_CATALOG, component.schema_name, component.name] = pointer
    for catalog in catalogs.names():
        failed = len(unknown)
        try:
            found = {} if catalog == OWN_CATALOG else catalogs.pointers(catalog)
        except MetastoreError as error:
            unknown.append(Unknown(f"catalog {catalog}", str(error)))
            continue
        for (schema, name), at in found.items():
            if isinstance(at, MetastoreError):
                what = f"schema {catalog}.{schema}" if name is None else f"{catalog}.{schema}.{name}"
                unknown.append(Unknown(what, str(at)))
            elif name is not None:
                pointers[catalog, schema, name] = at
        complete.update([catalog] if len(unknown) == failed else [])
    return CatalogListing(pointers, frozenset(complete), tuple(unknown))


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
