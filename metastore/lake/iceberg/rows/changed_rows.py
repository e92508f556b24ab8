"""Rows that snapshots inserted, deleted and updated, as Spark's changelog views show them.

A statement that writes files anew removes and adds rows that it did not change. Equal rows of one snapshot cancel each
other here, so only the changes are left. With identifier columns, a removed and an added row with the same identifier
are one update.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata

from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.columns.readable_columns import readable_schema
from metastore.lake.iceberg.rows.changed_files import ChangedFiles
from metastore.lake.iceberg.rows.row_difference import Mask, Numbers, difference, row_numbers
from metastore.lake.iceberg.rows.row_scan import RowScan

CHANGE_COLUMNS: Final[list[pa.Field[Any]]] = [
    pa.field("_change_type", pa.string()),
    pa.field("_change_ordinal", pa.int32()),
    pa.field("_commit_snapshot_id", pa.int64()),
]
"""Columns behind those of the table, named as in Spark."""

INSERT: Final = "INSERT"
DELETE: Final = "DELETE"
UPDATE_BEFORE: Final = "UPDATE_BEFORE"
UPDATE_AFTER: Final = "UPDATE_AFTER"


@dataclass(frozen=True)
class RowChangeReader:
    """Reads changed rows of one table, in the columns of its current schema that can be read.

    ``identifiers`` are the columns that tell rows apart; without any, no change is an update. Raises
    InvalidRequestError for a column that is missing or has a name of :data:`CHANGE_COLUMNS`.
    """

    metadata: TableMetadata
    io: FileIO
    identifiers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        own = [field.name for field in self.columns.fields]
        if taken := {field.name for field in CHANGE_COLUMNS}.intersection(own):
            raise InvalidRequestError(f"column {min(taken)} has a name that changes need; rename the column first")
        if missing := [name for name in self.identifiers if name not in own]:
            raise InvalidRequestError(f"the identifier column {missing[0]} does not exist; there are {', '.join(own)}")

    @cached_property
    def columns(self) -> Schema:
        """The table's columns."""
        return readable_schema(self.metadata.schema())

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the changed rows."""
        own = schema_to_pyarrow(self.columns, include_field_ids=False)
        return pa.schema([*(field.with_nullable(True) for field in own), *CHANGE_COLUMNS])

    def changes(self, files: ChangedFiles) -> Iterator[pa.RecordBatch]:
        """Yield the changed rows of one snapshot: deleted rows, updated rows in pairs, inserted rows.

        If the snapshot only adds or only removes files, the rows of one file are in memory at once; otherwise those of
        all its files. Raises StorageError and FormatError, which name the file, and InvalidRequestError if several rows
        have one identifier.
        """
        for tasks, others, kind in ((files.removed, files.added, DELETE), (files.added, files.removed, INSERT)):
            if not others:
                for batch in self._rows(tasks):
                    yield self._describe_rows(batch, [kind] * batch.num_rows, files)
        if not (files.removed and files.added):
            return
        before, after = (pa.Table.from_batches(self._rows(tasks), self._own) for tasks in (files.removed, files.added))
        removed, added = (
            rows.filter(pa.array(mask)) for rows, mask in zip((before, after), difference(before, after), strict=True)
        )
        yield from self._described_pairs(removed, added, files)

    def net(self, files: Iterable[ChangedFiles]) -> Iterator[pa.RecordBatch]:
        """Yield the changes that are left after all snapshots: an insertion and a later deletion cancel each other.

        All changed rows are in memory. Raises as :meth:`changes`.
        """
        batches = [batch for each in files for batch in self.changes(each)]
        rows = pa.Table.from_batches(batches, self.schema)
        numbers = row_numbers(rows.select(self._own.names))
        kinds: Any = rows.column(CHANGE_COLUMNS[0].name).to_pylist()
        kept = _mask_net_changes(numbers, kinds)
        yield from rows.filter(pa.array(kept)).to_batches()

    @cached_property
    def _own(self) -> pa.Schema:
        return pa.schema([field for field in self.schema if field not in CHANGE_COLUMNS])

    def _rows(self, tasks: Sequence[FileScanTask]) -> Iterator[pa.RecordBatch]:
        scan = RowScan(self.metadata, self.io, self.columns, AlwaysTrue())
        return (batch.cast(self._own) for batch in scan.to_record_batches(tasks))

    def _describe_rows(self, batch: pa.RecordBatch, kinds: Sequence[str], files: ChangedFiles) -> pa.RecordBatch:
        """Return the rows with what happened to them."""
        kind, ordinal, snapshot = (field.type for field in CHANGE_COLUMNS)
        more = [
            pa.array(kinds, kind),
            pa.repeat(pa.scalar(files.ordinal, ordinal), batch.num_rows),
            pa.repeat(pa.scalar(files.snapshot_id, snapshot), batch.num_rows),
        ]
        return pa.RecordBatch.from_arrays([*batch.columns, *more], schema=self.schema)

    def _described_pairs(self, removed: pa.Table, added: pa.Table, files: ChangedFiles) -> Iterator[pa.RecordBatch]:
        old, new = self._updates(removed, added)
        rows = pa.concat_tables([removed, added])
        others = [np.setdiff1d(np.arange(part.num_rows), own) for part, own in ((removed, old), (added, new))]
        pairs: Numbers = np.column_stack([old, new + removed.num_rows]).ravel()
        order = np.concatenate([others[0], pairs, others[1] + removed.num_rows])
        kinds = [DELETE] * len(others[0]) + [UPDATE_BEFORE, UPDATE_AFTER] * len(old) + [INSERT] * len(others[1])
        first = 0
        for batch in rows.take(pa.array(order)).combine_chunks().to_batches():
            yield self._describe_rows(batch, kinds[first : first + batch.num_rows], files)
            first += batch.num_rows

    def _updates(self, removed: pa.Table, added: pa.Table) -> tuple[Numbers, Numbers]:
        """Return the places of rows in ``removed`` and ``added`` that are states of one row, in the same order."""
        if not self.identifiers:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        keys = pa.concat_tables([removed, added]).select(list(self.identifiers))
        of_removed, of_added = np.split(row_numbers(keys), [removed.num_rows])
        shared, old, new = np.intersect1d(of_removed, of_added, return_indices=True)
        for numbers in (of_removed, of_added):
            if np.isin(numbers, shared).sum() > len(shared):
                raise InvalidRequestError(
                    "updates cannot be computed: several changed rows of one snapshot have the same values of "
                    f"{', '.join(self.identifiers)}; name columns that identify each row, or set compute_updates to "
                    "false"
                )
        return old, new


def _mask_net_changes(numbers: Numbers, kinds: Sequence[str]) -> Mask:
    """Return which changes are left if a row's change cancels the last one of an equal row that is its opposite."""
    kept = np.ones(len(numbers), dtype=bool)
    pending: dict[int, list[int]] = {}
    for place, number in enumerate(numbers.tolist()):
        earlier = pending.setdefault(number, [])
        if earlier and kinds[earlier[-1]] != kinds[place]:
            kept[[earlier.pop(), place]] = False
        else:
            earlier.append(place)
    return kept
