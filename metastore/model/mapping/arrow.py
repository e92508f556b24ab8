"""Makes Arrow schemas of units, with or without the field ids of Iceberg.

This module is separate from :mod:`metastore.model.mapping.schema` because tasks that make rows import it. It needs only
PyIceberg's schemas and types, which import in a fifth of the time of the rest.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, MapType, NestedField

from metastore.model.fields import ColumnType, Unit, columns_of, once_per_unit

_ARROW: dict[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.LONG: pa.int64(),
    ColumnType.INT: pa.int32(),
    # The names are those in files, so that rows are written without a copy.
    ColumnType.STRING_LIST: pa.list_(pa.field("element", pa.string())),
    ColumnType.STRING_MAP: pa.map_(pa.string(), pa.string()),
    ColumnType.FLOAT_MAP: pa.map_(pa.string(), pa.float32()),
}


def _arrow_field(name: str, type_: Any, iceberg: NestedField) -> pa.Field[Any]:
    def with_id(field: pa.Field[Any], field_id: int) -> pa.Field[Any]:
        return field.with_metadata({b"PARQUET:field_id": str(field_id).encode()})

    nested = iceberg.field_type
    if isinstance(nested, ListType):
        type_ = pa.list_(with_id(pa.field("element", type_.value_type), nested.element_id))
    elif isinstance(nested, MapType):
        key = with_id(pa.field("key", type_.key_type, nullable=False), nested.key_id)
        value = with_id(pa.field("value", type_.item_type), nested.value_id)
        type_ = pa.map_(key, value)
    return with_id(pa.field(name, type_), iceberg.field_id)


def arrow_schema(unit_type: type[Unit], iceberg: Schema) -> pa.Schema:
    """Returns the Arrow schema of a component's rows: all columns in on-disk order, with Iceberg's ids for Parquet.

    The ids come from ``iceberg``, the schema of the table.
    """
    return pa.schema([_arrow_field(c.name, _ARROW[c.type], iceberg.find_field(c.name)) for c in columns_of(unit_type)])


@once_per_unit
def plain_arrow_schema(unit_type: type[Unit]) -> pa.Schema:
    """Returns the Arrow schema of rows for callers: the same columns and types, without field ids."""
    return pa.schema([pa.field(c.name, _ARROW[c.type]) for c in columns_of(unit_type)])


@once_per_unit
def no_rows(unit_type: type[Unit]) -> pa.Table:
    """Returns the empty table of :func:`plain_arrow_schema`."""
    return plain_arrow_schema(unit_type).empty_table()
