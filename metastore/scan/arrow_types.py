"""A table's schema as an Arrow schema: every scan returns it, whatever schema single files have."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from metastore.errors import FormatError
from metastore.lake.formats.arrow_schema import ARROW_TYPES, WIDER, decimal_type
from metastore.model.column_path import ColumnPath
from metastore.model.drill_types import DrillType, parse_type
from metastore.model.elements import ELEMENT, KEY, VALUE
from metastore.model.tuple_schema import IN_NANOSECONDS, LOGICAL_TYPE, TIME_ZONE, SchemaColumn, TupleSchema

_DIGITS: Final = 38
"""Precision of Arrow's 128-bit decimals; 256-bit decimals hold twice as many digits."""

_OF_MORE_KINDS: Final = frozenset({"VARBINARY", "VARCHAR", "TIME"})
"""Types whose values have other meanings by their logical type, as UUIDs are bytes."""


def arrow_schema(schema: TupleSchema) -> pa.Schema:
    """Return the columns of ``schema`` in order, all nullable. FormatError for a type that Arrow does not have.

    A column of decimals that are too wide for Arrow gets Arrow's widest type; its reader refuses it.
    """
    return pa.schema([_field(column) for column in schema.columns])


def _field(column: SchemaColumn) -> pa.Field[Any]:
    field: pa.Field[Any] = _part(column.name, parse_type(column.type), column, (column.name,))
    is_wider = _most_digits(parse_type(column.type)) > 2 * _DIGITS
    return field.with_metadata({WIDER: column.type}) if is_wider else field


def _part(name: str, type_: DrillType, column: SchemaColumn, path: ColumnPath, *, nullable: bool = True) -> Any:
    """A column or a part of one; its metadata has the logical type that its Arrow type lacks."""
    logical = column.leaf_property(LOGICAL_TYPE, path) if type_.name in _OF_MORE_KINDS else None
    return pa.field(name, _type(type_, column, path), nullable, {LOGICAL_TYPE: logical} if logical else None)


def _most_digits(type_: DrillType) -> int:
    """Return the digits of the widest decimal in a type; 0 if there is none."""
    own = type_.arguments[0] if type_.name == "DECIMAL" and type_.arguments else 0
    return max([own, *map(_most_digits, type_.parts), *(_most_digits(each.type) for each in type_.fields)])


def arrow_type(column: SchemaColumn) -> pa.DataType:
    """The Arrow type of one top-level column."""
    return _type(parse_type(column.type), column, (column.name,))


def _type(type_: DrillType, column: SchemaColumn, path: ColumnPath) -> pa.DataType:
    """The Arrow type of a part of ``column``, by its stored properties too; FormatError if none reads it."""
    name = type_.name
    # INT96 could hold nanoseconds, but Arrow's cover only 1677 to 2262, and engines write INT96 times of any year.
    unit: Any = "ns" if column.leaf_property(LOGICAL_TYPE, path) in IN_NANOSECONDS else "us"
    if name == "TIMESTAMP":
        return pa.timestamp(unit, column.leaf_property(TIME_ZONE, path))
    if name == "TIME":
        return pa.time64(unit)
    if name in ARROW_TYPES:
        return ARROW_TYPES[name]
    if name == "DECIMAL":
        return decimal_type(*type_.precision_and_scale)
    if name == "STRUCT":
        return pa.struct([_part(f.name, f.type, column, (*path, f.name)) for f in type_.fields])
    if name == "ARRAY" and len(type_.parts) == 1:
        return pa.list_(_part("item", type_.parts[0], column, (*path, ELEMENT)))
    if name == "MAP" and len(type_.parts) == 2:
        key, value = type_.parts
        keys = _part("key", key, column, (*path, KEY), nullable=False)
        return pa.map_(keys, _part("value", value, column, (*path, VALUE)))
    raise FormatError(f"column {column.name!r} is of type {column.type}, which cannot be read")


def has_floats(field: pa.Field[Any]) -> bool:
    """Whether a column, or a part of it, has floats; the bounds of a row group ignore NaN."""
    inner = (field.type.field(index) for index in range(field.type.num_fields))
    return pa.types.is_floating(field.type) or any(map(has_floats, inner))


def has_nanoseconds(type_: Any) -> bool:
    """Whether a type, or a part of it, is a timestamp in nanoseconds."""
    inner = (type_.field(index).type for index in range(type_.num_fields))
    return (pa.types.is_timestamp(type_) and type_.unit == "ns") or any(map(has_nanoseconds, inner))
