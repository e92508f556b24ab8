"""Times in ORC files: checks that Arrow reads them unchanged, and converts them to microseconds.

Arrow's releases before 25 silently change some of them.

Place in the flow: every reader of ORC calls this module before it reads columns: ANALYZE and scans of directories, and
the row scan of Iceberg tables. ANALYZE and scans of directories truncate nanoseconds here, downwards, as Spark does.
This module imports little, since every task imports it.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from metastore.errors import EngineError
from metastore.lake.formats.map_arrays import map_array

_REFUSES_FAR_TIMES: Final = 25
"""The first release of Arrow that refuses ORC times out of its range; earlier releases let them wrap around."""


def require_safe_times(schema: pa.Schema, arrow_version: str) -> None:
    """Raises EngineError for ORC times if this release of Arrow changes those outside 1677 to 2262."""
    if int(arrow_version.partition(".")[0]) >= _REFUSES_FAR_TIMES:
        return
    for column in schema:
        if "timestamp" in str(column.type):
            raise EngineError(
                f"column {column.name} has times in ORC, and PyArrow {arrow_version} reads those before 1677 and after "
                f"2262 as other times: pip install 'pyarrow>={_REFUSES_FAR_TIMES}'"
            )


def type_in_microseconds(type_: Any) -> Any:
    """Returns ``type_`` with its times in microseconds, also within structs, lists and maps."""
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    if pa.types.is_struct(type_):
        inner = [type_.field(place) for place in range(type_.num_fields)]
        return pa.struct([field.with_type(type_in_microseconds(field.type)) for field in inner])
    if pa.types.is_map(type_):
        return pa.map_(type_in_microseconds(type_.key_type), type_in_microseconds(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(type_in_microseconds(type_.value_type)))
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
    listed: Any = pa.ListArray.from_arrays
    return listed(offsets, in_microseconds(values.values, type_.value_type), type_, mask=null)
