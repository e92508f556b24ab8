"""The partition fields of a table over all its specs, as one struct would have them."""

from __future__ import annotations

from pyiceberg.partitioning import PartitionField
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import UnknownTransform, VoidTransform
from pyiceberg.types import IcebergType, UnknownType


def partition_fields(metadata: TableMetadata) -> dict[int, tuple[str, IcebergType]]:
    """Return name and type of every partition field that the table has had, by id.

    Names are those of the newest spec. Of fields that share one, which a struct cannot have, older ones have their id
    behind it, as Iceberg itself calls them in tables of format 1. There a dropped field stays as one of nothing, and
    its type is that of the values it had.
    """
    current = metadata.default_spec_id
    specs = sorted(metadata.partition_specs, key=lambda spec: (spec.spec_id == current, spec.spec_id))
    names: dict[int, str] = {}
    types: dict[int, IcebergType] = {}
    for field in (field for spec in specs for field in spec.fields):
        names[field.field_id] = field.name
        if field.field_id not in types or not isinstance(field.transform, VoidTransform):
            types[field.field_id] = type_of(metadata, field)
    newest = {field.name.lower(): field.field_id for spec in specs for field in spec.fields}
    return {
        field_id: (name if newest[name.lower()] == field_id else f"{name}_{field_id}", types[field_id])
        for field_id, name in names.items()
    }


def type_of(metadata: TableMetadata, field: PartitionField) -> IcebergType:
    """Return the type of a partition field's values, by the newest schema that knows its source.

    It is the unknown type if no schema has the source, or if the transform is not known.
    """
    if isinstance(field.transform, UnknownTransform):
        return UnknownType()
    for schema in (metadata.schema(), *sorted(metadata.schemas, key=lambda each: -each.schema_id)):
        if field.source_id in schema.field_ids:
            return field.transform.result_type(schema.find_type(field.source_id))
    return UnknownType()
