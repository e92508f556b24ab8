"""Converts Arrow schemas to Drill's types and back: the types of columns, and the leaves that can have statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import pyarrow as pa

from metastore.errors import InvalidRequestError
from metastore.model.column_path import ColumnPath, is_among, quote
from metastore.model.drill_types import NO_TYPE, DrillType, StructField, minor_type, parse_type
from metastore.model.tuple_schema import LOGICAL_TYPE, TIME_ZONE, SchemaColumn, TupleSchema, property_name

ArrowField: TypeAlias = "pa.Field[Any]"

OPAQUE: Final = {b"metastore.opaque": b"1"}
"""Metadata of a field with values of several types. Drill sees it as text, and it has no statistics."""

WIDER: Final = b"metastore.wider"
"""Metadata of a field that is, or contains, a decimal wider than any of Arrow's; the value is the column's type."""

PLAIN_TYPES: Final[Mapping[pa.DataType, str]] = {
    pa.null(): NO_TYPE,
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.uint8(): "UINT1",
    pa.uint16(): "UINT2",
    pa.uint32(): "UINT4",
    pa.uint64(): "UINT8",
    pa.float16(): "FLOAT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.large_string(): "VARCHAR",
    pa.string_view(): "VARCHAR",
    pa.date32(): "DATE",
    pa.date64(): "DATE",
}
"""Drill's names of the Arrow types that have no parameters."""

ARROW_TYPES: Final[Mapping[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "UINT1": pa.uint8(),
    "UINT2": pa.uint16(),
    "UINT4": pa.uint32(),
    "UINT8": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    NO_TYPE: pa.null(),
}
"""The Arrow types of Drill's types without parameters; times have no zone, and microseconds as unit."""


_DIGITS_OF_128_BITS: Final = 38


@dataclass(frozen=True)
class ArrowLeaf:
    """One column, or field of structs, that can have statistics."""

    path: ColumnPath
    type: str
    zoned: bool = False
    opaque: bool = False

    @cached_property
    def key(self) -> str:
        """The column's name in ``columnsStatistics``."""
        return quote(self.path)


def tuple_schema(schema: pa.Schema) -> tuple[TupleSchema, list[ArrowLeaf]]:
    """Returns the columns of ``schema`` in Drill's types, and those leaves that are in no list or map."""
    leaves: list[ArrowLeaf] = []
    columns = []
    for field in schema:
        properties: dict[str, str] = {}
        type_ = _drill_type(field, (field.name,), properties, leaves)
        columns.append(SchemaColumn(field.name, str(type_), not field.nullable, properties))
    return TupleSchema(tuple(columns)), leaves


def _drill_type(
    field: ArrowField, path: ColumnPath, properties: dict[str, str], leaves: list[ArrowLeaf] | None
) -> DrillType:
    """Drill's type of ``field``. Adds its ``properties``, and to ``leaves`` what can have statistics."""
    arrow = field.type
    if isinstance(arrow, pa.BaseExtensionType):
        arrow = arrow.storage_type
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    if pa.types.is_struct(arrow) and not is_opaque(field):
        inner = [arrow.field(index) for index in range(arrow.num_fields)]
        return DrillType(
            "STRUCT",
            fields=tuple(
                StructField(f.name, _drill_type(f, (*path, f.name), properties, leaves), not f.nullable) for f in inner
            ),
        )
    if pa.types.is_map(arrow):
        parts = [pa.field("key", arrow.key_type), pa.field("value", arrow.item_type)]
        return DrillType("MAP", parts=tuple(_drill_type(part, path, {}, None) for part in parts))
    if pa.types.is_nested(arrow) and not is_opaque(field):
        return DrillType("ARRAY", parts=(_drill_type(arrow.field(0), path, {}, None),))
    return _leaf_type(field, arrow, path, properties, leaves)


def _leaf_type(
    field: ArrowField, arrow: pa.DataType, path: ColumnPath, properties: dict[str, str], leaves: list[ArrowLeaf] | None
) -> DrillType:
    text = "VARCHAR" if is_opaque(field) else _leaf_name(arrow)
    zoned = pa.types.is_timestamp(arrow) and arrow.tz is not None
    if zoned:
        properties[property_name(TIME_ZONE, path)] = "UTC"
    logical = b"uuid" if field.type == pa.uuid() else (field.metadata or {}).get(LOGICAL_TYPE.encode())
    if logical:
        properties[property_name(LOGICAL_TYPE, path)] = logical.decode()
    if leaves is not None:
        leaves.append(ArrowLeaf(path, minor_type(text), zoned, is_opaque(field)))
    return parse_type(text)


def _leaf_name(arrow: pa.DataType) -> str:
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision}, {arrow.scale})"
    if pa.types.is_timestamp(arrow):
        return "TIMESTAMP"
    if pa.types.is_time(arrow):
        return "TIME"
    return PLAIN_TYPES.get(arrow, "VARBINARY")


