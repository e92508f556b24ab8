"""Fills required fields of structs that are NULL, because Arrow's Parquet writer takes no NULL in a required field.

An optional struct may have required fields. Where it is NULL, so are its fields in Arrow's arrays, and the writer
refuses them, though it stores none of them. Place in the flow: columns pass through here before they are written. A
NULL in a required field of a struct that is there stays, and the writer refuses it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.lake.formats.map_arrays import map_array


def has_required_parts(kind: Any) -> bool:
    """Whether values of ``kind`` contain structs with required fields."""
    if pa.types.is_struct(kind):
        return any(not field.nullable or has_required_parts(field.type) for field in kind)
    if pa.types.is_map(kind):
        return has_required_parts(kind.item_type)
    return (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and has_required_parts(kind.value_type)


def with_required_parts(array: Any) -> Any:
    """Return ``array`` with any value in required fields of structs that are NULL."""
    kind = array.type
    if not has_required_parts(kind):
        return array
    null = pc.is_null(array)
    if pa.types.is_struct(kind):
        parts = [_fill_required(array.field(place), field, null) for place, field in enumerate(kind)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=null)
    first, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
    offsets = pc.subtract(array.offsets, first)
    if pa.types.is_map(kind):
        items = with_required_parts(array.items.slice(first, end - first))
        return map_array(offsets, array.keys.slice(first, end - first), items, kind, null)
    values = with_required_parts(array.values.slice(first, end - first))
    lists: Any = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    return lists.from_arrays(offsets, values, type=kind, mask=null)


def _fill_required(part: Any, field: Any, null: Any) -> Any:
    """Return a field of a struct, which is ``null``, with a value in each of these rows if it is required."""
    if not field.nullable and part.null_count:
        valid = part.is_valid().to_numpy(zero_copy_only=False)
        places = np.arange(len(part))
        if (valid | null.to_numpy(zero_copy_only=False)).all():
            places[~valid] = len(part)
        part = pa.concat_arrays([part, _any_value(part.type)]).take(pa.array(places))
    return with_required_parts(part)


def _any_value(kind: Any) -> Any:
    """Return an array of one value that is not NULL, of any type."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _any_value(kind.storage_type))
    if pa.types.is_struct(kind):
        return pa.StructArray.from_arrays([_any_value(field.type) for field in kind], fields=list(kind))
    if pa.types.is_nested(kind):
        return pa.array([[]], kind)
    _, *content = pa.nulls(1, kind).buffers()
    return pa.Array.from_buffers(kind, 1, [None, *content])
