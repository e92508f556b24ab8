"""A PyIceberg catalog on the file system: a table is a folder in the layout of Hadoop tables.

Identifiers are folder names below the warehouse: ``("tables",)`` is ``<warehouse>/tables``. A commit atomically creates
the next version file (:mod:`metastore.lake.iceberg.catalogs.version_files`), so any number of processes and engines
that follow this layout can write concurrently. Loaded metadata is cached by the identity of its immutable file.
"""

from __future__ import annotations

import errno
import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import pyarrow as pa
from pyiceberg.catalog import PropertiesUpdateSummary
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, CreateTableTransaction, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import SetPropertiesUpdate, TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties

from metastore.errors import DamageError, FormatError, InvalidRequestError, MetastoreError, StorageError
from metastore.lake.iceberg.catalogs.catalog_without_views import CatalogWithoutViews
from metastore.lake.iceberg.catalogs.lossless_metadata import WRITTEN_BY_PYICEBERG, first_document, next_document
from metastore.lake.iceberg.catalogs.metadata_json import read_document, read_metadata
from metastore.lake.iceberg.catalogs.next_metadata import apply_updates, in_order, serialize_metadata
from metastore.lake.iceberg.catalogs.version_files import FoundVersion, VersionFiles
from metastore.lake.stores.files import DeletionResult
from metastore.lake.stores.locations import is_local, require_folder_names
from metastore.lake.stores.opening import open_store

_LOOKS: Final = 100


@dataclass(frozen=True)
class _LoadedMetadata:
    """Metadata and the identity of its file, so that a recreated folder is not taken for the old table."""

    file: FoundVersion
    metadata: TableMetadata


class _NewestTable(Table):
    """A table whose next version was free when it was loaded. That holds for one commit."""

    _is_used = False

    def is_first_commit(self) -> bool:
        """Whether nothing was committed upon this object before; from then on it was."""
        was_used, self._is_used = self._is_used, True
        return not was_used


RECENT_COMMITS: Final = "metastore.recent-commits"
"""Table property: marks of the last commits; a slow writer finds out whether its version is one of them."""

_MARKS_KEPT: Final = 64
_MARK_DIGITS: Final = 12


