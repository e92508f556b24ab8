"""Compares the rows of two doors, whatever their types.

Doors have types of their own: DuckDB's texts differ from Polars', and one of them returns a map as a list of structs.
So values are compared column by column, in the order of rows, as plain Python values with one form for equal values.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, time, timezone
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

_NAN: Final = "NaN"
_PARTS_OF_INTERVAL: Final = 3


def difference(expected: pa.Table, actual: pa.Table) -> str | None:
    """Returns the first difference of ``actual`` from ``expected`` as a short text, or None."""
    if expected.num_rows != actual.num_rows:
        return f"{actual.num_rows} rows instead of {expected.num_rows}"
    if expected.column_names != actual.column_names:
        return f"the columns {actual.column_names} instead of {expected.column_names}"
    for name, ours, theirs in zip(expected.column_names, expected.columns, actual.columns, strict=True):
        if ours.type == theirs.type and ours.equals(theirs):
            continue
        if _is_finer(ours.type, theirs.type):
            ours = pc.floor_temporal(ours, unit="microsecond")  # noqa: PLW2901 - what the other door can hold
        for row, (left, right) in enumerate(zip(plain_values(ours), plain_values(theirs), strict=True)):
            if left != right and _bytes_of(right) != left:
                return f"{right!r} instead of {left!r} in row {row} of column {name}"
    return None


def _bytes_of(value: Any) -> bytes | None:
    """Returns the bytes that Arrow has for a UUID or an interval of DuckDB; None for another value."""
    if isinstance(value, str):
        with suppress(ValueError):
            return UUID(value).bytes
    if isinstance(value, tuple) and len(value) == _PARTS_OF_INTERVAL and all(type(part) is int for part in value):
        months, days, nanos = value
        return struct.pack("<iii", months, days, nanos // 10**6)
    return None


def _is_finer(ours: Any, theirs: Any) -> bool:
    """Returns whether nanoseconds are compared with microseconds, which are Spark's finest unit."""
    both = pa.types.is_timestamp(ours) and pa.types.is_timestamp(theirs)
    return both and (ours.unit, theirs.unit) == ("ns", "us")


def plain_values(column: pa.ChunkedArray[Any]) -> list[Any]:
    """Returns the values of a column as plain Python values, with one form for equal values."""
    type_ = column.type
    if pa.types.is_timestamp(type_) or pa.types.is_time(type_) or pa.types.is_duration(type_):
        return _counts(column)
    return [_comparable(value) for value in column.to_pylist(maps_as_pydicts=None)]


def _counts(column: pa.ChunkedArray[Any]) -> list[Any]:
    """Returns times as nanoseconds in Python's integers, which also hold years outside of Python's range of dates."""
    unit = column.type.unit
    factor = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    width = pa.int32() if pa.types.is_time32(column.type) else pa.int64()
    counts = column.cast(width).cast(pa.int64()).to_pylist()
    return [None if count is None else count * factor for count in counts]


def _comparable(value: Any) -> Any:
    match value:
        case float():
            return _NAN if value != value else value + 0.0
        case Decimal():
            return value.normalize() if value.is_finite() else _NAN
        case datetime():
            return value if value.tzinfo is None else value.astimezone(timezone.utc)
        case time():
            return value.replace(tzinfo=None)
        case bytes() | bytearray():
            return bytes(value)
        case Mapping():
            return tuple(_comparable(each) for each in value.values())
        case list() | tuple():
            return tuple(_comparable(each) for each in value)
        case Sequence() if not isinstance(value, str):
            return tuple(_comparable(each) for each in value)
        case _:
            return value
