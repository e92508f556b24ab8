"""Corrects bounds and counts in manifests, because some writers of manifests have known defects.

Pruning and ANALYZE call this before they use a bound or a count. A manifest does not name its writer, so defects are
detected in the numbers. A bound that can be made safe is widened; everything else is treated as unknown.

| defect | public report | result |
|---|---|---|
| upper bounds of times cut to milliseconds (UniForm) | delta-io/delta#7444 | 999 microseconds more |
| lower bounds with zero bytes at the end | apache/beam#38580 | without them |
| texts cut inside a character | duckdb/duckdb-iceberg#1136, #1334 | cut before it; an upper bound is rounded up |
| upper bounds of partitions cut, and not rounded up | duckdb/duckdb-iceberg#1047 | rounded up |
| values counted without nulls | StarRocks/starrocks#50699 | unknown |

What is left must agree by :mod:`metastore.lake.formats.claims`: lower bounds above upper ones
(ClickHouse/ClickHouse#116499) and more nulls than rows are unknown, for example.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile, ManifestFile, PartitionFieldSummary
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from metastore.lake.formats.claims import believed_nans, check_claims, decimal_limits
from metastore.lake.iceberg.columns.bound_values import above_all_with

OF_DELTA: Final = "delta-version"
"""The property of a table whose metadata Delta's UniForm writes."""

_CUT_BYTES: Final = 16
"""Bounds of texts and bytes are cut to this length, unless a table says otherwise; shorter ones are whole."""
_MILLI_MICROS: Final = 1000
_COUNTS_AND_BOUNDS: Final = (
    "lower_bounds",
    "upper_bounds",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
)
_UNDECODABLE: Final = (ValueError, TypeError, struct.error, OverflowError)


class Bounds(NamedTuple):
    """Both bounds of a column as PyIceberg's values; None if unknown."""

    low: Any = None
    high: Any = None
    is_exact: bool = True
    """Whether both are unchanged from the manifest."""


@dataclass(frozen=True)
class Metrics:
    """Checks the metrics of one table's manifests; ``of_delta``: UniForm writes them."""

    of_delta: bool = False

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Metrics:
        """Create it for a table with these ``properties``."""
        return cls(OF_DELTA in properties)

    def bounds(self, type_: PrimitiveType, low: bytes | None, high: bytes | None) -> Bounds:
        """Return bounds of a column of ``type_`` that are safe for all its values."""
        lower, upper = _lower(type_, low), _upper(type_, high)
        is_cut = self.of_delta and isinstance(type_, (TimestampType, TimestamptzType))
        if is_cut and upper is not None and upper % _MILLI_MICROS == 0:
            upper += _MILLI_MICROS - 1
            return Bounds(lower, upper, is_exact=False)
        return Bounds(lower, upper)

    def file(self, data: DataFile, fields: Sequence[NestedField]) -> DataFile:
        """Return ``data`` with the believed metrics of ``fields``, for PyIceberg's evaluation; unchanged if all are."""
        stored = [dict(getattr(data, name) or {}) for name in _COUNTS_AND_BOUNDS]
        lows, highs, counts, nulls, nans = mine = [dict(each) for each in stored]
        rows = data.record_count
        for field in fields:
            type_, number = field.field_type, field.field_id
            assert isinstance(type_, PrimitiveType)
            found = self.bounds(type_, lows.get(number), highs.get(number))
            limits = decimal_limits(type_.precision, type_.scale) if isinstance(type_, DecimalType) else None
            low, high, null, values = check_claims(found.low, found.high, believed_nulls(data, number), rows, limits)
            _set(lows, number, None if low is None else to_bytes(type_, low))
            _set(highs, number, None if high is None else to_bytes(type_, high))
            _set(nulls, number, null)
            _set(nans, number, believed_nans(nans.get(number), low, high, values))
            if counts.get(number) != rows:
                counts.pop(number, None)
        if mine == stored:
            return data
        return DataFile.from_args(
            record_count=rows,
            lower_bounds=lows,
            upper_bounds=highs,
            value_counts=counts,
            null_value_counts=nulls,
            nan_value_counts=nans,
        )


def believed_nulls(data: DataFile, field_id: int) -> int | None:
    """Return the null count of a column that is in no list or map; None if the values are not counted with nulls."""
    counted = (data.value_counts or {}).get(field_id, data.record_count)
    return (data.null_value_counts or {}).get(field_id) if counted == data.record_count else None


def _set(numbers: dict[int, Any], field_id: int, number: Any) -> None:
    if number is None:
        numbers.pop(field_id, None)
    else:
        numbers[field_id] = number


def believed_manifest(manifest: ManifestFile, types: Sequence[PrimitiveType]) -> ManifestFile | None:
    """Return ``manifest`` with believed bounds of its partitions, of ``types``; None if a bound proves nothing."""
    summaries = manifest.partitions
    if not summaries or not any(map(_may_be_cut, summaries, types)):
        return manifest
    believed = []
    for summary, type_ in zip(summaries, types, strict=True):
        upper = summary.upper_bound
        if _may_be_cut(summary, type_):
            found = above_all_with(_prefix(type_, upper or b""))
            if found is None:
                return None
            upper = to_bytes(type_, found)
        believed.append(
            PartitionFieldSummary.from_args(
                contains_null=summary.contains_null,
                contains_nan=summary.contains_nan,
                lower_bound=summary.lower_bound,
                upper_bound=upper,
            )
        )
    return ManifestFile.from_args(partitions=believed)


def primitive_leaves(schema: Schema) -> Iterator[NestedField]:
    """Yield the fields of ``schema`` that hold values and are not within a list or map."""
    pending = list(schema.fields)
    while pending:
        field = pending.pop()
        if isinstance(field.field_type, StructType):
            pending.extend(field.field_type.fields)
        elif isinstance(field.field_type, PrimitiveType):
            yield field


def _lower(type_: PrimitiveType, stored: bytes | None) -> Any:
    if stored is None:
        return None
    if isinstance(type_, (StringType, BinaryType)):
        return _prefix(type_, stored.rstrip(b"\0"))
    return _decode_bound(type_, stored)


def _upper(type_: PrimitiveType, stored: bytes | None) -> Any:
    if stored is None:
        return None
    if isinstance(type_, StringType):
        prefix: str = _prefix(type_, stored)
        return prefix if prefix.encode() == stored else above_all_with(prefix)
    return _decode_bound(type_, stored)


def _decode_bound(type_: PrimitiveType, stored: bytes) -> Any:
    try:
        return from_bytes(type_, stored)
    except _UNDECODABLE:
        return None


def _prefix(type_: PrimitiveType, stored: bytes) -> Any:
    """Return a text without an incomplete last character, or the bytes themselves."""
    if isinstance(type_, BinaryType):
        return stored
    try:
        return stored.decode()
    except UnicodeDecodeError as error:
        return stored[: error.start].decode()


def _may_be_cut(summary: PartitionFieldSummary, type_: PrimitiveType) -> bool:
    upper = summary.upper_bound
    return isinstance(type_, (StringType, BinaryType)) and upper is not None and len(upper) >= _CUT_BYTES
