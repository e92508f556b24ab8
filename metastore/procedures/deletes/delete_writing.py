"""The task of one chunk: finds deleted positions, and writes them as deletion vectors or position delete files.

In format version 3, a chunk becomes one Puffin file with a vector for each data file. In version 2 it becomes one
Parquet file, so all its data files are in one partition. A data file is read only if equality deletes apply to it, and
only in their columns. A failing task removes the files that it wrote.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.locations import load_location_provider

from metastore.errors import StorageError
from metastore.iceberg.data_file import open_data_file
from metastore.iceberg.deletion_vectors import vector_blob
from metastore.iceberg.equality_deletes import EqualityDeletes
from metastore.iceberg.position_deletes import Positions, deleted_positions, merged
from metastore.iceberg.projection import partition_constants
from metastore.iceberg.puffin import puffin_file
from metastore.iceberg.schemas import PATH_ID
from metastore.iceberg.version_3_fields import RECORD_VERSION
from metastore.procedures.rewrite.groups import Slice
from metastore.procedures.rewrite.job import RewriteJob
from metastore.procedures.rewrite.reading import gathered
from metastore.stores.files import flush, open_ranges
from metastore.stores.new_files import NewFiles
from metastore.stores.read_errors import reading_file

_TEXT: Final[pa.DataType] = pa.string()
_NUMBER: Final[pa.DataType] = pa.int64()

WRITTEN: Final = pa.schema({"data_file": _TEXT, "delete_file": pa.binary(), "found": _NUMBER})
"""One row for each data file with new deletes: the pickled entry of its deletes, and the rows that equality deletes
take away. In version 2 several data files have the same entry."""

_CREATED_BY: Final = "drill metastore for data lakes"
_POSITION_ID: Final = 2147483545
_ROWS: Final = pa.schema(
    [
        pa.field("file_path", _TEXT, nullable=False, metadata={"PARQUET:field_id": str(PATH_ID)}),
        pa.field("pos", _NUMBER, nullable=False, metadata={"PARQUET:field_id": str(_POSITION_ID)}),
    ]
)
_NO_POSITIONS: Final[Positions] = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class DeleteChunk:
    """Data files, each with the deletes to convert. ``vectors``: write vectors instead of position delete files."""

    job: RewriteJob
    slices: tuple[Slice, ...]
    vectors: bool


@dataclass(frozen=True)
class _Found:
    cut: Slice
    positions: Positions
    new: int


def write_deletes(chunk: DeleteChunk) -> Iterator[pa.RecordBatch]:
    """Write the deletes of a chunk. Yields one batch of :data:`WRITTEN`. Raises FormatError and StorageError."""
    found = [each for each in _positions(chunk) if each.new]
    files = NewFiles(chunk.job.io)
    try:
        entries = (_vectors if chunk.vectors else _position_file)(chunk.job, files, found) if found else []
        flush(files.created)
    except BaseException as error:
        files.discard()
        if isinstance(error, OSError):
            raise StorageError(f"cannot write delete files of {chunk.job.name}: {error}") from error
        raise
    columns: list[Any] = [
        pa.array([each.cut.path for each in found], pa.string()),
        pa.array(list(map(pickle.dumps, entries)), pa.binary()),
        pa.array([each.new for each in found], pa.int64()),
    ]
    yield pa.record_batch(columns, schema=WRITTEN)


def _positions(chunk: DeleteChunk) -> Iterator[_Found]:
    """Yields the deleted positions of each data file. ``new`` counts those that no position delete had before.

    Without equality deletes, all count as new, because only their form changes.
    """
    job = chunk.job
    equality = EqualityDeletes(job.io, job.schemas, job.name_mapping, job.format_version)
    paths = {cut.path for cut in chunk.slices}
    known: dict[str, dict[str, list[Positions]]] = {}
    for cut in chunk.slices:
        by_position = [delete for delete in cut.deletes if not delete.equality_ids]
        for delete in by_position:
            if delete.path not in known:
                with reading_file(delete.path):
                    known[delete.path] = deleted_positions(job.io, delete.path, delete.format, paths)
        old = merged(part for delete in by_position for part in known[delete.path].get(cut.path, ()))
        old = _NO_POSITIONS if old is None else old
        if len(by_position) == len(cut.deletes):
            yield _Found(cut, old, len(old))
            continue
        with reading_file(cut.path):
            equal = _equal_rows(job, cut, equality)
        new = len(np.setdiff1d(equal, old, assume_unique=True))
        yield _Found(cut, np.union1d(equal, old) if chunk.vectors else np.setdiff1d(equal, old), new)


def _equal_rows(job: RewriteJob, cut: Slice, equality: EqualityDeletes) -> Positions:
    by_equality = [delete for delete in cut.deletes if delete.equality_ids]
    wanted = {column for delete in by_equality for column in delete.equality_ids}
    constants = partition_constants(job.spec(cut.spec_id), cut.partition)
    found = []
    with open_ranges(job.io, cut.path) as source:
        file = open_data_file(source, cut.format, cut.path)
        held = pyarrow_to_schema(file.schema, job.name_mapping, job.format_version <= 2, job.format_version)
        names = [field.name for field in held.fields if not Schema(field).field_ids.isdisjoint(wanted)]
        # Rows are counted even if no column is compared.
        names = names or file.schema.names[:1]
        first = 0
        for batches in gathered(batch for _, batch in file.batches(0, cut.file_rows, names)):
            mask = equality.mask(batches, held, constants, by_equality)
            found.append(first + np.flatnonzero(mask))
            first += len(mask)
    return np.concatenate(found) if found else _NO_POSITIONS


def _vectors(job: RewriteJob, files: NewFiles, found: list[_Found]) -> list[DataFile]:
    blobs = [vector_blob(each.cut.path, each.positions) for each in found]
    content, _ = puffin_file(blobs, _CREATED_BY)
    location = _location(job, "puffin")
    files.write(location, content)
    entries, offset = [], len(b"PFA1")
    for each, blob in zip(found, blobs, strict=True):
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


def _position_file(job: RewriteJob, files: NewFiles, found: list[_Found]) -> list[DataFile]:
    ordered = sorted(found, key=lambda each: each.cut.path)
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
        record_count=sum(len(each.positions) for each in found),
        file_size_in_bytes=len(job.io.new_input(location)),
        lower_bounds={PATH_ID: ordered[0].cut.path.encode()},
        upper_bounds={PATH_ID: ordered[-1].cut.path.encode()},
    )
    entry.spec_id = ordered[0].cut.spec_id
    return [entry] * len(found)


def _location(job: RewriteJob, suffix: str) -> str:
    return load_location_provider(job.location, job.properties).new_data_location(f"{uuid.uuid4()}-deletes.{suffix}")
