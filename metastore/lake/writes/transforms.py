"""Partition and sort transforms over Arrow columns.

PyIceberg's own need a compiled library that may not be installed. Here, Arrow computes times and numbers. For the other
transforms, PyIceberg's transform of single values is called once for each distinct value.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import IcebergType

from metastore.errors import InvalidRequestError

_compute: Any = pc
"""Arrow's functions, untyped because the stubs lack some of their arguments."""

_HOUR_US: Final = 3_600_000_000
_DAY_US: Final = 24 * _HOUR_US
_EPOCH_YEAR: Final = 1970

Column = Any
"""An Arrow array or chunked array of any type."""


def column(schema: Schema, field_id: int, rows: pa.RecordBatch | pa.Table) -> Column:
    """Returns the column ``field_id``, or the field of a struct, of rows with the columns of ``schema``."""
    position, *inner = _path(schema, field_id)
    values: Column = rows.column(position)
    return pc.struct_field(values, inner) if inner else values


def apply_transform(transform: Transform[Any, Any], source: IcebergType, values: Column) -> Column:
    """Returns ``transform`` applied to ``values``; nulls stay null.

    Raises InvalidRequestError for a number that its type cannot hold when it is truncated.
    """
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.cast(values.type.storage_type)
    match transform:
        case IdentityTransform():
            return values
        case VoidTransform():
            return pa.nulls(len(values), values.type)
        case HourTransform():
            return _floor_to_unit(values, _HOUR_US)
        case DayTransform():
            return values.cast(pa.int32()) if pa.types.is_date(values.type) else _floor_to_unit(values, _DAY_US)
        case MonthTransform():
            return _compute.add(_compute.multiply(_years(values), 12), _compute.subtract(pc.month(values), 1)).cast(
                pa.int32()
            )
        case YearTransform():
            return _years(values).cast(pa.int32())
    # Hash or truncate each distinct value once, however many rows have it.
    encoded = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    encoded = encoded.dictionary_encode()
    apply, own = transform.transform(source), _transform_values(encoded.dictionary)
    try:
        made = pa.array(map(apply, own), pa.int32() if isinstance(transform, BucketTransform) else values.type)
    except (pa.ArrowException, OverflowError) as error:
        raise InvalidRequestError(f"{transform} of {min(own)} is below the smallest {source}: {error}") from error
    return made.take(encoded.indices)


def _floor_to_unit(values: Column, unit: int) -> Column:
    micros = values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.int64())
    # Arrow divides towards zero, but times before 1970 belong to the unit that began before them.
    whole = _compute.divide(micros, unit)
    below = _compute.less(_compute.subtract(micros, _compute.multiply(whole, unit)), 0)
    return _compute.subtract(whole, below.cast(pa.int64())).cast(pa.int32())


def _years(values: Column) -> Column:
    return _compute.subtract(pc.year(values), _EPOCH_YEAR)


def _transform_values(values: Column) -> list[Any]:
    """Returns Python values as PyIceberg's transforms take them: times as integers, which are cheaper than objects."""
    if pa.types.is_date32(values.type):
        return list(values.cast(pa.int32()).to_pylist())
    if pa.types.is_timestamp(values.type) or pa.types.is_time64(values.type):
        return list(values.cast(pa.int64()).to_pylist())
    return list(values.to_pylist())


def _path(schema: Schema, field_id: int) -> list[int]:
    """Returns the positions that lead to the field, from the top level down."""

    def search(fields: Any) -> list[int] | None:
        for position, field in enumerate(fields):
            if field.field_id == field_id:
                return [position]
            below = search(getattr(field.field_type, "fields", ()))
            if below is not None:
                return [position, *below]
        return None

    found = search(schema.fields)
    assert found is not None, f"no field {field_id}"
    return found
