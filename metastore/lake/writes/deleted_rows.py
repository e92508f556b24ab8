"""Finds the rows of data files that delete files take away, by their numbers in the file.

A data file is read only if equality deletes apply to it, and only in the columns that they compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.schema import Schema

from metastore.lake.iceberg.columns.readable_columns import columns_with_ids
from metastore.lake.iceberg.manifests.data_file import open_data_file
from metastore.lake.iceberg.rows.equality_deletes import EqualityDeletes
from metastore.lake.iceberg.rows.position_deletes import Positions, deleted_positions, merge_positions
from metastore.lake.iceberg.rows.projection import partition_constants
from metastore.lake.stores.files import open_ranges
from metastore.lake.stores.read_errors import reading_file
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.pieces import Slice
from metastore.lake.writes.reading import gather_batches

_NO_POSITIONS: Final[Positions] = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class DeletedRows:
    """The deleted rows of one data file, sorted. A row that deletes of both kinds remove is in both arrays."""

    cut: Slice
    by_position: Positions
    by_equality: Positions

    @property
    def every(self) -> Positions:
        """The rows of both arrays, sorted and distinct."""
        return np.union1d(self.by_position, self.by_equality) if len(self.by_equality) else self.by_position


def deleted_rows(job: RewriteJob, slices: Sequence[Slice]) -> Iterator[DeletedRows]:
    """Yield the deleted rows of each data file in ``slices``. Raises FormatError and StorageError with the file."""
    equality = EqualityDeletes(job.io, job.schemas, job.name_mapping, job.format_version)
    paths = {cut.path for cut in slices}
    known: dict[str, dict[str, list[Positions]]] = {}
    for cut in slices:
        by_position = [delete for delete in cut.deletes if not delete.equality_ids]
        for delete in by_position:
            if delete.path not in known:
                with reading_file(delete.path):
                    known[delete.path] = deleted_positions(job.io, delete.path, delete.format, paths)
        old = merge_positions(part for delete in by_position for part in known[delete.path].get(cut.path, ()))
        old = _NO_POSITIONS if old is None else old
        if len(by_position) == len(cut.deletes):
            yield DeletedRows(cut, old, _NO_POSITIONS)
            continue
        with reading_file(cut.path):
            yield DeletedRows(cut, old, _equal_rows(job, cut, equality))


def _equal_rows(job: RewriteJob, cut: Slice, equality: EqualityDeletes) -> Positions:
    """Positions in the whole file that equality deletes take, whatever part of it ``cut`` is."""
    by_equality = [delete for delete in cut.deletes if delete.equality_ids]
    wanted = {column for delete in by_equality for column in delete.equality_ids}
    constants = partition_constants(job.spec(cut.spec_id), cut.partition)
    found = []
    with open_ranges(job.io, cut.path) as source:
        file = open_data_file(source, cut.format, cut.path)
        held = pyarrow_to_schema(
            columns_with_ids(file.schema), job.name_mapping, job.format_version <= 2, job.format_version
        )
        names = [field.name for field in held.fields if not Schema(field).field_ids.isdisjoint(wanted)]
        # Rows are counted even if no column is compared.
        names = names or file.schema.names[:1]
        first = 0
        for batches in gather_batches(batch for _, batch in file.batches(0, cut.file_rows, names)):
            mask = equality.mask(batches, held, constants, by_equality)
            found.append(first + np.flatnonzero(mask))
            first += len(mask)
    return np.concatenate(found) if found else _NO_POSITIONS
