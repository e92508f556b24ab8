"""Writes a stream of rows as new data files of the table, and describes each file for a manifest.

Files are limited by rows. Rows of one partition arrive together, so only one file is open at a time. Row groups are
collected in memory before they are written. File names are unique for each attempt of a task; an attempt that fails
removes its files.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import IO, Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionKey
from pyiceberg.table.locations import load_location_provider
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, FloatType, NestedField, StructType

from metastore.errors import StorageError
from metastore.lake.formats.parquet.marked_footer import FooterHeld
from metastore.lake.formats.parquet.required_parts import has_required_parts, with_required_parts
from metastore.lake.iceberg.catalogs.iceberg_private import parquet_writer_options
from metastore.lake.iceberg.columns.bound_values import above_all_with
from metastore.lake.iceberg.columns.number_properties import number_property, properties_checked
from metastore.lake.iceberg.manifests.metrics_plan import metrics_plan
from metastore.lake.iceberg.manifests.partition_key import partition_key
from metastore.lake.iceberg.rows.row_lineage import LINEAGE_IDS
from metastore.lake.stores.files import flush
from metastore.lake.stores.new_files import NewFiles
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.partition_values import partition_column, partition_value

_ROW_GROUP_BYTES: Final = 64 << 20
"""Arrow bytes of a row group; its Parquet form is smaller."""

_ROW_GROUP_ROWS: Final = "write.parquet.row-group-limit"
_ROW_GROUP_ROWS_DEFAULT: Final = 1 << 20


class FileWriter:
    """Writes the rows of one piece into files of at most ``file_rows`` rows each."""

    def __init__(self, job: RewriteJob, piece: str, file_rows: int) -> None:
        self._job = job
        self._stem = f"{piece}-{uuid.uuid4()}"
        self._file_rows = file_rows
        self._group_rows = number_property(job.properties, _ROW_GROUP_ROWS, _ROW_GROUP_ROWS_DEFAULT)
        self._locations = load_location_provider(job.location, job.properties)
        with properties_checked():
            self._options = parquet_writer_options(job.properties)
        self._files = NewFiles(job.io)

    def write(self, batches: Iterable[pa.RecordBatch], partition: Record | None) -> Iterator[DataFile]:
        """Yields each file when it is complete and durable. ``partition`` is that of all rows; None if rows differ.

        If they differ, rows of one partition must be adjacent. Raises StorageError if the store refuses a file.
        """
        current: _OpenFile | None = None
        try:
            for at, rows in _runs(self._job, batches, partition):
                rest = rows
                while rest.num_rows:
                    key = partition_key(self._job.output_spec_id, at)
                    if current is not None and (current.key != key or current.rows >= self._file_rows):
                        yield current.finish()
                        current = None
                    if current is None:
                        current = self._open(at)
                    room = self._file_rows - current.rows
                    current.add(rest.slice(0, room))
                    rest = rest.slice(room)
            if current is not None:
                yield current.finish()
        except OSError as error:
            raise StorageError(f"cannot write data files of {self._job.name}: {error}") from error
        finally:
            if current is not None:
                current.close()

    def remove(self) -> None:
        """Delete every file that was created."""
        self._files.discard()

    def _open(self, partition: Record) -> _OpenFile:
        name = f"{self._stem}-{len(self._files.created_files):05d}.parquet"
        place = _Place(self._job, partition) if self._job.output_spec.fields else None
        path = self._locations.new_data_location(name, cast("PartitionKey | None", place))
        if "%" in path and path.startswith("file:"):
            # Readers disagree whether this is an escape, so leave out the partition folder, which only helps people.
            path = self._locations.new_data_location(name)
        return _OpenFile(self._job, path, self._files.stream(path), partition, self._options, self._group_rows)


class _Place:
    """The part of a partition key that a location provider uses."""

    def __init__(self, job: RewriteJob, partition: Record) -> None:
        self._job = job
        self.partition = partition

    def to_path(self) -> str:
        return self._job.output_spec.partition_to_path(self.partition, self._job.schema)


class _OpenFile:
    """One new file. Rows are buffered until they fill a row group."""

    def __init__(
        self,
        job: RewriteJob,
        path: str,
        stream: IO[bytes],
        partition: Record,
        options: dict[str, Any],
        group_rows: int,
    ) -> None:
        self.partition = partition
        self.key = partition_key(job.output_spec_id, partition)
        self.rows = 0
        self._job = job
        self._path = path
        self._group_rows = group_rows
        self._held: list[pa.RecordBatch] = []
        self._held_rows = self._held_bytes = 0
        self._nans: Counter[int] = Counter()
        self._stream = stream
        self._held_end = FooterHeld(stream) if job.marks else None
        # Without Arrow's own schema, every reader sees the Iceberg types, not Arrow's large types.
        try:
            self._stored = schema_to_pyarrow(job.stored_schema, include_field_ids=not job.of_folder)
            into: Any = self._held_end or self._stream
            if job.marks:
                paths = parquet_path_to_id_mapping(job.stored_schema).items()
                options = {**options, "write_statistics": [path for path, leaf in paths if leaf not in job.unread_ids]}
            self._writer = pq.ParquetWriter(
                into, self._stored, store_schema=False, store_decimal_as_integer=True, **options
            )
        except BaseException:
            self._stream.close()
            raise
        self._closed = False

    def add(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        self.rows += rows.num_rows
        self._held_rows += rows.num_rows
        self._held_bytes += rows.nbytes
        if self._held_rows >= self._group_rows or self._held_bytes >= _ROW_GROUP_BYTES:
            self._write_group()

    def finish(self) -> DataFile:
        """Close the file and make it durable. Its entry has no counts of lineage and of parts of variants."""
        self._write_group()
        self.close()
        flush([self._path])
        job = self._job
        statistics = data_file_statistics_from_parquet_metadata(
            self._writer.writer.metadata,
            metrics_plan(job.stored_schema, job.properties, job.unread_ids),
            parquet_path_to_id_mapping(job.stored_schema),
        )
        for column in statistics.column_aggregates.values():
            largest, length = column.current_max, column.trunc_length
            if isinstance(largest, str) and length is not None and len(largest) > length:
                # PyIceberg's own cut may end in half of a surrogate pair, which is no text.
                column.current_max = above_all_with(largest[:length])
        described = statistics.to_serialized_dict()
        described["nan_value_counts"] = {key: n for key, n in self._nans.items() if key in described["value_counts"]}
        for kept in described.values():
            # The columns of row lineage are not columns of the table, nor are the parts of a variant.
            if isinstance(kept, dict):
                for field_id in LINEAGE_IDS | job.unread_ids:
                    kept.pop(field_id, None)
        for field_id in _columns_without_bounds(
            self._writer.writer.metadata, parquet_path_to_id_mapping(job.stored_schema)
        ):
            described["lower_bounds"].pop(field_id, None)
            described["upper_bounds"].pop(field_id, None)
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self._path,
            file_format=FileFormat.PARQUET,
            partition=self.partition,
            file_size_in_bytes=len(job.io.new_input(self._path)),
            sort_order_id=job.sort_order_id,
            **described,
        )
        file.spec_id = job.output_spec_id
        return file

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            try:
                if self._held_end is not None:
                    self._held_end.hold()
                self._writer.close()
                if self._held_end is not None:
                    self._held_end.release(self._job.marks)
            finally:
                self._stream.close()

    def _write_group(self) -> None:
        if self._held:
            rows = pa.Table.from_batches(self._held)
            if rows.num_columns != len(self._stored):
                rows = rows.select(self._stored.names)
            for place, kind in enumerate(rows.schema.types):
                if has_required_parts(kind):
                    chunks: list[Any] = [with_required_parts(chunk) for chunk in rows.column(place).chunks]
                    rows = rows.set_column(place, rows.schema.field(place), chunks)
            for field, column in zip(self._job.stored_schema.fields, rows.columns, strict=True):
                self._nans.update(dict(_nans(field, column)))
            self._writer.write_table(rows, row_group_size=self._group_rows)
            self._held = []
            self._held_rows = self._held_bytes = 0


def _nans(field: NestedField, values: Any) -> Iterator[tuple[int, int]]:
    """Yields the number of NaNs by the id of each float field; Parquet's bounds leave NaN out."""
    kind = field.field_type
    if isinstance(kind, (FloatType, DoubleType)):
        yield field.field_id, pc.sum(pc.is_nan(values)).as_py() or 0
    elif isinstance(kind, StructType) and pa.types.is_struct(values.type):
        for place, inner in enumerate(kind.fields):
            yield from _nans(inner, pc.struct_field(values, [place]))


