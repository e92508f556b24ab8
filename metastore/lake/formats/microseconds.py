"""Times in microseconds, rounded down as by Spark; Arrow's cast rounds toward 1970.

Place in the flow: readers of ORC, and scans for engines that know microseconds alone. This module imports little, since
every task imports it.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from metastore.lake.formats.map_arrays import map_array


def type_in_microseconds(type_: Any) -> Any:
    """Returns ``type_`` with its times in microseconds, also within structs, lists and maps."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if pa.types.is_struct(type_):
        inner = [type_.field(place) for place in range(type_.num_fields)]
        return pa.struct([field.with_type(type_in_microseconds(field.type)) for field in inner])
    if pa.types.is_map(type_):
        return pa.map_(type_in_microseconds(type_.key_type), type_in_microseconds(type_.item_type))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        listed = pa.large_list if pa.types.is_large_list(type_) else pa.list_
        return listed(type_.value_field.with_type(type_in_microseconds(type_.value_type)))
    return type_


def in_microseconds(values: Any, type_: Any) -> Any:
    """Returns an array in ``type_``, a result of :func:`type_in_microseconds`.

    Times are rounded down.
    """
    if values.type.equals(type_):
        return values
    if pa.types.is_timestamp(type_):
        return pc.floor_temporal(values, unit="microsecond").cast(type_)
    null = values.is_null() if values.null_count else None
    if pa.types.is_struct(type_):
        fields = [type_.field(place) for place in range(type_.num_fields)]
        parts = [in_microseconds(values.field(place), field.type) for place, field in enumerate(fields)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=null)
    # A copy: Arrow takes no mask beside a slice of offsets.
    offsets = values.offsets if null is None else pc.add(values.offsets, 0)
    if pa.types.is_map(type_):
        keys, items = (in_microseconds(values.keys, type_.key_type), in_microseconds(values.items, type_.item_type))
        return map_array(offsets, keys, items, type_, null)
    listed: Any = pa.LargeListArray if pa.types.is_large_list(type_) else pa.ListArray
    return listed.from_arrays(offsets, in_microseconds(values.values, type_.value_type), type_, mask=null)
