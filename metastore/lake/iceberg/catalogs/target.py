"""One Iceberg table by its name, in any catalog: loaded, and committed to.

:mod:`metastore.components.catalogs` finds it by ``catalog.schema.table``; procedures work on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.typedef import Identifier

from metastore.errors import (
    MetastoreError,
    NotFoundError,
    OutcomeUnknownError,
)
from metastore.lake.iceberg.catalogs.catalog_entry import newest, publish
from metastore.lake.iceberg.catalogs.catalog_errors import error_text, failures_of, of_a_catalog
from metastore.lake.iceberg.catalogs.catalogs import CatalogSource
from metastore.lake.iceberg.catalogs.metadata_document import MetadataDocument, newest_document
from metastore.lake.iceberg.catalogs.pointers import Pointer, newest_pointer
from metastore.lake.stores.locations import require_folder_names


@dataclass(frozen=True)
class TargetTable:
    """One Iceberg table by its name, in any catalog; it need not exist yet. Threads may share it."""

    catalog_name: str
    schema_name: str
    name: str
    source: CatalogSource
    identifier: Identifier
    load_component: Callable[[], Table | None] | None = None
    """Loads the table of one of the metastore's components; None for other tables."""
    pointer: str | None = None
    """The metadata file to load, as a listing of the catalog gave it; None means that the catalog is asked."""

    def __str__(self) -> str:
        """Return the table's name in SQL."""
        return f"{self.catalog_name}.{self.schema_name}.{self.name}"

    @property
    def is_component(self) -> bool:
        """Whether it is the table of one of the metastore's components."""
        return self.load_component is not None

    def require_new_name(self) -> None:
        """Raise InvalidRequestError if schema or table cannot be made by this name: it could lead out of its folder."""
        require_folder_names(self.identifier)

    @property
    def validates_here(self) -> bool:
        """Whether a commit may use this package's own kinds of requirements: this process checks them."""
        return self.source.validates_here

    def load(self) -> Table:
        """Return the table at its newest version, or at :attr:`pointer` while that file is there.

        Raises NotFoundError if there is none, FormatError if it is not an Iceberg table, StorageError when catalog or
        store fail.
        """
        if self.load_component is not None:
            table = self.load_component()
            if table is None:
                raise NotFoundError(f"{self} does not exist yet: nothing was written to this component")
            return table
        with failures_of(self.source, NoSuchNamespaceError):
            found = newest(self.source, self.identifier, pointer=self.pointer)
        if found is None:
            raise self._missing
        return found

    def require_there(self) -> None:
        """Raise NotFoundError if there is no table, and the errors of :meth:`newest_pointer`."""
        if self.load_component is not None:
            self.load()
        elif self.newest_pointer() is None:
            raise self._missing

    @property
    def _missing(self) -> NotFoundError:
        return NotFoundError(f"table {self} does not exist")

    def newest_pointer(self) -> str | None:
        """Return the location of the newest metadata file without reading it; None if there is no table.

        Raises FormatError for an entry that names no metadata file, StorageError when the catalog fails.
        """
        found = self.newest_version()
        return found.location if found else None

    def newest_version(self, earlier: Pointer | None = None) -> Pointer | None:
        """As :meth:`newest_pointer`, with the file's identity; ``earlier`` is a previous answer: it saves requests."""
        with failures_of(self.source):
            return newest_pointer(self.source, self.identifier, earlier)

    def newest_document(self, pointer: Pointer | None = None) -> MetadataDocument | None:
        """Return the newest metadata as JSON, even if this package cannot parse the table; None if there is no table.

        ``pointer`` is where it is, as just listed, if that is known. Raises FormatError if it is not table metadata,
        StorageError when catalog or store fail.
        """
        with failures_of(self.source):
            return newest_document(self.source, self.identifier, pointer)

    def commit(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        """Publish the next version of the table that was loaded as ``table``; returns the new table.

        CommitFailedException: certainly a lost race; plan again on the newest table. StorageError: certainly refused,
        nothing was changed. OutcomeUnknownError: it may have landed, so none of its files may be deleted. Before that
        error is raised, the newest metadata is read: if it has the added snapshot, or the refs that were set, the
        commit succeeded.
        """
        try:
            response = publish(self.source, table, requirements, updates)
        except (CommitFailedException, MetastoreError):
            raise
        except Exception as error:
            if not of_a_catalog(error):
                raise
            landed = self.find_landed(updates)
            if landed is not None:
                return landed
            raise OutcomeUnknownError(
                f"the commit to {self} failed, and it is unknown whether it landed: {error_text(error)}. "
                "No file was removed. Look at the table's history before trying again"
            ) from error
        return Table(table.name(), response.metadata, response.metadata_location, table.io, self.source.catalog)

    def drop_entry(self) -> None:
        """Take the table out of its catalog; every file stays. Raises NotFoundError if it is not there any more.

        OutcomeUnknownError if the catalog's answer is lost.
        """
        with failures_of(self.source, changing=True), self.source.turn:
            try:
                self.source.catalog.drop_table(self.identifier)
            except NoSuchTableError as error:
                raise NotFoundError(f"table {self} does not exist any more") from error

    def find_landed(self, updates: Sequence[TableUpdate]) -> Table | None:
        """Return the newest table if it shows that the commit landed, or that all its updates are done."""
        try:
            fresh = self.load()
        except MetastoreError:
            return None
        added = [update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)]
        if added:
            # No other writer can have created them.
            return fresh if all(fresh.metadata.snapshot_by_id(each) for each in added) else None
        return fresh if all(_stands(update, fresh.metadata) for update in updates) else None


def _stands(update: TableUpdate, metadata: TableMetadata) -> bool:
    """Whether a ref already is as ``update`` sets it; False for other updates."""
    if isinstance(update, RemoveSnapshotRefUpdate):
        return update.ref_name not in metadata.refs
    if not isinstance(update, SetSnapshotRefUpdate):
        return False
    ref = metadata.refs.get(update.ref_name)
    return ref is not None and (ref.snapshot_id, ref.snapshot_ref_type) == (update.snapshot_id, update.type)