def _columns_without_bounds(metadata: pq.FileMetaData, ids: dict[str, int]) -> set[int]:
    """Returns columns with values but no bounds in some row group: bounds of other groups do not hold for them."""
    found = set()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for position in range(metadata.num_columns):
            chunk = group.column(position)
            statistics = chunk.statistics if chunk.is_stats_set else None
            if statistics is None or not (statistics.has_min_max or statistics.null_count == chunk.num_values):
                found.add(ids[chunk.path_in_schema])
    return found


def _runs(
    job: RewriteJob, batches: Iterable[pa.RecordBatch], partition: Record | None
) -> Iterator[tuple[Record, pa.RecordBatch]]:
    """Yields rows with their partition. Splits a batch where the partition changes."""
    fields = job.output_spec.fields
    for batch in batches:
        if partition is not None or not fields:
            yield partition or Record(), batch
            continue
        values = [partition_column(field, job.schema, batch) for field in fields]
        for first, end in _equal_runs([each for each in values if each is not None], batch.num_rows):
            record = Record(
                *(
                    None if each is None else partition_value(field, each[first].as_py(), job.schema)
                    for field, each in zip(fields, values, strict=True)
                )
            )
            yield record, batch.slice(first, end - first)


def _equal_runs(columns: list[Any], length: int) -> Iterator[tuple[int, int]]:
    """Yields begin and end of each run of rows with equal values. NaN equals NaN, and null equals null."""
    changed = np.zeros(length, dtype=bool)
    for values in columns:
        codes = values.dictionary_encode(null_encoding="encode").indices.to_numpy()
        changed[1:] |= codes[1:] != codes[:-1]
    borders = [0, *np.flatnonzero(changed).tolist(), length]
    yield from pairwise(borders)
