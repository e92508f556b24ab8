"""Exact statistics of the values of Arrow columns, for formats without usable footers (ORC, Avro, text).

The readers of these formats return Arrow batches; the statistics that Parquet has in footers are computed here from the
data. Promises: bounds and counts are exact, or unknown if Drill's types cannot represent a value. Times finer than
microseconds are rounded outwards.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, get_args

import pyarrow as pa
import pyarrow.compute as pc

from metastore.ground.epoch import EPOCH
from metastore.lake.formats.arrow_schema import PLAIN_TYPES, ArrowLeaf
from metastore.model.column_path import ColumnPath
from metastore.model.sketches.hashing import ArrowValues
from metastore.model.statistics import ColumnStatistics, Value, merge
from metastore.model.statistics_json import from_micros


def leaf_array(batch: pa.RecordBatch, path: ColumnPath) -> ArrowValues:
    """Returns the values at ``path``; null if a struct around a value is null or was not read."""
    array: ArrowValues = batch.column(path[0])
    for name in path[1:]:
        index = array.type.get_field_index(name) if pa.types.is_struct(array.type) else -1
        array = array.flatten()[index] if index >= 0 else pa.nulls(len(array))
    return array.storage if isinstance(array, pa.ExtensionArray) else array


class LeafMeasure:
    """Gathers exact statistics of one leaf, batch by batch."""

    def __init__(self, leaf: ArrowLeaf) -> None:
        self.leaf = leaf
        self._parts: list[ColumnStatistics] = [ColumnStatistics(leaf.type, nulls=0, non_nulls=0, rows=0)]

    def add(self, values: ArrowValues | None, rows: int) -> None:
        """Add ``rows`` rows; an opaque leaf has no values."""
        if values is None:
            self._parts.append(ColumnStatistics(self.leaf.type, rows=rows))
        else:
            self._parts.append(_measure_values(values, self.leaf))
        if len(self._parts) > _MERGE_AT:
            self._parts = [merge(self._parts)]

    def statistics(self) -> ColumnStatistics:
        """Returns the statistics of all rows so far; the row count is omitted if nulls and values determine it."""
        merged = merge(self._parts)
        rows = None if merged.nulls is not None and merged.non_nulls is not None else merged.rows
        return ColumnStatistics(
            self.leaf.type,
            merged.min,
            merged.max,
            merged.min_exact,
            merged.max_exact,
            merged.nulls,
            merged.non_nulls,
            rows,
            merged.nans,
        )


_MERGE_AT: Final = 64

_ZONES_APART: Final = timedelta(hours=26)
"""The difference between the westernmost and the easternmost zone."""

_SECOND: Final = timedelta(seconds=1)


def as_orc_means(statistics: ColumnStatistics, leaf: ArrowLeaf) -> ColumnStatistics:
    """Returns the statistics of ORC times that hold for every reader.

    A time without a zone is read as the writer's local time or, as in Spark, as an instant by the zones of writer and
    reader, which may be any two zones. Libraries read fractions of seconds before 1970 differently: they differ by one
    second there, up to the first second after 1970 began.
    """
    if leaf.type != "TIMESTAMP":
        return statistics

    def move_bound(bound: Value | None, side: int) -> Value | None:
        if not isinstance(bound, datetime):
            return None
        if not leaf.zoned:
            margin = _ZONES_APART
        else:
            margin = _SECOND if bound.replace(tzinfo=None) < EPOCH + _SECOND else timedelta()
        try:
            return bound + side * margin
        except OverflowError:
            return None

    low, high = move_bound(statistics.min, -1), move_bound(statistics.max, 1)
    exact = (statistics.min_exact and low == statistics.min, statistics.max_exact and high == statistics.max)
    return replace(statistics, min=low, max=high, min_exact=low is None or exact[0], max_exact=high is None or exact[1])


def _measure_values(values: ArrowValues, leaf: ArrowLeaf) -> ColumnStatistics:
    nulls = values.null_count
    present = len(values) - nulls
    nans = None
    if pa.types.is_floating(values.type):
        values = values.cast(pa.float64() if leaf.type == "FLOAT8" else pa.float32())
        nan: ArrowValues = pc.is_nan(values)
        nans = int(pc.sum(nan).as_py() or 0)
        if nans:
            values = values.filter(pc.invert(nan))
    low, high = _bounds(values, leaf) if present != (nans or 0) else (_NONE, _NONE)
    return ColumnStatistics(leaf.type, low[0], high[0], low[1], high[1], nulls, present, None, nans)


_Bound = tuple[Value | None, bool]
_NONE: Final[_Bound] = (None, True)


def _bounds(values: ArrowValues, leaf: ArrowLeaf) -> tuple[_Bound, _Bound]:
    type_ = values.type
    if pa.types.is_timestamp(type_) or pa.types.is_time(type_):
        counts: ArrowValues = pc.cast(values.cast(pa.int32()) if pa.types.is_time32(type_) else values, pa.int64())
        low, high = (bound.as_py() for bound in _min_max(counts))
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[type_.unit]
        return _moment(low, per_second, leaf, 1), _moment(high, per_second, leaf, -1)
    if pa.types.is_fixed_size_binary(type_):
        values = values.cast(pa.binary())
    elif not _has_bounds(type_):
        return _NONE, _NONE
    low_value, high_value = _min_max(values)
    return _value(low_value), _value(high_value)


def _min_max(values: ArrowValues) -> tuple[Any, Any]:
    found: Any = pc.min_max(values)
    return found["min"], found["max"]


def _has_bounds(type_: pa.DataType) -> bool:
    return (
        type_ in PLAIN_TYPES
        or pa.types.is_decimal(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
    )


def _value(scalar: Any) -> _Bound:
    try:
        value: Any = scalar.as_py()
    except (UnicodeDecodeError, OverflowError, ValueError):  # not text, or a day beyond Python's years
        return _NONE
    return (value, True) if isinstance(value, _VALUES) else _NONE


_VALUES: Final = get_args(Value)


def _moment(count: int, per_second: int, leaf: ArrowLeaf, side: int) -> _Bound:
    """Returns a time rounded to microseconds, down for ``side`` 1 and up for -1."""
    micros, rest = divmod(side * count * 1_000_000, per_second)
    value = from_micros(side * micros, leaf.type, zoned=leaf.zoned)
    return (value, rest == 0) if value is not None else _NONE
