"""The task of one piece, on whatever machine: rows read, put in order where an order is asked for, written, described.

A task answers with one batch: the data files that it wrote, or why it could not. What a failing task wrote it removes
itself; what a killed one wrote stays, named by nobody.
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
from metastore.procedures.rewrite.groups import Piece
from metastore.procedures.rewrite.job import RewriteJob, SortKey
from metastore.procedures.rewrite.ordering import Order, in_order
from metastore.procedures.rewrite.reading import read_rows
from metastore.procedures.rewrite.writing import FileWriter

_NUMBER: Final[pa.DataType] = pa.int64()

FRAGMENTS: Final = pa.schema({"group": _NUMBER, "piece": _NUMBER, "file": pa.binary(), "error": pa.string()})
"""One row for each new file, a pickled DataFile; a row without a file says that the piece is done, or why it failed."""


@dataclass(frozen=True)
class Outcome:
    """What became of one piece."""

    group: int
    piece: int
    files: tuple[DataFile, ...]
    error: str | None


def rewrite_piece(job: RewriteJob, piece: Piece) -> Iterator[pa.RecordBatch]:
    """Write the rows of ``piece`` anew; one batch of :data:`FRAGMENTS`.

    Raises FormatError, which names the file, and StorageError, unless the job is to keep going.
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


def outcomes(batch: pa.RecordBatch) -> Iterator[Outcome]:
    """What the batch of one or more tasks tells, piece by piece."""
    files: list[DataFile] = []
    for row in batch.to_pylist():
        if row["file"] is not None:
            files.append(pickle.loads(row["file"]))  # noqa: S301 - our own task wrote it
        else:
            yield Outcome(row["group"], row["piece"], tuple(files), row["error"])
            files = []


def _keys(job: RewriteJob, piece: Piece) -> list[SortKey]:
    """Partition values first where rows find their partition, so that those of one come together; then the order."""
    if piece.partition is not None:
        return list(job.order)
    fields = [field for field in job.output_spec.fields if not isinstance(field.transform, VoidTransform)]
    return [*(SortKey(field.source_id, field.transform, False, True) for field in fields), *job.order]
