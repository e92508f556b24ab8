"""One table's entry in the configured catalog: looked up, created, committed to, registered.

This class separates component tables from the kind of catalog. Errors are the same for all kinds. Lookups raise
StorageError. A commit raises CommitFailedException if it certainly lost a race, StorageError if it was certainly
refused, and passes on every error that leaves the outcome unknown.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchPropertyException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import AssertCreate, TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier

from metastore.config.limits import LIMIT_PROPERTY
from metastore.config.settings import ComponentSettings
from metastore.errors import ConfigError, FormatError, InvalidRequestError, MetastoreError, StorageError
from metastore.lake.iceberg.catalogs.catalog_errors import UNREADABLE, error_text, fate_of_commit, of_a_catalog
from metastore.lake.iceberg.catalogs.catalogs import CatalogSource, ConfiguredCatalog
from metastore.lake.iceberg.catalogs.expiring_versions import looked_at_again
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.lake.iceberg.catalogs.metadata_document import file_io, newest_document
from metastore.lake.iceberg.catalogs.metadata_json import read_metadata
from metastore.lake.iceberg.catalogs.next_metadata import apply_updates
from metastore.lake.iceberg.catalogs.version_files import is_version_file
from metastore.lake.iceberg.columns.unknown_types import unknown_types
from metastore.lake.iceberg.snapshots.valid_updates import require_valid
from metastore.lake.stores.bounded_reading import table_metadata
from metastore.lake.stores.files import DeletionResult, discard
from metastore.lake.stores.local import local_path
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.opening import open_store
from metastore.redaction import showable

_NUMBERED: Final = re.compile(r"(\d+)-[0-9a-f-]{36}(?:\.gz)?\.metadata\.json(?:\.gz)?")
"""Metadata files of catalogs that keep the pointer elsewhere: the name starts with the version's number."""