class FileSystemCatalog(CatalogWithoutViews):
    """Iceberg tables by folder below ``warehouse``: an absolute path, a ``file:`` URI, or an object store's URI.

    ``properties`` open the store, in Hadoop's keys or PyIceberg's. Raises StorageError for an unsupported store.
    """

    def __init__(self, name: str, warehouse: str, **properties: str) -> None:
        super().__init__(name, warehouse=warehouse, **properties)
        self.warehouse = warehouse.rstrip("/")
        self._store, self.io = open_store(self.warehouse, properties)
        self._loaded: dict[Identifier, _LoadedMetadata] = {}
        self._absent: set[Identifier] = set()
        self._lock = threading.Lock()

    def load_table(self, identifier: str | Identifier) -> Table:
        """Return the table at its newest version. Raises NoSuchTableError."""
        return self._load(self.identifier_to_tuple(identifier))

    def load_to_commit(self, identifier: str | Identifier) -> Table:
        """As :meth:`load_table`, but the look also serves the next :meth:`commit_table` upon the returned table.

        On a store with latency this saves a commit the requests that look for its version once more. The local disk
        looks as late as possible.
        """
        if is_local(self.warehouse):
            return self.load_table(identifier)
        return self._load(self.identifier_to_tuple(identifier), to_commit=True)

    def _load(self, key: Identifier, *, to_commit: bool = False) -> Table:
        """The newest version, from memory if its file is still the newest; NoSuchTableError if there is none."""
        versions = self._versions(self.location_of(key))
        with self._lock:
            known = self._loaded.get(key)
            was_absent = key in self._absent
        is_absent = was_absent and known is None and not to_commit and versions.is_unused()
        for _ in range(0 if is_absent else _LOOKS):
            start = known.file.version if known else None
            found, is_free = versions.find_to_publish(start) if to_commit else (versions.find(start), False)
            if found is None:
                break
            try:
                metadata = known.metadata if known and known.file == found else self._load_metadata(key, found)
            except FileNotFoundError:
                continue  # An expiration removed that version before the read; a newer one exists.
            kind = _NewestTable if is_free else Table
            return kind(key, metadata, found.location, self.io, self)
        self._absent.add(key)
        raise NoSuchTableError(f"no Iceberg table at {self.location_of(key)}")

    def newest_version(self, identifier: str | Identifier, earlier: int | None = None) -> FoundVersion:
        """Return a table's newest version file without reading it. Raises NoSuchTableError.

        ``earlier`` is a version that existed: while it does, one look finds the newest (:meth:`VersionFiles.find`).
        """
        found = self._versions(self.location_of(identifier)).find(earlier)
        if found is None:
            raise NoSuchTableError(f"no Iceberg table at {self.location_of(identifier)}")
        return found

    def table_exists(self, identifier: str | Identifier) -> bool:
        """Whether the folder has a version of a table; also True for a table that has lost its newest versions."""
        try:
            return self._versions(self.location_of(identifier)).current() is not None
        except DamageError:
            return True

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        """Create an empty table as version 1. Raises TableAlreadyExistsError, also if another process was faster."""
        if not isinstance(schema, Schema):
            raise InvalidRequestError("the file system catalog creates tables from an Iceberg schema")
        key = self.identifier_to_tuple(identifier)
        if location not in (None, self.location_of(key)):
            raise InvalidRequestError(
                f"table {'.'.join(key)} lies at {self.location_of(key)}; it cannot be at {location}"
            )
        metadata = new_table_metadata(schema, partition_spec, sort_order, self.location_of(key), dict(properties))
        return self.create_from(key, metadata)

    def create_from(self, identifier: str | Identifier, metadata: TableMetadata) -> Table:
        """Create a table as version 1 with all of ``metadata``, also its snapshots. Raises as :meth:`create_table`.

        StorageError: certainly not created. OSError: unknown.
        """
        key = self.identifier_to_tuple(identifier)
        versions = self._versions(metadata.location)
        try:
            is_free = versions.current() is None
        except OSError as error:
            raise StorageError(f"cannot look up {'.'.join(key)}: {error}; nothing was changed") from error
        won, own = None, metadata.table_uuid
        if is_free:
            won = versions.publish(
                1, _first_content(metadata), lambda: self.load_table(key).metadata.table_uuid == own, is_free=True
            )
        if won is None:
            raise TableAlreadyExistsError(f"an Iceberg table exists at {metadata.location} already")
        # PyIceberg's new metadata of version 3 lacks the next row id, which the file has.
        if won.identity is not None and metadata.format_version <= WRITTEN_BY_PYICEBERG:
            self._remember(key, won, metadata)
        return Table(key, metadata, versions.location_of(1), self.io, self)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Publish the next version. CommitFailedException, StorageError: certainly not committed; OSError: unknown.

        DamageError: certainly not committed, since version files are lost.
        """
        if self.is_loaded(table):
            with suppress(CommitFailedException):
                if response := self._commit_upon(table, table, requirements, updates):
                    return response
        try:
            current = self.load_table(table.name())
        except OSError as error:
            raise StorageError(f"cannot look up {'.'.join(table.name())}: {error}; nothing was changed") from error
        if response := self._commit_upon(current, table, requirements, updates):
            return response
        version = _version_of(current.metadata_location) + 1
        raise CommitFailedException(f"another writer committed version {version} of {current.location()} first")

    def is_loaded(self, table: Table) -> bool:
        """Whether ``table`` is as last loaded here: then publishing itself finds out whether it is current.

        Version files are never replaced, so creating the next one shows the same as looking for a newer version.
        """
        with self._lock:
            known = self._loaded.get(self.identifier_to_tuple(table.name()))
        return known is not None and known.metadata is table.metadata and known.file.location == table.metadata_location

    def _commit_upon(
        self,
        current: Table,
        table: Table,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> CommitTableResponse | None:
        """Publish the version after ``current``; None if another writer has it. Raises as :meth:`commit_table`."""
        for requirement in requirements:
            requirement.validate(current.metadata)
        base = current.metadata_location
        mark = uuid.uuid4().hex[:_MARK_DIGITS]
        recent = (*current.metadata.properties.get(RECENT_COMMITS, "").split(), mark)[-_MARKS_KEPT:]
        marking = SetPropertiesUpdate(updates={RECENT_COMMITS: " ".join(recent)})
        metadata = in_order(apply_updates(current.metadata, (*updates, marking), base), current.metadata)
        content = self._content(base, metadata)
        versions = self._versions(metadata.location)
        version = _version_of(base) + 1
        try:
            won = versions.publish(
                version,
                content,
                lambda: self._is_built_upon(table, version, mark),
                base,
                is_free=isinstance(current, _NewestTable) and current.is_first_commit(),
            )
        except FileNotFoundError as error:
            # When loading raises this, a race was lost; here it has no such meaning.
            raise OSError(errno.EIO, f"it is unknown whether version {version} was published: {error}") from error
        if won is None:
            return None
        if won.identity is not None:
            self._remember(self.identifier_to_tuple(table.name()), won, metadata)
        return CommitTableResponse(metadata=metadata, metadata_location=won.location)

    def _content(self, base: str, metadata: TableMetadata) -> bytes:
        """Return the next version file; for format version 3 it is based on the JSON of the file at ``base``."""
        if metadata.format_version <= WRITTEN_BY_PYICEBERG:
            return serialize_metadata(metadata)
        return json.dumps(next_document(read_document(self.io, base), metadata)).encode()

    def remove_old_metadata(self, table: Table) -> DeletionResult:
        """Delete the version files before that of ``table``, oldest first; stops at the first failure.

        Only the committer of that version may call it (:meth:`VersionFiles.remove_before`).
        """
        versions = self._versions(table.metadata.location)
        removed, failed = versions.remove_before(_version_of(table.metadata_location))
        return DeletionResult(removed, tuple((versions.folder, error) for error in failed))

    def drop_table(self, identifier: str | Identifier) -> NoReturn:
        """Refused: a table exists as long as its files, and dropping a name never deletes files."""
        raise InvalidRequestError(
            "a table of the file system cannot be dropped without its files: "
            f"delete {self.location_of(identifier)}, or purge the component"
        )

    purge_table = drop_table

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> NoReturn:
        """Refused: the folder names the table."""
        raise InvalidRequestError(f"{metadata_location} is a table of its folder; there is nothing to register it in")

    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> NoReturn:
        """Refused: metadata holds absolute paths."""
        raise InvalidRequestError(
            f"{from_identifier} cannot be renamed: its metadata holds absolute paths of its folder"
        )

    def create_table_transaction(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> CreateTableTransaction:
        """Refused: create the table, then write to it."""
        raise InvalidRequestError("the file system catalog creates a table at once; create it, then write to it")

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        """Return the tables directly below the namespace's folder, sorted, including folders that cannot be read."""
        parent = self.identifier_to_tuple(namespace) if namespace else ()
        return [child for child in self._children(parent) if self._may_be_table(child)]

    # -- namespaces: folders that are not tables

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        """Create the folder; folders have no properties."""
        self._store.make_folder(self.location_of(namespace))

    def drop_namespace(self, namespace: str | Identifier) -> None:
        """Remove the folder if it is empty; raises OSError otherwise."""
        self._store.remove_folder(self.location_of(namespace))

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """Return folders below ``namespace`` that are not tables, sorted, including folders that cannot be read."""
        parent = self.identifier_to_tuple(namespace) if namespace else ()
        return [child for child in self._children(parent) if not self._may_be_table(child, otherwise=False)]

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        """Whether the folder exists."""
        try:
            self._store.entries(self.location_of(namespace))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        """Always empty for an existing namespace. Raises NoSuchNamespaceError."""
        if not self.namespace_exists(namespace):
            raise NoSuchNamespaceError(f"no folder {self.location_of(namespace)}")
        return {}

    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties = EMPTY_DICT
    ) -> PropertiesUpdateSummary:
        """Refused: folders have no properties."""
        raise InvalidRequestError("namespaces of the file system catalog are folders and keep no properties")

    def supports_server_side_planning(self) -> bool:
        """Return False: there is no server."""
        return False

    def location_of(self, identifier: str | Identifier) -> str:
        """Return the folder of a table or namespace. InvalidRequestError for names that lead out of the warehouse."""
        parts = self.identifier_to_tuple(identifier)
        require_folder_names(parts)
        return "/".join((self.warehouse, *parts))

    def _children(self, parent: Identifier) -> Iterator[Identifier]:
        try:
            folders = self._store.entries(self.location_of(parent)).folders
        except FileNotFoundError as error:
            raise NoSuchNamespaceError(f"no folder {self.location_of(parent)}") from error
        return ((*parent, name) for name in sorted(folders))

    def _may_be_table(self, child: Identifier, *, otherwise: bool = True) -> bool:
        """Whether the folder is a table; ``otherwise`` if it cannot be read, so that it does not hide the others."""
        with suppress(OSError, MetastoreError):
            return self.table_exists(child)
        return otherwise

    def _is_built_upon(self, table: Table, version: int, mark: str) -> bool:
        """Whether the newest version descends from the one with ``mark``. OSError if that is too long ago to know."""
        try:
            newest = self.load_table(table.name())
        except FormatError as error:
            raise OSError(errno.EIO, f"it is unknown whether version {version} landed: {error}") from error
        if mark in newest.metadata.properties.get(RECENT_COMMITS, "").split():
            return True
        if _version_of(newest.metadata_location) - version >= _MARKS_KEPT:
            raise OSError(f"version {version} of {newest.metadata.location} is too old to determine its writer")
        return False

    def _versions(self, location: str) -> VersionFiles:
        return VersionFiles(location, self._store)

    def _load_metadata(self, key: Identifier, version: FoundVersion) -> TableMetadata:
        metadata = read_metadata(self.io, version.location)
        self._remember(key, version, metadata)
        return metadata

    def _remember(self, key: Identifier, file: FoundVersion, metadata: TableMetadata) -> None:
        with self._lock:
            self._loaded[key] = _LoadedMetadata(file, metadata)
            self._absent.discard(key)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle only the configuration: an executor starts with nothing loaded."""
        return {"name": self.name, "warehouse": self.warehouse, "properties": self.io.properties}

    def __setstate__(self, state: dict[str, Any]) -> None:
        FileSystemCatalog.__init__(self, state["name"], state["warehouse"], **state["properties"])


def _version_of(metadata_location: str) -> int:
    return int(metadata_location.rsplit("/v", 1)[1].split(".", 1)[0])


def _first_content(metadata: TableMetadata) -> bytes:
    """Return the version file of a new table."""
    if metadata.format_version <= WRITTEN_BY_PYICEBERG:
        return serialize_metadata(metadata)
    return json.dumps(first_document(metadata)).encode()
