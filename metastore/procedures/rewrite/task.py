"""The task of one piece, on any machine: reads rows, sorts them if an order is given, writes and describes files.

A task returns one batch: the data files that it wrote, or the reason why it failed. A failing task removes its files;
files of a killed task stay, but nothing names them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.transforms import VoidTransform

from metastore.errors import MetastoreError
from metastore.lake.writes.job import AlongCurve, RewriteJob, SortKey
from metastore.lake.writes.ordering import Order, in_order
from metastore.lake.writes.pieces import Piece
from metastore.lake.writes.reading import read_rows
from metastore.lake.writes.writing import FileWriter

_NUMBER: Final[pa.DataType] = pa.int64()

FRAGMENTS: Final = pa.schema({"group": _NUMBER, "piece": _NUMBER, "file": pa.binary(), "error": pa.string()})
"""One row for each new file, a pickled DataFile. A row without a file ends the piece, with an error if it failed."""


@dataclass(frozen=True)
class PieceOutcome:
    """The result of one piece."""

    group: int
    piece: int
    files: tuple[DataFile, ...]
    error: str | None


def rewrite_piece(job: RewriteJob, piece: Piece) -> Iterator[pa.RecordBatch]:
    """Rewrite the rows of ``piece``. Yields one batch of :data:`FRAGMENTS`.

    Raises FormatError, which names the file, and StorageError, unless the job keeps going after failures.
    """
    writer = FileWriter(job, f"{piece.group:05d}-{piece.number:05d}", piece.file_rows)
    try:
        rows = read_rows(job, piece.slices)
        keys = _keys(job, piece)
        if keys:
            rows = in_order(rows, Order(job.schema, keys))
        files = [pickle.dumps(file) for file in writer.write(rows, piece.partition)]
        error = None
    except BaseException as failure:
        writer.remove()
        if not (job.keep_going and isinstance(failure, MetastoreError)):
            raise
        files, error = [], str(failure)
    found = [*files, None]
    yield pa.record_batch(
        [
            pa.array([piece.group] * len(found), pa.int64()),
            pa.array([piece.number] * len(found), pa.int64()),
            pa.array(found, pa.binary()),
            pa.array([error] * len(found), pa.string()),
        ],
        schema=FRAGMENTS,
    )


def outcomes(batch: pa.RecordBatch) -> Iterator[PieceOutcome]:
    """Yields the results of one or more tasks in a batch, piece by piece."""
    files: list[DataFile] = []
    for row in batch.to_pylist():
        if row["file"] is not None:
            files.append(pickle.loads(row["file"]))  # noqa: S301 - our own task wrote it
        else:
            yield PieceOutcome(row["group"], row["piece"], tuple(files), row["error"])
            files = []


def _keys(job: RewriteJob, piece: Piece) -> list[SortKey | AlongCurve]:
    """Returns the keys of the order. If each row has its own partition, partition values come first."""
    if piece.partition is not None:
        return list(job.order)
    fields = [field for field in job.output_spec.fields if not isinstance(field.transform, VoidTransform)]
    return [*(SortKey(field.source_id, field.transform, False, True) for field in fields), *job.order]
