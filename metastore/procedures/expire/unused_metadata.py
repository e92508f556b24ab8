"""Finds the schemas and partition specs that a table no longer uses."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import RemovePartitionSpecsUpdate, RemoveSchemasUpdate, TableUpdate

from metastore.iceberg.schemas import schema_of
from metastore.iceberg.sweep import MANIFESTS
from metastore.procedures.files.inventory import Inventory


def unused_metadata(kept: TableMetadata, inventory: Inventory) -> Iterator[TableUpdate]:
    """Yields updates that remove the specs without a manifest, and the schemas without a snapshot in ``kept``.

    The current ones stay. A schema also stays if a spec in use needs it for the type of a dropped column. Old writers
    did not record the schema of a snapshot; if that of any is unknown, all schemas stay. Raises FormatError if a
    manifest list cannot be read.
    """
    listed = inventory.lists(kept.snapshots, must_stand=True).values()
    used_specs = {kept.default_spec_id, *(file.spec for file in listed if file.kind in MANIFESTS)}
    specs = [spec.spec_id for spec in kept.partition_specs if spec.spec_id not in used_specs]
    if specs:
        yield RemovePartitionSpecsUpdate(spec_ids=specs)
    used_schemas = {kept.current_schema_id, *(snapshot.schema_id for snapshot in kept.snapshots)}
    # Only older schemas have the type of a dropped column, which is needed to write manifests of its spec.
    used_schemas |= {schema_of(kept, spec).schema_id for spec in kept.partition_specs if spec.spec_id in used_specs}
    schemas = [schema.schema_id for schema in kept.schemas if schema.schema_id not in used_schemas]
    if schemas and None not in used_schemas:
        yield RemoveSchemasUpdate(schema_ids=schemas)
