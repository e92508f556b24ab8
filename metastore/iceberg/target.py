"""One Iceberg table by its name, whoever's catalog it is in: loaded, and committed to.

Place in the flow: :mod:`metastore.catalogs` finds it by ``catalog.schema.table``; procedures work on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError
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
from metastore.iceberg.catalog_entry import newest, publish
from metastore.iceberg.catalog_errors import failures_of, of_a_catalog, said
from metastore.iceberg.catalogs import CatalogSource
from metastore.iceberg.metadata_document import MetadataDocument, newest_document, newest_pointer


@dataclass(frozen=True)
class TargetTable:
    """One Iceberg table by its name, whoever's catalog it is in; it need not exist yet. Shared by threads."""

    catalog_name: str
    schema_name: str
    name: str
    source: CatalogSource
    identifier: Identifier
    load_component: Callable[[], Table | None] | None = None
    """Loads the table of one of the metastore's own components; None for tables of others."""

    def __str__(self) -> str:
        """The name that SQL calls it by."""
        return f"{self.catalog_name}.{self.schema_name}.{self.name}"

    @property
    def is_component(self) -> bool:
        """Whether the metastore itself keeps its metadata in it."""
        return self.load_component is not None

    @property
    def validates_here(self) -> bool:
        """Whether requirements of our own kind may be used in a commit: this process checks them."""
        return self.source.validates_here

    def load(self) -> Table:
        """The table at its newest version.

        Raises NotFoundError when there is none, FormatError for what is no Iceberg table, StorageError when catalog or
        store fail.
        """
        if self.load_component is not None:
            table = self.load_component()
            if table is None:
                raise NotFoundError(f"{self} does not exist yet: nothing was written to this component")
            return table
        with failures_of(self.source, NoSuchNamespaceError):
            found = newest(self.source, self.identifier)
        if found is None:
            raise NotFoundError(f"table {self} does not exist")
        return found

    def newest_pointer(self) -> str | None:
        """Where the newest metadata file lies, which is not read; None when there is no table.

        Raises FormatError for an entry that names no metadata file, StorageError when the catalog fails.
        """
        with failures_of(self.source):
            return newest_pointer(self.source, self.identifier)

    def newest_document(self) -> MetadataDocument | None:
        """The JSON of the newest metadata, also of a table that this package cannot parse; None when there is no table.

        Raises FormatError for what is no metadata, StorageError when catalog or store fail.
        """
        with failures_of(self.source):
            return newest_document(self.source, self.identifier)

    def commit(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        """Publish the next version of the table that was loaded as ``table``; the table as it is then.

        CommitFailedException: surely lost to others, plan again on the fresh table. StorageError: surely refused,
        nothing was changed. OutcomeUnknownError: it may or may not have landed, so nothing of it may be deleted. An
        error of unknown outcome is settled here when the fresh metadata has the snapshot that was added, or the refs
        that were set.
        """
        try:
            response = publish(self.source, table, requirements, updates)
        except (CommitFailedException, MetastoreError):
            raise
        except Exception as error:
            if not of_a_catalog(error):
                raise
            landed = self._landed(updates)
            if landed is not None:
                return landed
            raise OutcomeUnknownError(
                f"the commit to {self} failed, and it is open whether it landed: {said(error)}. No file was removed. "
                "Look at the table's history before trying again"
            ) from error
        return Table(table.name(), response.metadata, response.metadata_location, table.io, self.source.opened)

    def _landed(self, updates: Sequence[TableUpdate]) -> Table | None:
        """The fresh table when it shows that the commit landed, or that all it was to do is done."""
        try:
            fresh = self.load()
        except MetastoreError:
            return None
        added = [update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)]
        if added:
            # Nobody else can have made them.
            return fresh if all(fresh.metadata.snapshot_by_id(each) for each in added) else None
        return fresh if all(_stands(update, fresh.metadata) for update in updates) else None


def _stands(update: TableUpdate, metadata: TableMetadata) -> bool:
    """Whether a ref is as ``update`` would make it; False for what is no update of a ref."""
    if isinstance(update, RemoveSnapshotRefUpdate):
        return update.ref_name not in metadata.refs
    if not isinstance(update, SetSnapshotRefUpdate):
        return False
    ref = metadata.refs.get(update.ref_name)
    return ref is not None and (ref.snapshot_id, ref.snapshot_ref_type) == (update.snapshot_id, update.type)