@dataclass(frozen=True)
class CatalogEntry:
    """The entry ``identifier`` of ``source``, for the table at ``location``."""

    source: ConfiguredCatalog
    identifier: Identifier
    location: str

    @classmethod
    def of(cls, source: ConfiguredCatalog, component: ComponentSettings) -> CatalogEntry:
        """Return the entry of a component's table. Sends no request to the catalog."""
        return cls(source, source.identifier_of(component), source.location_of(component))

    @property
    def name(self) -> str:
        """Dotted name, for messages and thread names."""
        return ".".join(self.identifier)

    @property
    def catalog(self) -> Catalog:
        """PyIceberg's catalog, opened if needed."""
        return self.source.catalog

    def load(self, *, to_commit: bool = False) -> Table | None:
        """Return the table at its newest version; None if there is none.

        With ``to_commit``, the look also serves the commit that follows, see
        :meth:`FileSystemCatalog.load_to_commit
        <metastore.lake.iceberg.catalogs.file_system_catalog.FileSystemCatalog>`.

        Raises StorageError when catalog or store fail, FormatError for an entry that is not an Iceberg table,
        ConfigError for a table of another metastore.
        """
        with self._lookup_errors():
            table = newest(self.source, self.identifier, to_commit=to_commit)
            if table is not None:
                self._check_place(table.metadata.location)
            return table

    @property
    def looks_ahead(self) -> bool:
        """Whether a look for the newest version pays for a thread, and may precede the commit that it serves."""
        return isinstance(self.catalog, FileSystemCatalog) and not is_local(self.location)

    def is_newest_known(self, table: Table) -> bool:
        """Whether this process knows no newer version than ``table``; False for catalogs that do not say."""
        return isinstance(self.catalog, FileSystemCatalog) and self.catalog.is_loaded(table)

    def traces(self) -> str | None:
        """Return a metadata file that a commit left in the table's folder; None if there is none.

        Also returns None for a catalog in memory: its tables end with their process. Raises StorageError when the store
        fails.
        """
        if self.source.settings.type == "in-memory":
            return None
        folder = f"{self.location}/metadata"
        store, _ = open_store(folder, self.source.store_properties)
        try:
            names = store.entries(folder).files
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"cannot look for table {self.name} in {folder}: {error}") from error
        written = max(filter(_is_written, names), default=None)
        return None if written is None else f"{folder}/{written}"

    def create(self, schema: Schema, spec: PartitionSpec, properties: Mapping[str, str]) -> Table:
        """Create the empty table in its namespace, or return the existing one if another process was faster."""
        with self._lookup_errors(), self.source.turn:
            self._make_namespace()
            try:
                return self.catalog.create_table(
                    self.identifier, schema, location=self.location, partition_spec=spec, properties=dict(properties)
                )
            except TableAlreadyExistsError:
                table = self.load()
                if table is None:
                    raise
                return table

    def commit(
        self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]
    ) -> CommitTableResponse:
        """Publish the next version.

        Certainly not committed: CommitFailedException for a lost race, StorageError for a refusal, InvalidRequestError
        for updates of which no valid metadata can be made. After any other error the outcome is unknown.
        """
        return publish(self.source, table, requirements, updates)

    def register(self, metadata_location: str) -> Table:
        """Create the entry for the table whose newest version is the file ``metadata_location``.

        Check the file with :meth:`require_fit` first: a catalog may create the entry before it reads the file. Raises
        StorageError, and InvalidRequestError if there already is an entry.
        """
        with self._lookup_errors(), self.source.turn:
            self._make_namespace()
            try:
                return self.catalog.register_table(self.identifier, metadata_location)
            except TableAlreadyExistsError as error:
                raise InvalidRequestError(f"{self.source} has a table {self.name} already") from error

    def require_fit(self, metadata_location: str) -> None:
        """Refuse a file that the entry cannot be created from.

        Raises FormatError if it is not table metadata, ConfigError if the table is at another location, StorageError if
        the file cannot be read with this catalog's configuration.
        """
        with self._lookup_errors():
            io = load_file_io(self.catalog.properties, metadata_location)
            metadata = read_metadata(io, metadata_location)
        self._check_place(metadata.location)

    def remove_old_metadata(self, table: Table) -> DeletionResult:
        """Delete metadata files of versions before that of ``table``, and of commits that lost a race before it.

        Only the committer of that version may call it.
        """
        if isinstance(self.catalog, FileSystemCatalog):
            return self.catalog.remove_old_metadata(table)
        folder, _, newest = table.metadata_location.rpartition("/")
        older = [name for name in self._metadata_files(table, folder) if _is_older(name, newest)]
        return discard(table.io, [f"{folder}/{name}" for name in older])

    def _metadata_files(self, table: Table, folder: str) -> Sequence[str]:
        """Return the metadata files in the folder or, if it cannot be listed, those that the table's log names."""
        with suppress(MetastoreError, OSError):
            store, _ = open_store(folder, self.source.store_properties)
            return sorted(store.entries(folder).files)
        return [entry.metadata_file.rpartition("/")[2] for entry in table.metadata.metadata_log]

    def _make_namespace(self) -> None:
        if self.source.settings.type == "filesystem":
            return
        for level in range(1, len(self.identifier)):
            self._make_level(self.identifier[:level])

    def _make_level(self, namespace: Identifier) -> None:
        if self.catalog.namespace_exists(namespace):
            return
        try:
            self.catalog.create_namespace(namespace)
        except Exception as error:
            # If another process creates it at the same moment, this call fails, differently for each catalog.
            if not of_a_catalog(error) or not self.catalog.namespace_exists(namespace):
                raise

    def _check_place(self, location: str) -> None:
        # A REST server may choose the location of tables.
        if self.source.settings.type != "rest" and _without_scheme(location) != _without_scheme(self.location):
            raise ConfigError(
                f"table {self.name} in {self.source} lies at {location}, not at {self.location}: it is of another "
                "metastore. Give each its own drill.metastore.iceberg.catalog.namespace"
            )

    @contextmanager
    def _lookup_errors(self) -> Iterator[None]:
        try:
            yield
        except MetastoreError:
            raise
        except Exception as error:
            if not of_a_catalog(error):
                raise
            raise StorageError(f"cannot look up table {self.name} in {self.source}: {error_text(error)}") from showable(
                error
            )


def newest(
    source: CatalogSource, identifier: Identifier, *, to_commit: bool = False, pointer: str | None = None
) -> Table | None:
    """Return any table of ``source`` at its newest version; None if there is none. ``to_commit`` as in the entry.

    ``pointer`` is a metadata file that was listed: the version that counts, while it is there.

    Raises FormatError for an entry that is not an Iceberg table, StorageError if its metadata file is missing, and the
    errors of the catalog's library.
    """
    given = iter((pointer,) if pointer else ())
    return looked_at_again(
        lambda: _look(source, identifier, next(given, None), to_commit=to_commit),
        f"the metadata of {'.'.join(identifier)} in {source}",
    )


