"""The columns of a table whose values can be read by scans: all but variants. Pure.

SQL reads variants of a catalog's tables, and writes them. For every other door there is one rule: a top-level column
whose type is a variant, or a struct that contains one, is left out of what is read, so ``*`` means the other columns.
Naming it is an error with its type. Geometries are not made: rows that are written anew keep theirs, and new rows have
NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.transforms import Transform
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    UnknownType,
)

from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.columns.type_spellings import VariantType


def columns_left_out(schema: Schema) -> Mapping[str, str]:
    """Return the names of the columns that cannot be read, each with its type in Iceberg's spelling."""
    return {field.name: str(field.field_type) for field in schema.fields if _has(field.field_type, (VariantType,))}


def readable_schema(schema: Schema) -> Schema:
    """Return ``schema`` without the columns that cannot be read; the same object if there are none."""
    left_out = columns_left_out(schema)
    if not left_out:
        return schema
    return Schema(*(field for field in schema.fields if field.name not in left_out), schema_id=schema.schema_id)


def reasons_of_columns_left_out(schema: Schema) -> Mapping[str, str]:
    """Return the columns that cannot be read, each with the reason for messages."""
    return {
        name: f"it is of type {kind}, whose values only SQL reads, by the table's name in its catalog (with DuckDB 2)"
        for name, kind in columns_left_out(schema).items()
    }


def require_readable_columns(schema: Schema) -> None:
    """Raise InvalidRequestError, which names column and type, if ``schema`` has a column that cannot be read."""
    for name, reason in reasons_of_columns_left_out(schema).items():
        raise InvalidRequestError(f"column {name} cannot be read: {reason}")


def require_writable_columns(table: str, schema: Schema) -> None:
    """Raise InvalidRequestError if new files of ``table`` could not store values of some column as its type wants.

    A column of unknown type is stored by leaving it out, which is possible for whole columns only. Variants and
    geometries can be carried from another file, see :func:`require_values_can_be_made`.
    """
    refused = [
        f"{field.name} of type {field.field_type}"
        for field in schema.fields
        if not isinstance(field.field_type, UnknownType) and _has(field.field_type, (UnknownType,))
    ]
    if refused:
        raise InvalidRequestError(
            f"rows of {table} cannot be written here: it has {', '.join(refused)}, which this package cannot store. "
            "Nothing was changed; use an engine that writes such columns, such as Spark"
        )
    if all(isinstance(field.field_type, UnknownType) for field in schema.fields):
        raise InvalidRequestError(f"rows of {table} cannot be written: it has no column of a known type")


def require_values_can_be_made(field: NestedField) -> None:
    """Raise InvalidRequestError if values of ``field`` are geometries, or contain some or a variant.

    A new row may have NULL there, and a row that is written anew keeps its value.
    """
    kind = field.field_type
    if not isinstance(kind, VariantType) and _has(kind, (VariantType, GeometryType, GeographyType)):
        raise InvalidRequestError(
            f"column {field.name} is of type {field.field_type}, whose values cannot be made here: leave the column "
            "out, give NULL, or use an engine that writes such values, such as Spark"
        )


def stored_schema(schema: Schema) -> Schema:
    """Return the columns of ``schema`` that data files store: all but those of unknown type, which are always NULL."""
    return Schema(*(field for field in schema.fields if not isinstance(field.field_type, UnknownType)))


def columns_with_ids(file: pa.Schema) -> pa.Schema:
    """Return the columns of a file's schema without variants: their columns have an id, and the parts inside have none.

    PyIceberg takes a file with such a part for one that has no ids at all.
    """
    return pa.schema([each for each in file if not _has_id(each) or _parts_have_ids(each.type)])


def _has_id(field: Any) -> bool:
    return _FIELD_ID in (field.metadata or {})


def _parts_have_ids(kind: Any) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _parts_have_ids(kind.storage_type)
    parts = [kind.field(position) for position in range(kind.num_fields)] if pa.types.is_struct(kind) else []
    if pa.types.is_map(kind):
        parts = [kind.key_field, kind.item_field]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        parts = [kind.value_field]
    return all(_has_id(part) and _parts_have_ids(part.type) for part in parts)


def can_partition(transform: Transform[Any, Any], kind: IcebergType) -> bool:
    """Whether values of ``kind`` can be partitioned by ``transform``; PyIceberg allows types that Iceberg forbids."""
    return not isinstance(kind, _NOT_WRITTEN) and transform.can_transform(kind)


_FIELD_ID: Final = b"PARQUET:field_id"
_NOT_WRITTEN: Final = (VariantType, GeometryType, GeographyType, UnknownType)


def _has(kind: IcebergType, types: tuple[type[IcebergType], ...]) -> bool:
    """Whether ``kind``, or a type inside of it, is one of ``types``."""
    if isinstance(kind, StructType):
        return any(_has(field.field_type, types) for field in kind.fields)
    if isinstance(kind, ListType):
        return _has(kind.element_type, types)
    if isinstance(kind, MapType):
        return _has(kind.key_type, types) or _has(kind.value_type, types)
    return isinstance(kind, types)