def is_opaque(field: ArrowField) -> bool:
    """Whether the column of ``field`` is marked :data:`OPAQUE`."""
    return OPAQUE.items() <= (field.metadata or {}).items()


def rows_without_columns(rows: int) -> pa.RecordBatch:
    """Returns a batch of ``rows`` rows without columns; Arrow's own batch without columns has no rows."""
    nothing: Any = pa.array([{}] * rows, pa.struct([]))
    return pa.RecordBatch.from_struct_array(nothing)


def arrow_schema(schema: TupleSchema) -> pa.Schema:
    """Returns the Arrow schema in which values of ``schema`` are read.

    Raises InvalidRequestError for an unknown type.
    """
    return pa.schema(
        [
            pa.field(
                column.name,
                _arrow_type(parse_type(column.type), zoned=column.properties.get(TIME_ZONE) is not None),
                nullable=not column.required,
            )
            for column in schema.columns
        ]
    )


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """The narrower of Arrow's decimals that holds the digits; they are cut at 76."""
    if precision <= _DIGITS_OF_128_BITS:
        return pa.decimal128(precision, scale)
    return pa.decimal256(min(precision, 2 * _DIGITS_OF_128_BITS), scale)


def _arrow_type(type_: DrillType, *, zoned: bool = False) -> pa.DataType:
    """The Arrow type of a declared type; ``zoned`` times are in UTC."""
    if type_.name == "STRUCT":
        return pa.struct([pa.field(f.name, _arrow_type(f.type), nullable=not f.required) for f in type_.fields])
    if type_.name == "ARRAY":
        return pa.list_(_arrow_type(type_.parts[0]))
    if type_.name == "MAP":
        return pa.map_(_arrow_type(type_.parts[0]), _arrow_type(type_.parts[1]))
    if type_.name == "DECIMAL":
        return decimal_type(*type_.precision_and_scale)
    if zoned:
        return pa.timestamp("us", "UTC")
    found = ARROW_TYPES.get(type_.name)
    if found is None:
        raise InvalidRequestError(f"{type_} is no column type that can be declared; there are {', '.join(ARROW_TYPES)}")
    return found


def choose_leaves(leaves: Sequence[ArrowLeaf], columns: Sequence[ColumnPath] | None) -> list[ArrowLeaf]:
    """Returns the ``leaves`` that ``columns`` name or enclose; all of them for None."""
    return [leaf for leaf in leaves if columns is None or is_among(leaf.path, columns)]


def require_held(schema: pa.Schema, reader: str = "Arrow", digits: int = 2 * _DIGITS_OF_128_BITS) -> None:
    """Raises InvalidRequestError if a column is, or contains, a decimal that is wider than any of Arrow's."""
    for field in schema:
        if (type_ := (field.metadata or {}).get(WIDER)) is not None:
            raise InvalidRequestError(
                f"column {field.name!r} is of type {type_.decode()}, {reader} holds {digits} digits: "
                "select the other columns"
            )


def require_narrow_decimals(schema: pa.Schema, reader: str) -> None:
    """Raises InvalidRequestError if a column is, or contains, a decimal with too many digits for engine ``reader``."""
    require_held(schema, reader, _DIGITS_OF_128_BITS)
    for field in schema:
        if (found := _wide_decimal(field.type)) is not None:
            raise InvalidRequestError(
                f"column {field.name!r} has DECIMAL({found.precision}, {found.scale}), {reader} holds "
                f"{_DIGITS_OF_128_BITS} digits: select the other columns, or take this one as Arrow"
            )


def _wide_decimal(type_: Any) -> Any:
    if pa.types.is_decimal256(type_):
        return type_ if type_.precision > _DIGITS_OF_128_BITS else None
    inner = (_wide_decimal(type_.field(index).type) for index in range(type_.num_fields))
    return next((each for each in inner if each is not None), None)
