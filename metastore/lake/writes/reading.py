"""Reads the rows of a piece as a stream of batches: one slice of a file after another, without deleted rows.

Memory holds one batch, the deleted positions of the piece's files, and a few small files that are fetched ahead,
because a store answers concurrent requests in the time of one. If equality deletes apply, it also holds some batches
and a limited part of the keys.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.schema import Schema

from metastore.ground.threads import Threads
from metastore.lake.iceberg.columns.readable_columns import columns_with_ids
from metastore.lake.iceberg.manifests.carried_files import open_carried_file
from metastore.lake.iceberg.rows.delete_index import DeleteFile
from metastore.lake.iceberg.rows.equality_deletes import EqualityDeletes
from metastore.lake.iceberg.rows.position_deletes import Positions, deleted_positions, merge_positions, without
from metastore.lake.iceberg.rows.projection import Projection, partition_constants
from metastore.lake.iceberg.rows.row_lineage import FileLineage, with_lineage
from metastore.lake.stores.files import open_ranges
from metastore.lake.stores.read_errors import reading_file
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.pieces import Slice

_SMALL_FILE: Final = 4 << 20
_AHEAD: Final = 8
_TOGETHER: Final = 32 << 20


def read_rows(job: RewriteJob, slices: Sequence[Slice]) -> Iterator[pa.RecordBatch]:
    """Yields the live rows of ``slices`` in order, with the table's columns. Raises FormatError with the file."""
    deleted = _read_deletes(job.io, slices)
    equality = EqualityDeletes(job.io, job.schemas, job.name_mapping, job.format_version)
    projections: list[tuple[pa.Schema, int, Projection]] = []
    for cut, source in _open_slices(job.io, slices):
        with reading_file(cut.path):
            # If a file was added again, the old deletes do not apply to it.
            by_position = [delete for delete in cut.deletes if not delete.equality_ids]
            own = merge_positions(part for delete in by_position for part in deleted[delete].get(cut.path, ()))
            yield from _slice_rows(job, cut, source, own, equality, projections)


def _slice_rows(
    job: RewriteJob,
    cut: Slice,
    source: Any,
    deleted: Positions | None,
    equality: EqualityDeletes,
    projections: list[tuple[pa.Schema, int, Projection]],
) -> Iterator[pa.RecordBatch]:
    """The live rows of a slice in the table's columns; with row ids and numbers if the job keeps lineage."""
    file = open_carried_file(source, cut.format, cut.path, job.schema)
    projection = _projection(job, cut, file.schema, projections)
    by_equality = [delete for delete in cut.deletes if delete.equality_ids]
    held = _columns_of(job, file.schema)
    lineage = FileLineage(held, cut.first_row_id, cut.added_number) if job.keeps_lineage else None
    if not by_equality:
        columns = [name for name in projection.columns if name in file.schema.names]
        yield from map(projection.apply, _live(file.batches(cut.first, cut.end, columns), cut, deleted, lineage))
        return
    wanted = job.file_schema.field_ids | {column for delete in by_equality for column in delete.equality_ids}
    columns = [field.name for field in held.fields if not Schema(field).field_ids.isdisjoint(wanted)]
    constants = partition_constants(job.spec(cut.spec_id), cut.partition)
    for batches in gather_batches(_live(file.batches(cut.first, cut.end, columns), cut, deleted, lineage)):
        yield from map(projection.apply, equality.without(batches, held, constants, by_equality))


def _live(
    batches: Iterable[tuple[int, pa.RecordBatch]], cut: Slice, deleted: Positions | None, lineage: FileLineage | None
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of ``batches`` (each with its first row's number) in ``cut`` that no position deletes.

    If ``lineage`` is given, its columns are added at the end.
    """
    for row, whole in batches:
        start, end = max(row, cut.first), min(row + whole.num_rows, cut.end)
        if start < end:
            part = whole.slice(start - row, end - start)
            batch = without(part if lineage is None else lineage.added_to(part, start), start, deleted)
            if batch.num_rows:
                yield batch


def gather_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yields adjacent batches together, so that keys are looked up for many rows at once."""
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        group.append(batch)
        size += batch.nbytes
        if size >= _TOGETHER:
            yield group
            group, size = [], 0
    if group:
        yield group


def _projection(
    job: RewriteJob, cut: Slice, arrow: pa.Schema, projections: list[tuple[pa.Schema, int, Projection]]
) -> Projection:
    """Returns the projection of a file; that of the previous file if their schemas and specs are equal, as usual."""
    constants = partition_constants(job.spec(cut.spec_id), cut.partition)
    if (
        not constants
        and projections
        and projections[-1][1] == cut.spec_id
        and projections[-1][0].equals(arrow, check_metadata=True)
    ):
        return projections[-1][2]
    file_schema = _columns_of(job, arrow)
    if job.keeps_lineage:
        file_schema = with_lineage(file_schema)
    projection = Projection(file_schema, job.file_schema, job.arrow_schema, constants)
    if not constants:
        projections[:] = [(arrow, cut.spec_id, projection)]
    return projection


def _columns_of(job: RewriteJob, arrow: pa.Schema) -> Schema:
    """Returns the schema of a file with field IDs. Format versions 1 and 2 have no nanoseconds."""
    return pyarrow_to_schema(columns_with_ids(arrow), job.name_mapping, job.format_version <= 2, job.format_version)


def _read_deletes(io: FileIO, slices: Sequence[Slice]) -> dict[DeleteFile, dict[str, list[Positions]]]:
    """Returns the positions that each position delete file deletes in the data files of ``slices``."""
    paths = {cut.path for cut in slices}
    found = {}
    for delete in sorted({each for cut in slices for each in cut.deletes if not each.equality_ids}):
        with reading_file(delete.path):
            found[delete] = deleted_positions(io, delete.path, delete.format, paths)
    return found


def _open_slices(io: FileIO, slices: Sequence[Slice]) -> Iterator[tuple[Slice, Any]]:
    """Yields each slice with its file opened. Small files are fetched whole, some of them ahead."""

    def fetch(cut: Slice) -> pa.NativeFile:
        with open_ranges(io, cut.path) as stream:
            return pa.BufferReader(stream.read())

    waiting: deque[tuple[Slice, Future[Any] | None]] = deque()
    todo = iter(slices)
    with Threads(_AHEAD, "metastore-rewrite-read") as threads:
        try:
            while True:
                while len(waiting) < _AHEAD and (cut := next(todo, None)) is not None:
                    waiting.append((cut, threads.submit(fetch, cut) if cut.file_size <= _SMALL_FILE else None))
                if not waiting:
                    return
                cut, fetched = waiting.popleft()
                if fetched is not None:
                    yield cut, fetched.result()
                else:
                    with open_ranges(io, cut.path) as stream:
                        yield cut, stream
        finally:
            for _, fetched in waiting:
                if fetched is not None:
                    fetched.cancel()
