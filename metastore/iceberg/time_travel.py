"""An Iceberg table as it is read at a version: its snapshot, and the schema that the read is by.

Iceberg's rule for schemas: a branch is read by the table's schema, a tag, a snapshot and a point in time by that of the
snapshot. Conditions are bound to the schema of the read, so that they mean the columns that the read shows, whatever
these are called now. Field ids bring both to the files.
"""

from __future__ import annotations

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType


def is_branch(metadata: TableMetadata, version: object) -> bool:
    """Whether ``version`` is the name of a branch."""
    reference = metadata.refs.get(version) if isinstance(version, str) else None
    return reference is not None and reference.snapshot_ref_type == SnapshotRefType.BRANCH


def table_at(table: Table, snapshot_id: int, *, by_its_own_schema: bool) -> Table:
    """``table`` as if ``snapshot_id`` were current, for reading; with its schema or with that of the snapshot."""
    metadata = table.metadata
    snapshot = metadata.snapshot_by_id(snapshot_id)
    schema_id = metadata.current_schema_id
    known = {schema.schema_id for schema in metadata.schemas}
    if not by_its_own_schema and snapshot is not None and snapshot.schema_id in known:
        schema_id = snapshot.schema_id
    then = metadata.model_copy(update={"current_snapshot_id": snapshot_id, "current_schema_id": schema_id})
    return Table(table.name(), then, table.metadata_location, table.io, table.catalog)
