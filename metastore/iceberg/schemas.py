"""Ids of Iceberg's reserved columns, and the schema that a partition spec refers to."""

from __future__ import annotations

from typing import Final

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

PATH_ID: Final = 2147483546
"""Field id of ``file_path`` in position delete files."""


def schema_of(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """Return a schema with all source columns of ``spec``: the current one, or the newest that still has them."""
    wanted = {field.source_id for field in spec.fields}
    schemas = [metadata.schema(), *sorted(metadata.schemas, key=lambda schema: -schema.schema_id)]
    return next((schema for schema in schemas if wanted <= schema.field_ids), metadata.schema())
