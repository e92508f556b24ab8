"""The metrics of files for manifests, made from stored units as columns.

Place in the flow: a portion of units in on-disk columns becomes :class:`FilesInColumns`. No data file is opened.
Promises: a bound is one that ANALYZE believes, never narrower, in Iceberg's binary form; a count is exact or absent. A
column that a file lacks is all null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from metastore.errors import ProcedureError
from metastore.lake.iceberg.columns.bound_values import bound_bytes
from metastore.lake.iceberg.manifests.entries_of_columns import ColumnMetrics, FilesInColumns
from metastore.model.bounds.bound_arrays import BoundArray, Kind, Numbers, Texts
from metastore.model.bounds.statistics_columns import ALL_NULL, KNOWN, NO_NAN, NO_NULL, StatisticsColumns
from metastore.model.bounds.statistics_texts import decode_texts, null_counts
from metastore.model.bounds.unit_columns import CodedTexts
from metastore.model.bounds.units import of_kind
from metastore.model.column_path import ColumnPath, lower_path, quote
from metastore.model.mapping.recorded_numbers import UNKNOWN, recorded_numbers
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import MetadataType, Statistic
from metastore.procedures.publishing.columns import PublishedColumn, PublishedColumns

_LONGEST: Final = 64
"""Longest bound of a text or of bytes, in characters or bytes; a longer one is cut outwards."""

_KINDS: Final[Mapping[type[PrimitiveType], tuple[Kind, str]]] = {
    IntegerType: (Kind.NUMBER, "<i4"),
    LongType: (Kind.NUMBER, "<i8"),
    FloatType: (Kind.NUMBER, "<f4"),
    DoubleType: (Kind.NUMBER, "<f8"),
    DateType: (Kind.DATE, "<i4"),
    TimeType: (Kind.TIME, "<i8"),
    TimestampType: (Kind.LOCAL, "<i8"),
    TimestamptzType: (Kind.INSTANT, "<i8"),
    BooleanType: (Kind.BOOLEAN, "<i1"),
}
"""The kind of bounds of each type of a fixed width, and Iceberg's form of them."""

_OF_LENGTH: Final[Mapping[type[PrimitiveType], Kind]] = {
    StringType: Kind.TEXT,
    BinaryType: Kind.BYTES,
    DecimalType: Kind.NUMBER,
}
"""The kind of bounds of the other types that have any."""


def files_in_columns(
    units: pa.Table,
    columns: PublishedColumns,
    partition: Callable[[str], tuple[Any, ...]],
    location: Callable[[str], str],
) -> FilesInColumns:
    """Returns the files of ``units``, FILE and ROW_GROUP units in on-disk columns.

    ``partition`` gives the partition values of a file's folder, ``location`` the published form of a path. Raises
    ProcedureError for a file whose rows or size are not known.
    """
    files = of_kind(units, MetadataType.FILE)
    row_groups = of_kind(units.select(["metadataType", "path", "metadataStatistics"]), MetadataType.ROW_GROUP)
    paths: list[Any] = files["path"].to_pylist()
    rows, sizes = recorded_numbers(_whole(files["metadataStatistics"]), Statistic.ROW_COUNT, Statistic.LENGTH)
    if len(unknown := np.flatnonzero((rows == UNKNOWN) | (sizes == UNKNOWN))):
        raise ProcedureError(f"the metadata of {paths[unknown[0]]} lacks its size or rows: ANALYZE it anew")
    return FilesInColumns(
        list(map(location, paths)),
        [partition(path.rpartition("/")[0]) for path in paths],
        rows.tolist(),
        sizes.tolist(),
        _splits(paths, row_groups),
        list(_metrics(files, columns, rows)),
    )


def _splits(paths: Sequence[str], row_groups: pa.Table) -> list[list[int]]:
    """Returns the offsets of each file's row groups, in order; none if one is unknown."""
    found: dict[str, list[int]] = {path: [] for path in paths}
    [starts] = recorded_numbers(_whole(row_groups["metadataStatistics"]), Statistic.START)
    for path, start in zip(row_groups["path"].to_pylist(), starts.tolist(), strict=True):
        if path in found:
            found[path].append(start)
    return [[] if UNKNOWN in offsets else sorted(offsets) for offsets in found.values()]


