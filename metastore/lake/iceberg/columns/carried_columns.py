"""Variants and geometries on their way into another data file: bytes that nobody looks into. Pure.

Place in the flow: writers of rows read (:mod:`metastore.lake.iceberg.manifests.carried_files`) and write these columns
as structs of bytes, so that no value changes, and write the types' marks into the footers of new files
(:mod:`metastore.lake.formats.parquet.marked_footer`). In Parquet a variant is a group ``metadata`` and ``value``
without field ids; here its parts have negative ids, which Arrow does not store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
)

from metastore.lake.formats.parquet.marked_footer import Mark, geography_mark, geometry_mark, variant_mark
from metastore.lake.iceberg.columns.readable_columns import require_writable_columns
from metastore.lake.iceberg.columns.type_spellings import VariantType

_PARTS: Final = ("metadata", "value")


def carried_schema(table: str, schema: Schema) -> Schema:
    """Return ``schema`` with variants as structs of bytes, and geometries as bytes; the same object without them.

    Raises InvalidRequestError if it has a column whose values files cannot store.
    """
    require_writable_columns(table, schema)
    if not marks_of(schema):
        return schema
    return Schema(*map(_field, schema.fields), schema_id=schema.schema_id)


def marks_of(schema: Schema) -> Mapping[int, Mark]:
    """Return the marks in Parquet of variants and geometries anywhere in ``schema``, by field id."""
    found: dict[int, Mark] = {}

    def visit(field_id: int, kind: IcebergType) -> None:
        if isinstance(kind, VariantType):
            found[field_id] = variant_mark()
        elif isinstance(kind, GeometryType):
            found[field_id] = geometry_mark(kind.crs)
        elif isinstance(kind, GeographyType):
            found[field_id] = geography_mark(kind.crs, kind.algorithm)
        elif isinstance(kind, StructType):
            for field in kind.fields:
                visit(field.field_id, field.field_type)
        elif isinstance(kind, ListType):
            visit(kind.element_id, kind.element_type)
        elif isinstance(kind, MapType):
            visit(kind.key_id, kind.key_type)
            visit(kind.value_id, kind.value_type)

    for field in schema.fields:
        visit(field.field_id, field.field_type)
    return found


def variant_ids(schema: Schema) -> frozenset[int]:
    """Return the field ids of variants anywhere in ``schema``."""
    return frozenset(field_id for field_id, mark in marks_of(schema).items() if mark == variant_mark())


def part_ids(field_id: int) -> tuple[int, int]:
    """Return the ids of ``metadata`` and ``value`` of the variant with ``field_id``."""
    return -2 * field_id, -2 * field_id - 1


def _field(field: NestedField) -> NestedField:
    return field.model_copy(update={"field_type": _kind(field.field_id, field.field_type)})


def _kind(field_id: int, kind: IcebergType) -> IcebergType:
    match kind:
        case VariantType():
            parts = zip(part_ids(field_id), _PARTS, strict=True)
            return StructType(*(NestedField(part, name, BinaryType(), required=True) for part, name in parts))
        case GeometryType() | GeographyType():
            return BinaryType()
        case StructType():
            return StructType(*map(_field, kind.fields))
        case ListType():
            return ListType(kind.element_id, _kind(kind.element_id, kind.element_type), kind.element_required)
        case MapType():
            key, value = _kind(kind.key_id, kind.key_type), _kind(kind.value_id, kind.value_type)
            return MapType(kind.key_id, key, kind.value_id, value, kind.value_required)
    return kind
