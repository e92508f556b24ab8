"""Rows of a table that are deleted or updated, and the rows that are written instead of them.

Place in the flow: a statement finds rows by their addresses: the number of a file in :class:`LiveRows`, and the row's
number among the file's live rows. Files without a changed row stay. A file with changed rows is rewritten without them
or with their new values; a marked file stays, and only its updated rows are written. A file is not read again if all
of its rows are deleted. The new files hold no deleted row, so they need no delete files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from metastore.lake.iceberg.columns.version_3_fields import content_offset
from metastore.lake.iceberg.rows.delete_index import DeleteFile, Deletes, only_path, unpartitioned_specs
from metastore.lake.iceberg.rows.live_files import LiveFile, live_files
from metastore.lake.iceberg.rows.scan_tasks import EntryTask
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.pieces import Slice
from metastore.lake.writes.reading import read_rows

FILE: Final = "$changed_file"
ROW: Final = "$changed_row"
"""The columns of a row's address."""

Numbers = Any
"""A NumPy array of int64."""


@dataclass(frozen=True)
class LiveRows:
    """The data files of a table's current snapshot, numbered by position, with the deletes that apply to each."""

    files: tuple[LiveFile, ...]
    tasks: tuple[EntryTask, ...]
    deletes: tuple[LiveFile, ...]
    hidden: frozenset[int] = frozenset()
    """The numbers of files whose rows a query does not see."""
    repeated: frozenset[str] = frozenset()
    """The paths of data files that are in the table several times."""

    @classmethod
    def of(cls, metadata: TableMetadata, io: FileIO) -> LiveRows:
        """Raises StorageError when a manifest cannot be read."""
        current = metadata.current_snapshot()
        if current is None:
            return cls((), (), ())
        found = live_files(metadata, io, current)
        index = Deletes(found.deletes, unpartitioned_specs(metadata))
        tasks = [EntryTask(data, index.of(data)) for data in found.data]
        times = Counter(data.path for data in found.data)
        repeated = frozenset(path for path, count in times.items() if count > 1)
        return cls(found.data, tuple(tasks), found.deletes, repeated=repeated)

    def part(self, numbers: Sequence[int]) -> LiveRows:
        """Returns the files ``numbers``, numbered anew from 0, without the list of all delete files."""
        files, tasks = [self.files[each] for each in numbers], [self.tasks[each] for each in numbers]
        return LiveRows(tuple(files), tuple(tasks), (), repeated=self.repeated)

    def slice(self, number: int) -> Slice:
        """Returns all rows of one file."""
        return Slice.whole(self.files[number], sorted(map(DeleteFile.of, self.tasks[number].delete_files)))

    def row_count(self, number: int) -> int | None:
        """Returns the number of a file's rows that are not deleted; None if only reading them tells."""
        rows = self.files[number].file.record_count
        deletes = list(self.tasks[number].delete_files)
        if not deletes:
            return rows
        if len(deletes) == 1 and content_offset(deletes[0]) is not None:
            return rows - deletes[0].record_count
        return None

    def deletes_of(self, numbers: Collection[int]) -> list[LiveFile]:
        """Returns the delete files that are about files ``numbers`` alone: vectors, and position deletes of one file.

        A delete file that may be about another entry of the same path is left out.
        """
        staying = {data.path for number, data in enumerate(self.files) if number not in numbers}
        paths = {self.files[number].path for number in numbers} - staying
        return [each for each in self.deletes if only_path(each.file) in paths]


@dataclass(frozen=True)
class Update:
    """New values of some columns in the rows at ``addresses``, a table of :data:`FILE` and :data:`ROW`.

    ``columns`` are Arrow arrays by the column's position in the table's schema, with one value for each row.
    """

    addresses: pa.Table
    columns: Mapping[int, Any]


@dataclass(frozen=True)
class RowChanges:
    """Rows to delete, by their addresses, and rows that get new values. No row is in more than one of them."""

    deleted: pa.Table
    updates: Sequence[Update] = ()

    @cached_property
    def going(self) -> dict[int, Numbers]:
        """The rows that are deleted or updated, by file: their numbers in order."""
        tables = [self.deleted, *(update.addresses for update in self.updates)]
        every = pa.concat_tables([table.select([FILE, ROW]) for table in tables])
        return {number: rows for number, (rows, _) in _by_file(every).items()}

    @property
    def changed_files(self) -> list[int]:
        """The numbers of the files with such a row, in order."""
        return list(self.going)

    def rows(self, job: RewriteJob, live: LiveRows, marked: Collection[int]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the changed files after the change; of files ``marked``, only the updated rows.

        Raises FormatError, which names the file.
        """
        gone = _by_file(self.deleted)
        updates = [(_by_file(update.addresses), update.columns) for update in self.updates]
        for number in self.changed_files:
            going = gone.get(number, _NONE)[0]
            of_file = [(by_file[number], columns) for by_file, columns in updates if number in by_file]
            if not of_file and (number in marked or len(going) == live.files[number].file.record_count):
                continue
            batches = read_rows(job, [live.slice(number)])
            yield from _change_batches(batches, going, of_file, job.keeps_lineage, only_updated=number in marked)


_EMPTY: Final[Numbers] = np.empty(0, dtype=np.int64)
_NONE: Final = (_EMPTY, _EMPTY)


def _by_file(addresses: pa.Table) -> dict[int, tuple[Numbers, Numbers]]:
    """Returns, for each file, the numbers of its rows in order, and their positions in ``addresses``."""
    files = addresses.column(FILE).to_numpy()
    rows = addresses.column(ROW).to_numpy()
    order = np.lexsort((rows, files))
    numbers, starts = np.unique(files[order], return_index=True)
    parts = np.split(order, starts[1:])
    return {int(number): (rows[part], part) for number, part in zip(numbers, parts, strict=True)} if len(files) else {}


def _change_batches(
    batches: Iterator[pa.RecordBatch],
    going: Numbers,
    updates: Sequence[tuple[tuple[Numbers, Numbers], Mapping[int, Any]]],
    keeps_lineage: bool,
    *,
    only_updated: bool,
) -> Iterator[pa.RecordBatch]:
    """Batches without the ``going`` rows and with updated values; numbers count the live rows of the file."""
    first = 0
    for batch in batches:
        end = first + batch.num_rows
        arrays: list[Any] = list(batch.columns)
        kept = np.full(batch.num_rows, not only_updated)
        for (rows, places), columns in updates:
            start, stop = np.searchsorted(rows, (first, end))
            kept[rows[start:stop] - first] = True
            for position, values in columns.items():
                arrays[position] = _replace_values(
                    arrays[position], rows[start:stop] - first, values, places[start:stop]
                )
            if keeps_lineage:
                # NULL is the sequence number of the commit to come.
                unset: Any = pa.nulls(stop - start, pa.int64())
                arrays[-1] = _replace_values(arrays[-1], rows[start:stop] - first, unset, np.arange(stop - start))
        start, stop = np.searchsorted(going, (first, end))
        kept[going[start:stop] - first] = False
        first = end
        made = pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
        if kept.all():
            yield made
        elif kept.any():
            yield made.filter(pa.array(kept))


def _replace_values(column: Any, rows: Numbers, values: Any, places: Numbers) -> Any:
    """Returns ``column`` with ``values`` at ``places`` in its rows ``rows``."""
    if not len(rows):
        return column
    indices = np.arange(len(column))
    indices[rows] = len(column) + np.arange(len(rows))
    new = values.take(pa.array(places))
    new = new.combine_chunks() if isinstance(new, pa.ChunkedArray) else new
    return pa.concat_arrays([column, new]).take(pa.array(indices))
