"""Columns in DuckDB have the logical types of their files: UUID, JSON, VARIANT, INTERVAL, TIMETZ, GEOMETRY.

Place in the flow: :mod:`metastore.scan.arrow_types` marks the fields that Arrow scans hold as bytes, texts or times.
Each door to DuckDB converts them by what this module makes, also inside structs, lists and maps. DuckDB converts only
the columns that a query reads. A text of JSON and the bytes of a variant are labelled, not cast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from metastore.ground.quoting import double_quoted, text_constant
from metastore.lake.formats.variant_arrays import VARIANT_LABEL
from metastore.model.tuple_schema import IN_UTC, LOGICAL_TYPE, VARIANT
from metastore.predicates.literals import UUIDS


def all_columns(schema: pa.Schema, names: Sequence[str], *, shapes: bool = True) -> str:
    """Returns the select list for all columns of ``schema``, converted; ``names`` are their names in DuckDB.

    Without ``shapes``, geometries stay bytes: release 1 of DuckDB has no type for them.
    """
    replaced = [
        f"{made} AS {quoted}"
        for field, quoted in zip(schema, map(double_quoted, names), strict=True)
        if (made := _convert_value(field, quoted, 0, shapes=shapes)) != quoted
    ]
    return f"* REPLACE ({', '.join(replaced)})" if replaced else "*"


def with_json(schema: pa.Schema) -> pa.Schema:
    """Returns ``schema`` with the labels by which DuckDB knows JSON and variants; the arrays stay as they are."""
    return pa.schema(map(_label_json, schema))


def _label_json(field: pa.Field[Any]) -> pa.Field[Any]:
    if _logical(field) == "json" and pa.types.is_string(field.type):
        return field.with_metadata(_JSON)
    if _logical(field) == VARIANT:
        return field.with_metadata(VARIANT_LABEL)
    type_: Any = field.type
    if pa.types.is_struct(type_):
        return field.with_type(pa.struct(map(_label_json, type_.fields)))
    if pa.types.is_map(type_):
        return field.with_type(pa.map_(type_.key_field, _label_json(type_.item_field)))
    if pa.types.is_large_list(type_):
        return field.with_type(pa.large_list(_label_json(type_.value_field)))
    if pa.types.is_list(type_):
        return field.with_type(pa.list_(_label_json(type_.value_field)))
    return field


def _logical(field: pa.Field[Any]) -> str:
    return (field.metadata or {}).get(LOGICAL_TYPE.encode(), b"").decode()


def _convert_value(field: pa.Field[Any], value: str, depth: int, *, shapes: bool) -> str:
    """Returns the SQL for ``value``, an expression of the type of ``field``; ``value`` itself if nothing changes."""
    logical = _logical(field)
    if logical == VARIANT:
        return value
    if logical in _CONVERSIONS and (shapes or logical not in _SHAPES):
        return _CONVERSIONS[logical](value)
    type_: Any = field.type
    if pa.types.is_struct(type_):
        parts = {each.name: f"struct_extract({value}, {text_constant(each.name)})" for each in type_.fields}
        made = {each.name: _convert_value(each, parts[each.name], depth, shapes=shapes) for each in type_.fields}
        is_alike = made == parts or len({name.lower() for name in parts}) < type_.num_fields
        return value if is_alike else f"CASE WHEN {value} IS NOT NULL THEN {_struct(made)} END"
    item = f"_{depth}"
    if pa.types.is_map(type_):
        parts = {"key": f"{item}.key", "value": f"{item}.value"}
        fields = {"key": type_.key_field, "value": type_.item_field}
        made = {name: _convert_value(fields[name], parts[name], depth + 1, shapes=shapes) for name in parts}
        entries = f"list_transform(map_entries({value}), lambda {item}: {_struct(made)})"
        return value if made == parts else f"CASE WHEN {value} IS NOT NULL THEN map_from_entries({entries}) END"
    if pa.types.is_nested(type_):
        one = _convert_value(type_.field(0), item, depth + 1, shapes=shapes)
        return value if one == item else f"list_transform({value}, lambda {item}: {one})"
    return value


def _struct(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{text_constant(name)}: {value}" for name, value in values.items()) + "}"


def _interval(value: str) -> str:
    """Parquet's intervals are months, days and milliseconds, each as four bytes, the lowest first."""
    months, days, millis = (_number(value, first) for first in (0, 4, 8))
    return f"(to_months({months}) + to_days({days}) + to_milliseconds({millis}))"


def _number(value: str, first: int) -> str:
    digits = (f"substr(hex({value}), {2 * place + 1}, 2)" for place in reversed(range(first, first + 4)))
    return f"CAST('0x' || {' || '.join(digits)} AS INTEGER)"


_JSON: Final[dict[bytes | str, bytes | str]] = {"ARROW:extension:name": "arrow.json"}

_SHAPES: Final = ("geometry", "geography")

_CONVERSIONS: Final[Mapping[str, Callable[[str], str]]] = {
    UUIDS: lambda value: f"CAST({value} AS UUID)",
    "interval": _interval,
    # A plain cast would take the offset of the session's time zone.
    IN_UTC: lambda value: f"CAST(CAST({value} AS VARCHAR) || '+00' AS TIMETZ)",
    **dict.fromkeys(_SHAPES, lambda value: f"CAST({value} AS GEOMETRY)"),
}
