"""Ids of Iceberg's reserved columns, the schema that a partition spec refers to, and the parts of columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import ListType, MapType, NestedField, StructType

PATH_ID: Final = 2147483546
"""Field id of ``file_path`` in position delete files."""


def schema_of(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """Return a schema with all source columns of ``spec``: the current one, or the newest that still has them."""
    wanted = {field.source_id for field in spec.fields}
    schemas = [metadata.schema(), *sorted(metadata.schemas, key=lambda schema: -schema.schema_id)]
    return next((schema for schema in schemas if wanted <= schema.field_ids), metadata.schema())


def fields_inside(field: NestedField) -> tuple[NestedField, ...]:
    """Return the fields of a struct, or of the structs in a list or map, by Iceberg's names."""
    kind = field.field_type
    if isinstance(kind, StructType):
        return kind.fields
    if isinstance(kind, ListType):
        return (kind.element_field,)
    if isinstance(kind, MapType):
        return (kind.key_field, kind.value_field)
    return ()


def parts_of(fields: Iterable[NestedField]) -> Iterator[NestedField]:
    """Yield ``fields`` and all fields inside of them."""
    for field in fields:
        yield field
        yield from parts_of(fields_inside(field))
