"""Schemas and partition specs that nothing in a table uses any more."""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import RemovePartitionSpecsUpdate, RemoveSchemasUpdate, TableUpdate

from metastore.iceberg.schemas import schema_of
from metastore.iceberg.sweep import MANIFESTS
from metastore.procedures.files.inventory import Inventory


def unused_metadata(kept: TableMetadata, inventory: Inventory) -> Iterator[TableUpdate]:
    """Updates that remove the specs of no manifest and the schemas of no snapshot of ``kept``, the current ones aside.

    A schema also stays for a spec in use that divides by columns since dropped. Old writers did not note the schema
    of a snapshot; where one is unknown, all schemas stay. Raises FormatError when a manifest list cannot be read.
    """
    listed = inventory.lists(kept.snapshots, must_stand=True).values()
    used_specs = {kept.default_spec_id, *(file.spec for file in listed if file.kind in MANIFESTS)}
    specs = [spec.spec_id for spec in kept.partition_specs if spec.spec_id not in used_specs]
    if specs:
        yield RemovePartitionSpecsUpdate(spec_ids=specs)
    used_schemas = {kept.current_schema_id, *(snapshot.schema_id for snapshot in kept.snapshots)}
    # Of a dropped column older schemas alone tell the type, without which no manifest of its spec can be written.
    used_schemas |= {schema_of(kept, spec).schema_id for spec in kept.partition_specs if spec.spec_id in used_specs}
    schemas = [schema.schema_id for schema in kept.schemas if schema.schema_id not in used_schemas]
    if schemas and None not in used_schemas:
        yield RemoveSchemasUpdate(schema_ids=schemas)
