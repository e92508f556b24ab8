"""Brings the fields of structs to the order and spelling that a table has, by their names in any case.

Place in the flow: a DataFrame, and a query of INSERT … BY NAME, goes to a table's columns by name. So do the fields of
its structs, also within lists and maps, as in Spark's own writes by name. A struct that has other fields than the
table's, or two whose names differ in case alone, stays as it is: it does not fit, and is refused by its types.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Array = Any
"""An Arrow array or chunked array of any type."""


def type_by_name(own: Any, target: Any) -> Any:
    """Returns the type ``own`` with the order and spelling of the fields in ``target``."""
    return order_fields(pa.array([], own), target).type


def order_fields(values: Array, target: Any) -> Array:
    """Returns ``values`` with the fields of their structs in the order and spelling of ``target``; nulls stay null."""
    if isinstance(values, pa.ChunkedArray):
        kind = type_by_name(values.type, target)
        return (
            values if kind == values.type else pa.chunked_array([order_fields(x, target) for x in values.chunks], kind)
        )
    own, types = values.type, pa.types
    if types.is_struct(own) and types.is_struct(target):
        places = {field.name.lower(): place for place, field in enumerate(own)}
        names = [field.name.lower() for field in target]
        if len(places) != own.num_fields or sorted(places) != sorted(names):
            return values
        parts = [order_fields(values.field(places[name]), part.type) for name, part in zip(names, target, strict=True)]
        fields = [pa.field(part.name, made.type) for part, made in zip(target, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=values.is_null())
    if types.is_map(own) and types.is_map(target):
        offsets, rows = _rows(values)
        keys, items = order_fields(values.keys.slice(*rows), target.key_type), values.items.slice(*rows)
        return pa.MapArray.from_arrays(offsets, keys, order_fields(items, target.item_type), mask=values.is_null())
    if isinstance(values, (pa.ListArray, pa.LargeListArray)) and (types.is_list(target) or types.is_large_list(target)):
        offsets, rows = _rows(values)
        items = order_fields(values.values.slice(*rows), target.value_type)
        return type(values).from_arrays(offsets, items, mask=values.is_null())
    return values


def _rows(values: Array) -> tuple[Array, tuple[int, int]]:
    """Returns the offsets of lists or maps from 0 on, and the start and length of their part of the values."""
    offsets = values.offsets
    first, end = offsets[0].as_py(), offsets[-1].as_py()
    return pc.subtract(offsets, first), (first, end - first)
