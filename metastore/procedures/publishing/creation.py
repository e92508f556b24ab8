"""Creates a published table together with its first snapshot, so that no reader finds it empty.

A catalog of type filesystem has no transactions, but its first version may have any content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.snapshots import Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddPartitionSpecUpdate, AddSchemaUpdate, AssertCreate, TableUpdate

from metastore.errors import OutcomeUnknownError
from metastore.lake.iceberg.catalogs.catalog_errors import failures_of, of_a_catalog
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.lake.iceberg.catalogs.iceberg_private import pending
from metastore.lake.iceberg.catalogs.next_metadata import apply_updates
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.snapshots.snapshot import NewSnapshot
from metastore.procedures.framework.model import CallContext


@dataclass(frozen=True)
class StagedTable:
    """A table that is about to be created by ``updates``."""

    table: Table
    updates: tuple[TableUpdate, ...]


def staged_table(
    context: CallContext, target: TargetTable, schema: Schema, spec: PartitionSpec, properties: Mapping[str, str]
) -> StagedTable:
    """Returns the table to create; its namespace is created. The ids of ``schema`` are kept.

    Raises CommitFailedException if there is a table of this name.
    """
    catalog = context.catalogs.open(target.catalog_name)
    if isinstance(catalog, FileSystemCatalog):
        place = catalog.location_of(target.identifier)
        bare = new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, place, dict(properties))
        return StagedTable(_with_ids(bare, schema, spec, target, catalog.io, catalog), ())
    try:
        with failures_of(target.source, TableAlreadyExistsError), target.source.turn:
            for level in range(1, len(target.identifier)):
                _make_namespace(target, target.identifier[:level])
            transaction = catalog.create_table_transaction(
                target.identifier, schema, partition_spec=spec, properties=dict(properties)
            )
    except TableAlreadyExistsError as error:
        raise CommitFailedException(str(error)) from error
    staged = transaction._table  # noqa: SLF001 - the transaction offers no other access to the table that it stages
    table = _with_ids(staged.metadata, schema, spec, target, staged.io, catalog)
    return StagedTable(table, tuple(_with_own_ids(each, schema, spec) for each in pending(transaction)[1]))


def commit_first(
    target: TargetTable, staged: StagedTable, new: NewSnapshot, manifests: Sequence[ManifestFile], summary: Summary
) -> None:
    """Create the table with its first snapshot. Raises CommitFailedException if another publisher was faster.

    OutcomeUnknownError: it may have been created.
    """
    updates, catalog = new.updates(manifests, summary), target.source.catalog
    if isinstance(catalog, FileSystemCatalog):
        metadata = apply_updates(staged.table.metadata, updates, "")
        try:
            with target.source.turn:
                catalog.create_from(target.identifier, metadata)
        except TableAlreadyExistsError as error:
            raise CommitFailedException(str(error)) from error
        except OSError as error:
            if target.find_landed(updates) is None:
                raise OutcomeUnknownError(
                    f"it is unknown whether {target} was created: {error}. No file was removed"
                ) from error
        return
    try:
        target.commit(staged.table, (AssertCreate(),), (*staged.updates, *updates))
    except OutcomeUnknownError as error:
        # The table was read before this error, and has another first snapshot.
        if isinstance(error.__cause__, TableAlreadyExistsError):
            raise CommitFailedException(str(error.__cause__)) from error
        raise


def _with_ids(
    metadata: TableMetadata, schema: Schema, spec: PartitionSpec, target: TargetTable, io: FileIO, catalog: Catalog
) -> Table:
    """Returns the staged table with our ids, where PyIceberg gave new ones."""
    own = {
        "schemas": [schema],
        "partition_specs": [spec],
        "last_column_id": schema.highest_field_id,
        "metadata_log": [],
    }
    return Table(target.identifier, metadata.model_copy(update=own), f"{metadata.location}/metadata/", io, catalog)


def _make_namespace(target: TargetTable, namespace: tuple[str, ...]) -> None:
    catalog = target.source.catalog
    if target.source.settings.type == "filesystem" or catalog.namespace_exists(namespace):
        return
    try:
        catalog.create_namespace(namespace)
    except Exception as error:
        # If another publisher makes it at the same moment, this call fails, differently for each catalog.
        if not of_a_catalog(error) or not catalog.namespace_exists(namespace):
            raise


def _with_own_ids(update: TableUpdate, schema: Schema, spec: PartitionSpec) -> TableUpdate:
    """Returns an update of the transaction with our ids, where PyIceberg gives new ones."""
    if isinstance(update, AddSchemaUpdate):
        return AddSchemaUpdate(schema_=schema)
    return AddPartitionSpecUpdate(spec=spec) if isinstance(update, AddPartitionSpecUpdate) else update
