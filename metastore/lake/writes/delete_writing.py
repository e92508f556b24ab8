"""Writes deleted positions as deletion vectors or position delete files: for conversions, and for statements of SQL.

In format version 3, a chunk becomes one Puffin file with a vector for each data file. In version 2 it becomes one
Parquet file, so all its data files are in one partition. A failing task of a conversion removes what it wrote.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.locations import load_location_provider

from metastore.errors import StorageError
from metastore.lake.iceberg.columns.schemas import PATH_ID
from metastore.lake.iceberg.columns.version_3_fields import RECORD_VERSION
from metastore.lake.iceberg.rows.deletion_vectors import vector_blob
from metastore.lake.iceberg.rows.position_deletes import Positions
from metastore.lake.iceberg.rows.puffin import puffin_file
from metastore.lake.stores.files import flush
from metastore.lake.stores.new_files import NewFiles
from metastore.lake.writes.deleted_rows import deleted_rows
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.pieces import Slice

_TEXT: Final[pa.DataType] = pa.string()
_NUMBER: Final[pa.DataType] = pa.int64()

WRITTEN: Final = pa.schema({"chunk": _NUMBER, "data_file": _TEXT, "delete_file": pa.binary(), "found": _NUMBER})
"""One row for each data file with new deletes: the number of the chunk, the pickled entry of its deletes, and the rows
that equality deletes take away. In version 2 several data files have the same entry."""

_POSITION_ID: Final = 2147483545
_ROWS: Final = pa.schema(
    [
        pa.field("file_path", _TEXT, nullable=False, metadata={"PARQUET:field_id": str(PATH_ID)}),
        pa.field("pos", _NUMBER, nullable=False, metadata={"PARQUET:field_id": str(_POSITION_ID)}),
    ]
)


@dataclass(frozen=True)
class DeleteChunk:
    """Data files, each with the deletes to convert. ``vectors``: write vectors instead of position delete files."""

    number: int
    job: RewriteJob
    slices: tuple[Slice, ...]
    vectors: bool


@dataclass(frozen=True)
class NewDeletes:
    """Rows of one data file that a new delete file deletes: their numbers in the file, sorted and distinct."""

    cut: Slice
    positions: Positions


def write_deletes(chunk: DeleteChunk) -> Iterator[pa.RecordBatch]:
    """Write the deletes of a chunk. Yields one batch of :data:`WRITTEN`. Raises FormatError and StorageError."""
    found = [each for each in _convert_deletes(chunk) if each[1]]
    files = NewFiles(chunk.job.io)
    try:
        entries = write_delete_file(chunk.job, files, [each for each, _ in found], vectors=chunk.vectors)
    except BaseException:
        files.discard()
        raise
    columns: list[Any] = [
        pa.array([chunk.number] * len(found), _NUMBER),
        pa.array([each.cut.path for each, _ in found], pa.string()),
        pa.array(list(map(pickle.dumps, entries)), pa.binary()),
        pa.array([new for _, new in found], pa.int64()),
    ]
    yield pa.record_batch(columns, schema=WRITTEN)


def write_delete_file(
    job: RewriteJob, files: NewFiles, deletes: Sequence[NewDeletes], *, vectors: bool
) -> list[DataFile]:
    """Write one delete file through ``files``; returns the entry for each of ``deletes``, none if that is empty.

    With ``vectors`` it is a Puffin file, and each data file has its own entry. Otherwise it is a Parquet file, all data
    files have the same entry, and must be in one partition. The file is durable afterwards. Raises StorageError.
    """
    if not deletes:
        return []
    try:
        entries = (_vectors if vectors else _position_file)(job, files, deletes)
        flush(files.created_files)
    except OSError as error:
        raise StorageError(f"cannot write delete files of {job.name}: {error}") from error
    return entries


def _convert_deletes(chunk: DeleteChunk) -> Iterator[tuple[NewDeletes, int]]:
    """Yields the new deletes of each data file, and the number of rows that no position delete had before.

    Without equality deletes, all rows count, because only their form changes.
    """
    for rows in deleted_rows(chunk.job, chunk.slices):
        old, equal = rows.by_position, rows.by_equality
        if not any(delete.equality_ids for delete in rows.cut.deletes):
            yield NewDeletes(rows.cut, old), len(old)
            continue
        new = np.setdiff1d(equal, old)
        yield NewDeletes(rows.cut, rows.every if chunk.vectors else new), len(new)


def _vectors(job: RewriteJob, files: NewFiles, deletes: Sequence[NewDeletes]) -> list[DataFile]:
    """Deletion vectors of all ``deletes`` in one Puffin file: an entry for each data file, with its place in it."""
    blobs = [vector_blob(each.cut.path, each.positions) for each in deletes]
    content, _ = puffin_file(blobs)
    location = _location(job, "puffin")
    files.write(location, content)
    entries, offset = [], len(b"PFA1")
    for each, blob in zip(deletes, blobs, strict=True):
        size = len(blob.content)
        entry = DataFile.from_args(
            RECORD_VERSION,
            content=DataFileContent.POSITION_DELETES,
            file_path=location,
            file_format=FileFormat.PUFFIN,
            partition=each.cut.partition,
            record_count=len(each.positions),
            file_size_in_bytes=len(content),
            referenced_data_file=each.cut.path,
            content_offset=offset,
            content_size_in_bytes=size,
        )
        entry.spec_id = each.cut.spec_id
        entries.append(entry)
        offset += size
    return entries


def _position_file(job: RewriteJob, files: NewFiles, deletes: Sequence[NewDeletes]) -> list[DataFile]:
    """One position delete file, sorted by path and position as Iceberg requires; its entry for each data file."""
    ordered = sorted(deletes, key=lambda each: each.cut.path)
    location = _location(job, "parquet")
    with files.stream(location) as stream, pq.ParquetWriter(stream, _ROWS, store_schema=False) as writer:
        for each in ordered:
            paths = pa.repeat(pa.scalar(each.cut.path, pa.string()), len(each.positions))
            writer.write_table(pa.Table.from_arrays([paths, pa.array(each.positions, pa.int64())], schema=_ROWS))
    entry = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=ordered[0].cut.partition,
        record_count=sum(len(each.positions) for each in deletes),
        file_size_in_bytes=len(job.io.new_input(location)),
        lower_bounds={PATH_ID: ordered[0].cut.path.encode()},
        upper_bounds={PATH_ID: ordered[-1].cut.path.encode()},
    )
    entry.spec_id = ordered[0].cut.spec_id
    return [entry] * len(deletes)


def _location(job: RewriteJob, suffix: str) -> str:
    return load_location_provider(job.location, job.properties).new_data_location(
        f"{job.mark}{'-' if job.mark else ''}{uuid.uuid4()}-deletes.{suffix}"
    )
