"""Converts the schema in an Avro file's header to an Arrow schema, with Iceberg's column ids. Pure.

A union of null and one other type is that type. Iceberg's maps are arrays of pairs with the logical type ``map``.
Column ids are stored in each field's metadata under ``PARQUET:field_id``, where PyIceberg looks for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from metastore.errors import FormatError

PRIMITIVES: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_MOMENTS: Final = {"timestamp-millis": "ms", "timestamp-micros": "us", "timestamp-nanos": "ns"}
_CLOCKS: Final = {f"local-{name}": unit for name, unit in _MOMENTS.items()}


def arrow_schema_of(root: Any) -> pa.Schema:
    """Returns the Arrow schema of records of the Avro schema ``root`` (parsed JSON). All columns are nullable.

    Raises FormatError for unions that Iceberg does not support, for undefined and recursive types, and for rows that
    are not records.
    """
    try:
        type_ = _type(root, {})
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise FormatError(f"its header has no Avro schema: {error}") from error
    if not pa.types.is_struct(type_):
        raise FormatError("its rows are not records")
    return pa.schema([type_.field(index) for index in range(type_.num_fields)])


def _type(avro: Any, named: dict[str, pa.DataType]) -> Any:
    """The Arrow type of any schema. A type with a name is remembered in ``named``, with and without its namespace."""
    if isinstance(avro, str):
        found = named.get(avro) or PRIMITIVES.get(avro)
        if found is None:
            raise FormatError(f"its schema refers to {avro!r}, which is not defined")
        return found
    if isinstance(avro, list):
        others = [each for each in avro if each != "null"]
        if len(others) != 1:
            raise FormatError(f"its schema has the union {json.dumps(avro)}, which Iceberg has no counterpart for")
        return _type(others[0], named)
    type_ = _complex(avro, named)
    if "name" in avro:
        named[avro["name"]] = type_
        named[f"{avro.get('namespace', '')}.{avro['name']}"] = type_
    return type_


def _complex(avro: Mapping[str, Any], named: dict[str, pa.DataType]) -> Any:
    """The Arrow type of a schema in braces: by logical type if Iceberg has it, else by the plain one."""
    match avro.get("logicalType"), avro["type"]:
        case "decimal", "bytes" | "fixed":
            return pa.decimal128(avro["precision"], avro.get("scale", 0))
        case "date", "int":
            return pa.date32()
        case "time-micros", "long":
            return pa.time64("us")
        case str() as name, "long" if name in _MOMENTS:
            # Iceberg's writers mark a timestamp without zone by this property.
            return pa.timestamp(_MOMENTS[name], None if avro.get("adjust-to-utc") is False else "UTC")
        case str() as name, "long" if name in _CLOCKS:
            return pa.timestamp(_CLOCKS[name])
        case _, "record":
            return pa.struct(
                [_field(each["name"], each["type"], each.get("field-id"), named) for each in avro["fields"]]
            )
        case "map", "array":
            key, value = avro["items"]["fields"]
            return pa.map_(
                _field("key", key["type"], key.get("field-id"), named).with_nullable(False),
                _field("value", value["type"], value.get("field-id"), named),
            )
        case _, "array":
            return pa.list_(_field("element", avro["items"], avro.get("element-id"), named))
        case _, "map":
            return pa.map_(
                _field("key", "string", avro.get("key-id"), named).with_nullable(False),
                _field("value", avro["values"], avro.get("value-id"), named),
            )
        case _, "fixed":
            return pa.binary(avro["size"])
        case _, inner:
            return _type(inner, named)


def _field(name: str, avro: Any, own_id: int | None, named: dict[str, pa.DataType]) -> pa.Field[Any]:
    metadata = None if own_id is None else {"PARQUET:field_id": str(own_id)}
    return pa.field(name, _type(avro, named), metadata=metadata)
