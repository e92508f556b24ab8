"""The rows of a piece as a stream of batches: slices of files one after another, deleted rows left out.

Memory holds one batch, the deleted positions of the piece's files, and small files that are fetched ahead of their turn
(a store answers many questions in the time of one).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.transforms import IdentityTransform

from metastore.errors import FormatError
from metastore.procedures.rewrite.groups import Slice
from metastore.procedures.rewrite.job import RewriteJob
from metastore.procedures.rewrite.projection import Projection
from metastore.storage.files import open_ranges

Positions = Any
"""A NumPy array of row positions."""

_SMALL_FILE: Final = 4 << 20
_AHEAD: Final = 8
_BATCH_ROWS: Final = 1 << 16


def read_rows(job: RewriteJob, slices: Sequence[Slice]) -> Iterator[pa.RecordBatch]:
    """The live rows of ``slices`` in order, as the table's columns. Raises FormatError, which names the file."""
    deleted = _deleted_positions(job.io, slices)
    projections: list[tuple[pa.Schema, int, Projection]] = []
    for cut, source in _opened(job.io, slices):
        with _naming(cut.path):
            yield from _slice_rows(job, cut, source, deleted.of(cut), projections)


def _slice_rows(
    job: RewriteJob,
    cut: Slice,
    source: Any,
    deleted: Positions | None,
    projections: list[tuple[pa.Schema, int, Projection]],
) -> Iterator[pa.RecordBatch]:
    # In nanoseconds, Arrow's own choice for INT96, times before 1677 and after 2262 would silently become others.
    with pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as file:
        metadata = file.metadata
        if cut.end > metadata.num_rows:
            raise FormatError(f"it has {metadata.num_rows} rows, and the table says {cut.end} or more")
        projection = _projection(job, cut, file.schema_arrow, projections)
        groups, position = [], 0
        first_row = None
        for number in range(metadata.num_row_groups):
            rows = metadata.row_group(number).num_rows
            if position < cut.end and position + rows > cut.first:
                groups.append(number)
                first_row = position if first_row is None else first_row
            position += rows
        row = first_row or 0
        for whole in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=projection.columns):
            start, end = max(row, cut.first), min(row + whole.num_rows, cut.end)
            if start < end:
                batch = whole.slice(start - row, end - start)
                if deleted is not None:
                    batch = _without(batch, start, deleted)
                if batch.num_rows:
                    yield projection.apply(batch)
            row += whole.num_rows


def _without(batch: pa.RecordBatch, start: int, deleted: Positions) -> pa.RecordBatch:
    """The batch, whose first row is row ``start`` of its file, without the rows at ``deleted``."""
    low, high = np.searchsorted(deleted, (start, start + batch.num_rows))
    if low == high:
        return batch
    keep = np.ones(batch.num_rows, dtype=bool)
    keep[deleted[low:high] - start] = False
    return batch.filter(pa.array(keep))


def _projection(
    job: RewriteJob, cut: Slice, arrow: pa.Schema, known: list[tuple[pa.Schema, int, Projection]]
) -> Projection:
    """The file's projection; that of the last file where both are of one kind, as they mostly are."""
    constants = _constants(job, cut)
    if not constants and known and known[-1][1] == cut.spec_id and known[-1][0].equals(arrow, check_metadata=True):
        return known[-1][2]
    file_schema = pyarrow_to_schema(arrow, job.name_mapping, downcast_ns_timestamp_to_us=True)
    projection = Projection(file_schema, job.file_schema, job.arrow_schema, constants)
    if not constants:
        known[:] = [(arrow, cut.spec_id, projection)]
    return projection


def _constants(job: RewriteJob, cut: Slice) -> dict[int, Any]:
    """Values that the partition gives to columns which the file may lack, as in files that Hive wrote."""
    fields = enumerate(job.spec(cut.spec_id).fields)
    return {
        field.source_id: cut.partition[position]
        for position, field in fields
        if isinstance(field.transform, IdentityTransform) and cut.partition[position] is not None
    }


@dataclass(frozen=True)
class _Deleted:
    """Positions of deleted rows, by delete file and data file."""

    positions: Mapping[tuple[str, str], Sequence[Positions]]

    def of(self, cut: Slice) -> Positions | None:
        """Those in the file of ``cut``, sorted, None for none. A file that was added anew has not the old deletes."""
        parts = [part for delete in cut.deletes for part in self.positions.get((delete, cut.path), ())]
        return np.unique(np.concatenate(parts)) if parts else None


def _deleted_positions(io: FileIO, slices: Sequence[Slice]) -> _Deleted:
    """What the delete files of ``slices`` say of their data files."""
    paths = pa.array(sorted({cut.path for cut in slices}))
    found: dict[tuple[str, str], list[Positions]] = {}
    for delete in sorted({path for cut in slices for path in cut.deletes}):
        with _naming(delete), open_ranges(io, delete) as stream, pq.ParquetFile(stream) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=["file_path", "pos"]):
                named = batch.filter(pc.is_in(batch.column(0), value_set=paths.cast(batch.column(0).type)))
                for path in named.column(0).unique():
                    here = named.filter(pc.equal(named.column(0), path))
                    found.setdefault((delete, str(path)), []).append(here.column(1).to_numpy())
    return _Deleted(found)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from error
    except (pa.ArrowException, ValueError) as error:
        raise FormatError(f"{path} cannot be read: {error}") from error


def _opened(io: FileIO, slices: Sequence[Slice]) -> Iterator[tuple[Slice, Any]]:
    """Each slice with its file opened; small files are fetched whole, some of them ahead."""

    def fetch(cut: Slice) -> pa.NativeFile:
        with open_ranges(io, cut.path) as stream:
            return pa.BufferReader(stream.read())

    waiting: deque[tuple[Slice, Future[Any] | None]] = deque()
    todo = iter(slices)
    with ThreadPoolExecutor(_AHEAD, "metastore-rewrite-read") as threads:
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
