"""The names that columns have in data files: sanitized for Avro, as every writer of Iceberg does it. Pure.

PyIceberg has the same function, but its fields lose their default values: rows of older files would get NULL instead.
"""

from __future__ import annotations

from pyiceberg.schema import Schema, make_compatible_name
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType


def stored_names(schema: Schema) -> Schema:
    """Return ``schema`` with the names of its columns in files; ids, types, documentation and defaults stay."""
    return Schema(*map(_field, schema.fields), schema_id=schema.schema_id)


def _field(field: NestedField) -> NestedField:
    return field.model_copy(update={"name": make_compatible_name(field.name), "field_type": _kind(field.field_type)})


def _kind(kind: IcebergType) -> IcebergType:
    match kind:
        case StructType():
            return StructType(*map(_field, kind.fields))
        case ListType():
            return ListType(kind.element_id, _kind(kind.element_type), kind.element_required)
        case MapType():
            return MapType(
                kind.key_id, _kind(kind.key_type), kind.value_id, _kind(kind.value_type), kind.value_required
            )
    return kind
