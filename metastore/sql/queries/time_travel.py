"""Reads an Iceberg table at a version: its snapshot, and the schema of the read.

Iceberg's rule: a branch is read with the table's schema; a tag, a snapshot and a point in time with the snapshot's
schema. Conditions are bound to the schema of the read, so they refer to the columns as the read shows them, whatever
they are called now. Field ids connect both to the files.
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
    """Return ``table`` as if ``snapshot_id`` were current, for reading, with its schema or the snapshot's."""
    metadata = table.metadata
    snapshot = metadata.snapshot_by_id(snapshot_id)
    schema_id = metadata.current_schema_id
    known = {schema.schema_id for schema in metadata.schemas}
    if not by_its_own_schema and snapshot is not None and snapshot.schema_id in known:
        schema_id = snapshot.schema_id
    then = metadata.model_copy(update={"current_snapshot_id": snapshot_id, "current_schema_id": schema_id})
    return Table(table.name(), then, table.metadata_location, table.io, table.catalog)