def _look(source: CatalogSource, identifier: Identifier, pointer: str | None, *, to_commit: bool) -> Table | None:
    """The table at ``pointer``, else as the catalog says; None if there is none. FormatError names unknown types."""
    try:
        if pointer is not None:
            return _within_limits(source, _table_at(source.catalog, identifier, pointer))
        with source.turn:
            catalog = source.catalog
            if to_commit and isinstance(catalog, FileSystemCatalog):
                return _within_limits(source, catalog.load_to_commit(identifier))
            return _within_limits(source, catalog.load_table(identifier))
    except (NoSuchIcebergTableError, NoSuchPropertyException) as error:
        raise FormatError(f"{'.'.join(identifier)} in {source} is not an Iceberg table: {error}") from error
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    except (FormatError, *UNREADABLE) as error:
        if unknown := _unknown_types(source, identifier):
            columns = ", ".join(f"{column} of type {kind}" for column, kind in unknown.items())
            raise FormatError(
                f"{'.'.join(identifier)} in {source} cannot be read here: it has {columns}, which PyIceberg does not "
                "know. Read it with an engine that does; a newer release of PyIceberg may, too"
            ) from showable(error)
        if isinstance(error, FormatError):
            raise
        text = f"the entry of {source} for {'.'.join(identifier)} cannot be read as the metadata of an Iceberg table: "
        raise FormatError(f"{text}{error_text(error)}") from showable(error)


def _table_at(catalog: Catalog, identifier: Identifier, pointer: str) -> Table:
    metadata = table_metadata(file_io(catalog, pointer).new_input(pointer))
    io = load_file_io({**catalog.properties, **metadata.properties}, pointer)
    return Table(identifier, metadata, pointer, io, catalog)


def _within_limits(source: CatalogSource, table: Table) -> Table:
    """Return the table with the configured read limits: in PyIceberg, a table's own properties override them."""
    own = [name for name in table.metadata.properties if name.startswith(LIMIT_PROPERTY)]
    if own:
        kept = {name: value for name, value in table.io.properties.items() if name not in own}
        configured = {key: value for key, value in source.store_properties.items() if key.startswith(LIMIT_PROPERTY)}
        table.io = load_file_io({**kept, **configured}, table.metadata_location)
    return table


def _unknown_types(source: CatalogSource, identifier: Identifier) -> Mapping[str, str]:
    """Return columns with types that PyIceberg does not support; empty if types are not the problem."""
    try:
        document = newest_document(source, identifier)
        return unknown_types(document.content) if document else {}
    except Exception as error:
        if not of_a_catalog(error) and not isinstance(error, (MetastoreError, *UNREADABLE)):
            raise
        return {}


def publish(
    source: CatalogSource, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]
) -> CommitTableResponse:
    """Publish the next version of any table of ``source``. Raises the errors of :meth:`CatalogEntry.commit`."""
    is_new = any(isinstance(each, AssertCreate) for each in requirements)
    require_valid(".".join(table.name()), None if is_new else table.metadata, updates)
    try:
        with source.turn:
            return source.catalog.commit_table(table, tuple(requirements), tuple(updates))
    except MetastoreError:
        raise
    except Exception as error:
        if source.validates_here and not is_new and (fault := _cannot_be_made(table, updates, error)):
            raise InvalidRequestError(
                f"the commit to {'.'.join(table.name())} is refused: {fault}; nothing was changed"
            ) from showable(error)
        match fate_of_commit(error, validated_here=source.validates_here):
            case "lost" if isinstance(error, CommitFailedException):
                raise
            case "lost":
                raise CommitFailedException(f"{source} did not take the commit: {error_text(error)}") from showable(
                    error
                )
            case "refused":
                raise StorageError(
                    f"{source} refused the commit: {error_text(error)}; nothing was changed"
                ) from showable(error)
        if isinstance(error, CommitFailedException):
            raise OSError(errno.EIO, f"it is unknown whether {source} took the commit: {error_text(error)}") from error
        raise


def _cannot_be_made(table: Table, updates: Sequence[TableUpdate], error: Exception) -> str | None:
    """Return the text of ``error`` if it comes from the updates themselves, and not from what others committed."""
    try:
        apply_updates(table.metadata, tuple(updates), table.metadata_location)
    except Exception as fault:  # noqa: BLE001 - computed in memory: whatever fails here fails again
        if (type(fault), str(fault)) == (type(error), str(error)):
            return error_text(fault)
    return None


def _is_written(name: str) -> bool:
    """Whether a metadata file's name shows a commit; a failed creation leaves a file numbered 0."""
    found = _NUMBERED.fullmatch(name)
    return is_version_file(name) if found is None else int(found[1]) > 0


def _is_older(name: str, newest: str) -> bool:
    found, current = _NUMBERED.fullmatch(name), _NUMBERED.fullmatch(newest)
    return found is not None and current is not None and int(found[1]) < int(current[1])


def _without_scheme(location: str) -> str:
    return (local_path(location) if is_local(location) else location).rstrip("/")