def _metrics(files: pa.Table, columns: PublishedColumns, rows: Any) -> Any:
    schemas = CodedTexts.of(files["schema"])
    own = [_paths_in(text) for text in schemas.names]
    statistics = _whole(files["columnsStatistics"])
    for path, column in columns.leaves():
        spellings = {keys[path] for keys in own if path in keys}
        lacks = np.array([path not in keys for keys in own], np.bool_)[schemas.codes]
        yield _of_column(column, [statistics_of(statistics, key) for key in sorted(spellings)], lacks, rows)


@lru_cache(maxsize=256)
def _paths_in(schema: str) -> Mapping[ColumnPath, str]:
    """Returns the key of each leaf among a file's statistics, by its folded path."""
    return {lower_path(path): quote(path) for path, _ in TupleSchema.from_json(schema).leaves()}


def statistics_of(maps: Any, key: str) -> tuple[StatisticsColumns, Any]:
    """Returns the statistics and counts of nulls of one column, by its key, in each unit."""
    texts: Any = pc.map_lookup(maps, pa.scalar(key), "first")
    known = decode_texts(texts)
    is_open = known.has(KNOWN) & ~known.has(NO_NULL) & ~known.has(ALL_NULL)
    return known, null_counts(texts) if is_open.any() else -1


def _of_column(
    column: PublishedColumn, found: Sequence[tuple[StatisticsColumns, Any]], lacks: Any, rows: Any
) -> ColumnMetrics:
    """Metrics of one leaf over files: each of ``found`` describes some; a file in ``lacks`` is all null."""
    kind = column.kind
    assert isinstance(kind, PrimitiveType)
    assert column.number is not None
    nulls, without_nans = np.full(len(rows), -1), lacks.copy()
    low: list[bytes | None] = [None] * len(rows)
    high: list[bytes | None] = [None] * len(rows)
    for known, counted in found:
        own = np.where(known.has(NO_NULL), 0, np.where(known.has(ALL_NULL), rows, counted))
        nulls = np.where(known.has(KNOWN), own, nulls)
        without_nans |= known.has(NO_NAN)
        for pair in known.bounds:
            low = _beside(low, _bounds(kind, pair.low, upper=False))
            high = _beside(high, _bounds(kind, pair.high, upper=True))
    nulls = np.where(lacks, rows, nulls)
    nans = without_nans.tolist() if isinstance(kind, (FloatType, DoubleType)) else None
    return ColumnMetrics(column.number, nulls.tolist(), low, high, nans)


def _beside(one: list[bytes | None], other: list[bytes | None]) -> list[bytes | None]:
    return [b if a is None else a for a, b in zip(one, other, strict=True)]


def _bounds(kind: PrimitiveType, bounds: BoundArray, *, upper: bool) -> list[bytes | None]:
    """Returns Iceberg's form of ``bounds`` in a column of type ``kind``; None where there is none."""
    fixed = _KINDS.get(type(kind))
    if fixed is not None:
        of_kind_, form = fixed
        if bounds.kind is not of_kind_ or not isinstance(bounds, Numbers) or bounds.scale or bounds.decimal:
            return [None] * len(bounds.known)
        if bounds.values.dtype.kind == np.dtype(form).kind or of_kind_ is Kind.BOOLEAN:
            return _of_width(bounds, np.dtype(form))
    elif bounds.kind is not _OF_LENGTH.get(type(kind)):
        # Iceberg for Java and the others do not agree about the order of UUIDs.
        return [None] * len(bounds.known)
    if isinstance(bounds, Texts):
        values: list[Any] = bounds.values.cast(pa.binary()).to_pylist()
        if max(map(len, filter(None, values)), default=0) <= _LONGEST:
            return values
    if isinstance(kind, DecimalType) and isinstance(bounds, Numbers) and bounds.values.dtype != object:
        return _of_decimals(bounds, kind.scale)
    each = (bounds.at(place) for place in range(len(bounds.known)))
    return [bound_bytes(kind, value, _LONGEST, upper=upper) for value in each]


def _of_decimals(bounds: Numbers, scale: int) -> list[bytes | None]:
    """Returns the unscaled numbers in the fewest bytes; none whose scale is not that of the column."""
    power = 10 ** max(0, scale - bounds.scale)
    return [
        (unscaled := number * power).to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)
        if has and bounds.scale <= scale
        else None
        for number, has in zip(bounds.values.tolist(), bounds.known.tolist(), strict=True)
    ]


def _of_width(bounds: Numbers, form: np.dtype[Any]) -> list[bytes | None]:
    values = bounds.values.astype(form)
    known = bounds.known & (values == bounds.values)
    content, width = values.tobytes(), form.itemsize
    return [content[place * width : (place + 1) * width] if has else None for place, has in enumerate(known.tolist())]


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
