"""Makes manifest entries of many data files at once, from columns of their facts.

PyIceberg makes a record of each file and encodes it value by value, which takes longer than everything else that a
publication does. Here the values of one column are encoded for all files together, and an entry is the join of its
parts. The bytes are those that PyIceberg's writer makes, which a test compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pyiceberg.avro.resolver import resolve_writer
from pyiceberg.avro.writer import Writer
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import StructType

from metastore.lake.iceberg.manifests.avro_file import encode
from metastore.lake.iceberg.manifests.compact_entries import CompactEntry
from metastore.lake.iceberg.manifests.manifest_writer import entry_schema

Numbers = tuple[ManifestEntryStatus, int | None, int | None, int | None]
"""Status, snapshot, sequence number and file sequence number of an entry."""

_NULL: Final = b"\x00"
_PRESENT: Final = b"\x02"
"""The index of the second branch of an optional value."""
_PARQUET: Final = b"\x0ePARQUET"
_FIELDS_OF_VERSION_3: Final = 4


@dataclass(frozen=True, eq=False)
class ColumnMetrics:
    """The metrics of one column in each file; bounds in Iceberg's binary form, None or -1 where unknown.

    ``without_nans`` says for each file whether the column certainly has no NaN; None for a column that can have none.
    """

    field_id: int
    nulls: Sequence[int]
    low: Sequence[bytes | None]
    high: Sequence[bytes | None]
    without_nans: Sequence[bool] | None = None


@dataclass(frozen=True, eq=False)
class FilesInColumns:
    """Parquet files: paths, partition values as records hold them, sizes, rows, offsets of row groups, and metrics."""

    paths: Sequence[str]
    partitions: Sequence[tuple[Any, ...]]
    rows: Sequence[int]
    sizes: Sequence[int]
    splits: Sequence[Sequence[int]]
    metrics: Sequence[ColumnMetrics]


def entries_of_columns(
    files: FilesInColumns, format_version: int, spec_id: int, partition_type: StructType, numbers: Numbers
) -> list[CompactEntry]:
    """Return an entry for each file, in order, all marked with ``numbers``."""
    schema = entry_schema(format_version, partition_type)
    head = _number(numbers[0].value) + b"".join(
        _NULL if number is None else _PRESENT + _number(number) for number in numbers[1:]
    )
    tail = _NULL * (2 + (_FIELDS_OF_VERSION_3 if format_version > 2 else 0))
    writer = _partition_writer(partition_type)
    encoded_partitions = {key: encode(writer, Record(*key)) for key in set(files.partitions)}
    parts = [_Parts.of(each) for each in files.metrics]
    entries = []
    for place, (path, key, rows, size, splits) in enumerate(
        zip(files.paths, files.partitions, files.rows, files.sizes, files.splits, strict=True)
    ):
        text, count = path.encode(), _number(rows)
        before = b"".join(
            (head, _NULL, _number(len(text)), text, _PARQUET, encoded_partitions[key], count, _number(size))
        )
        metrics = (
            _PRESENT + _NULL,  # no sizes of columns; PyIceberg's list of entries needs a map
            _map([part.field_id + count for part in parts]),
            _map([found for part in parts if (found := part.nulls[place])]),
            _map([found for part in parts if (found := part.nans[place])]),
            _map([found for part in parts if (found := part.low[place])]),
            _map([found for part in parts if (found := part.high[place])]),
            _NULL,  # metadata of a key
            _list(splits),
        )
        entry = CompactEntry()
        entry.schema, entry.content = schema, b"".join((before, *metrics, tail))
        entry.file_at, entry.maps_at, entry.is_settled = len(head), len(before), True
        entry.path, entry.key, entry.rows, entry.size, entry.spec_id = path, key, rows, size, spec_id
        entry.numbers = numbers
        entries.append(entry)
    return entries


@dataclass(frozen=True, eq=False)
class _Parts:
    """The encoded pairs of one column's maps, for each file; empty where there is none."""

    field_id: bytes
    nulls: Sequence[bytes]
    nans: Sequence[bytes]
    low: Sequence[bytes]
    high: Sequence[bytes]

    @classmethod
    def of(cls, column: ColumnMetrics) -> _Parts:
        own = _number(column.field_id)
        none = own + _NULL
        nans = column.without_nans
        return cls(
            own,
            [b"" if count < 0 else none if count == 0 else own + _number(count) for count in column.nulls],
            [b""] * len(column.nulls) if nans is None else [none if known else b"" for known in nans],
            [b"" if value is None else own + _number(len(value)) + value for value in column.low],
            [b"" if value is None else own + _number(len(value)) + value for value in column.high],
        )


def _map(pairs: Sequence[bytes]) -> bytes:
    return b"".join((_PRESENT, _number(len(pairs)), *pairs, _NULL)) if pairs else _NULL


def _list(numbers: Sequence[int]) -> bytes:
    return b"".join((_PRESENT, _number(len(numbers)), *map(_number, numbers), _NULL)) if numbers else _NULL


@lru_cache(maxsize=1 << 14)
def _number(value: int) -> bytes:
    """Return an int or long as Avro has it: zigzag, seven bits a byte."""
    left = (value << 1) ^ (value >> 63)
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


@lru_cache(maxsize=16)
def _partition_writer(partition_type: StructType) -> Writer:
    schema = Schema(*partition_type.fields)
    return resolve_writer(record_schema=schema, file_schema=schema)
