"""Rows that INSERT OVERWRITE replaces: those of some partitions, in files of whatever partition spec.

Place in the flow: the statement knows its new rows, and asks here for the old rows to remove. A file of a spec with the
same partition fields is replaced as a whole, and is not read. Files of other specs are read if they may have rows of
these partitions: only these rows go. So no old row of a replaced partition stays after the partition spec has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, In, IsNull, Or
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, VoidTransform

from metastore.lake.iceberg.rows.live_files import LiveFile
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.partition_values import partition_column, partition_value
from metastore.lake.writes.reading import read_rows
from metastore.lake.writes.row_changes import FILE, ROW, LiveRows
from metastore.lake.writes.transforms import Column

Key = tuple[Any, ...]
"""The values of some partition fields. Floating-point numbers are texts: NaN equals NaN, and -0.0 equals 0.0."""

_NO_ADDRESSES: Final = pa.table({FILE: pa.array([], pa.int64()), ROW: pa.array([], pa.int64())})


@dataclass(frozen=True)
class Partitions:
    """The partitions whose values of ``fields`` are one of ``keys``. Without fields, every row is of the key ``()``."""

    fields: tuple[PartitionField, ...]
    keys: frozenset[Key]

    @classmethod
    def of_files(cls, job: RewriteJob, files: Sequence[DataFile]) -> Partitions:
        """Returns the partitions of new ``files`` of the current spec; if it has no fields, the one there is."""
        fields = partition_fields(job.output_spec)
        if not fields:
            return cls((), frozenset([()]))
        places = [job.output_spec.fields.index(field) for field in fields]
        return cls(fields, frozenset(tuple(_key(file.partition[place]) for place in places) for file in files))

    @classmethod
    def of_values(cls, schema: Schema, fields: Sequence[PartitionField], values: Sequence[Column]) -> Partitions:
        """Returns the partitions in which identity ``fields`` have ``values``, arrays of one value each."""
        plain = [
            each.cast(each.type.storage_type) if isinstance(each.type, pa.BaseExtensionType) else each
            for each in values
        ]
        return cls(tuple(fields), frozenset(_keys(schema, fields, plain)[0]))

    def condition(self, schema: Schema) -> BooleanExpression:
        """Returns a condition that is true of every row of these partitions, and maybe of others."""
        found: BooleanExpression = AlwaysTrue()
        for position, field in enumerate(self.fields):
            values = {key[position] for key in self.keys}
            name = schema.find_column_name(field.source_id)
            is_comparable = all(each is None or isinstance(each, int | str) for each in values)
            kind = schema.find_type(field.source_id)
            if isinstance(field.transform, IdentityTransform) and name is not None and is_comparable and values:
                if str(kind) in ("float", "double"):
                    continue  # keys of these are texts
                known = values - {None}
                parts: list[BooleanExpression] = [In(name, known)] if known else []
                parts += [IsNull(name)] if None in values else []
                found = And(found, Or(*parts) if len(parts) > 1 else parts[0])
        return found


@dataclass(frozen=True)
class ReplacedRows:
    """Numbers of data ``files`` that go as a whole, the ``deletes`` that go with them, and ``addresses`` of other rows.

    ``count`` is the number of all these rows.
    """

    files: tuple[int, ...]
    deletes: tuple[LiveFile, ...]
    addresses: pa.Table
    count: int


def replaced_rows(job: RewriteJob, live: LiveRows, partitions: Partitions) -> ReplacedRows:
    """Returns the rows of ``live`` that are in ``partitions``.

    Raises FormatError and StorageError, which name the file.
    """
    whole, files, rows = [], [], []
    count = 0
    for number, data in enumerate(live.files):
        match _overlap(job, data.file, partitions):
            case "all":
                whole.append(number)
                known = live.row_count(number)
                count += _rows_in(job, live, number) if known is None else known
            case "some":
                found = _matching_rows(job, live, number, partitions)
                files.append(np.full(len(found), number, dtype=np.int64))
                rows.append(found)
                count += len(found)
    addresses = _NO_ADDRESSES
    if files:
        addresses = pa.table({FILE: pa.array(np.concatenate(files)), ROW: pa.array(np.concatenate(rows))})
    # Deletes of a partition apply to data files of that partition and spec only.
    deletes = tuple(each for each in live.deletes if _overlap(job, each.file, partitions) == "all")
    return ReplacedRows(tuple(whole), deletes, addresses, count)


def partition_fields(spec: PartitionSpec) -> tuple[PartitionField, ...]:
    """Returns the fields of ``spec`` that divide rows; format version 1 keeps dropped ones as void fields."""
    return tuple(field for field in spec.fields if not isinstance(field.transform, VoidTransform))


def _overlap(job: RewriteJob, file: DataFile, partitions: Partitions) -> str:
    """Returns which rows of a file are in the partitions, by its entry: ``all``, ``none``, or ``some`` if unknown."""
    places = [_place(job.spec(file.spec_id), field) for field in partitions.fields]
    known = [position for position, place in enumerate(places) if place is not None]
    own = tuple(_key(file.partition[place]) for place in places if place is not None)
    if own not in {tuple(key[position] for position in known) for key in partitions.keys}:
        return "none"
    return "all" if len(known) == len(places) else "some"


def _place(spec: PartitionSpec, field: PartitionField) -> int | None:
    """Returns the place in ``spec`` of a field with the same values."""
    for place, each in enumerate(spec.fields):
        if each.source_id == field.source_id and str(each.transform) == str(field.transform):
            return place
    return None


def _matching_rows(job: RewriteJob, live: LiveRows, number: int, partitions: Partitions) -> Any:
    """Returns the numbers, among the live rows of a file, of those in the partitions."""
    found = [np.empty(0, dtype=np.int64)]
    first = 0
    for batch in read_rows(job, [live.slice(number)]):
        columns = [_column(field, job.schema, batch) for field in partitions.fields]
        keys, of_rows = _keys(job.schema, partitions.fields, columns)
        wanted = np.array([key in partitions.keys for key in keys], dtype=bool)
        found.append(first + np.flatnonzero(wanted[of_rows]))
        first += batch.num_rows
    return np.concatenate(found)


def _rows_in(job: RewriteJob, live: LiveRows, number: int) -> int:
    return sum(batch.num_rows for batch in read_rows(job, [live.slice(number)]))


def _column(field: PartitionField, schema: Schema, rows: pa.RecordBatch) -> Column:
    values = partition_column(field, schema, rows)
    assert values is not None
    return values


def _keys(schema: Schema, fields: Sequence[PartitionField], columns: Sequence[Column]) -> tuple[list[Key], Any]:
    """Returns the distinct keys in ``columns``, and for each row the number of its key."""
    values, codes = [], []
    for field, column in zip(fields, columns, strict=True):
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        encoded = whole.dictionary_encode(null_encoding="encode")
        values.append([_key(partition_value(field, each.as_py(), schema)) for each in encoded.dictionary])
        codes.append(encoded.indices.to_numpy(zero_copy_only=False))
    distinct, of_rows = np.unique(np.stack(codes), axis=1, return_inverse=True)
    keys = [tuple(own[code] for own, code in zip(values, each, strict=True)) for each in distinct.T]
    return keys, of_rows.reshape(-1)


def _key(value: Any) -> Any:
    if isinstance(value, float):
        return repr(value + 0.0)
    return value.bytes if isinstance(value, UUID) else value  # rows have bytes, manifests UUIDs
