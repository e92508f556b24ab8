"""Variants and geometries on their way into another data file, or into a query: bytes. Pure.

Place in the flow: writers of rows read (:mod:`metastore.lake.iceberg.manifests.carried_files`) and write these columns
as structs of bytes, so that no value changes, and write the types' marks into the footers of new files
(:mod:`metastore.lake.formats.parquet.marked_footer`). SELECT gives DuckDB the same structs, which it reads as variants.
In Parquet a variant is a group ``metadata`` and ``value`` without field ids; here its parts have negative ids, which
Arrow does not store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from metastore.lake.formats.parquet.marked_footer import Mark, geography_mark, geometry_mark, variant_mark
from metastore.lake.iceberg.columns.readable_columns import require_writable_columns
from metastore.lake.iceberg.columns.type_spellings import VariantType
from metastore.model.tuple_schema import LOGICAL_TYPE, VARIANT

_PARTS: Final = ("metadata", "value")
_FIELD_ID: Final = b"PARQUET:field_id"


def carried_schema(table: str, schema: Schema) -> Schema:
    """Return ``schema`` with variants as structs of bytes, and geometries as bytes; the same object without them.

    Raises InvalidRequestError if it has a column whose values files cannot store.
    """
    require_writable_columns(table, schema)
    if not marks_of(schema):
        return schema
    return Schema(*(_field(field, _bytes) for field in schema.fields), schema_id=schema.schema_id)


def with_variant_parts(schema: Schema) -> Schema:
    """Return ``schema`` with variants as structs of bytes; the same object without them."""
    if not variant_ids(schema):
        return schema
    return Schema(*(_field(field, _parts) for field in schema.fields), schema_id=schema.schema_id)


def has_variant_parts(schema: Schema) -> bool:
    """Whether ``schema``, made by :func:`with_variant_parts`, has a variant."""
    return any(field_id < 0 for field_id in schema.field_ids)


def for_conditions(schema: Schema) -> Schema:
    """Return ``schema`` with variants as maps: as with those, no condition on what is inside can skip a file."""
    if not variant_ids(schema):
        return schema
    return Schema(*(_field(field, _map) for field in schema.fields), schema_id=schema.schema_id)


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of ``schema``, made by :func:`with_variant_parts`, whose variants are labelled."""
    if not has_variant_parts(schema):
        return schema_to_pyarrow(schema, include_field_ids=False)
    return pa.schema(map(_label_field, schema_to_pyarrow(schema)))


def _label_field(field: Any) -> Any:
    """Return a field without field ids, and with the label of variants."""
    kind, label = field.type, None
    if pa.types.is_struct(kind):
        parts = [kind.field(place) for place in range(kind.num_fields)]
        if parts and int((parts[0].metadata or {}).get(_FIELD_ID, b"0")) < 0:
            label = {LOGICAL_TYPE: VARIANT}
        kind = pa.struct(map(_label_field, parts))
    elif pa.types.is_map(kind):
        kind = pa.map_(_label_field(kind.key_field), _label_field(kind.item_field))
    elif pa.types.is_large_list(kind):
        kind = pa.large_list(_label_field(kind.value_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(_label_field(kind.value_field))
    return pa.field(field.name, kind, field.nullable, label)


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


def _parts(field_id: int, kind: IcebergType) -> IcebergType:
    """Return the type of a variant's parts; any other type stays."""
    if not isinstance(kind, VariantType):
        return kind
    parts = zip(part_ids(field_id), _PARTS, strict=True)
    return StructType(*(NestedField(part, name, BinaryType(), required=True) for part, name in parts))


def _bytes(field_id: int, kind: IcebergType) -> IcebergType:
    """Return what a file stores of a variant or geometry; any other type stays."""
    return BinaryType() if isinstance(kind, GeometryType | GeographyType) else _parts(field_id, kind)


def _map(field_id: int, kind: IcebergType) -> IcebergType:
    """Return a map instead of a variant; any other type stays."""
    if not isinstance(kind, VariantType):
        return kind
    key, value = part_ids(field_id)
    return MapType(key, StringType(), value, StringType())


def _field(field: NestedField, made: Callable[[int, IcebergType], IcebergType]) -> NestedField:
    return field.model_copy(update={"field_type": _kind(field.field_id, field.field_type, made)})


def _kind(field_id: int, kind: IcebergType, made: Callable[[int, IcebergType], IcebergType]) -> IcebergType:
    """Return ``kind`` with what ``made`` returns for each type in it without parts, by its field id."""
    match kind:
        case StructType():
            return StructType(*(_field(field, made) for field in kind.fields))
        case ListType():
            return ListType(kind.element_id, _kind(kind.element_id, kind.element_type, made), kind.element_required)
        case MapType():
            key, value = _kind(kind.key_id, kind.key_type, made), _kind(kind.value_id, kind.value_type, made)
            return MapType(kind.key_id, key, kind.value_id, value, kind.value_required)
    return made(field_id, kind)
