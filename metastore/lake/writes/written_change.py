"""Writes the change of a statement: new data files and deletes. The same code runs on this machine and in tasks.

Place in the flow: a statement describes its change by a :class:`RowPlan`. A task does so for the rows of its own files.
What was written goes to one commit (:mod:`metastore.lake.writes.publication`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile

from metastore.lake.iceberg.rows.live_files import LiveFile
from metastore.lake.iceberg.rows.row_lineage import VERSION_OF_LINEAGE
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.marked_rows import MarkedRows, delete_files_of, markable, marked_rows
from metastore.lake.writes.row_changes import LiveRows, RowChanges
from metastore.lake.writes.row_modes import RowMode
from metastore.lake.writes.table_writer import TableWriter

_FIRST_GUESS: Final = 64
"""Bytes of a row if nothing else tells its size."""


@dataclass(frozen=True)
class WrittenChange:
    """The ``new`` files, and numbers of data files: those ``removed``, and those ``marked``, which get new deletes."""

    new: tuple[DataFile, ...] = ()
    removed: frozenset[int] = frozenset()
    marked: frozenset[int] = frozenset()

    def with_numbers(self, numbers: Sequence[int]) -> WrittenChange:
        """Returns this change of a part of a table with the table's own ``numbers`` of files."""
        removed, marked = ({numbers[each] for each in own} for own in (self.removed, self.marked))
        return WrittenChange(self.new, frozenset(removed), frozenset(marked))

    def __add__(self, other: WrittenChange) -> WrittenChange:
        """Returns the union of two changes, of different files."""
        return WrittenChange((*self.new, *other.new), self.removed | other.removed, self.marked | other.marked)


@dataclass(frozen=True)
class RowPlan:
    """``inserted`` are rows of ``job.arrow_schema``, read once.

    ``dropped`` are numbers of files that are removed without reading.

    ``condition`` is true of every row that the statement changes. None: the plan may depend on every row of the table.
    ``written`` is what tasks have written for the plan, and ``engine`` the name of the engine that ran the query.
    ``lines`` explain a statement that does not run.
    """

    inserted: Iterable[pa.RecordBatch] | None = None
    changes: RowChanges | None = None
    dropped: Sequence[int] = ()
    dropped_deletes: Sequence[LiveFile] = ()
    condition: BooleanExpression | None = None
    counts: Mapping[str, int] | None = None
    """Numbers of rows by ``inserted``, ``updated`` and ``deleted``."""
    written: WrittenChange = WrittenChange()
    engine: str = "local"
    lines: Sequence[str] = ()

    @property
    def only_deletes(self) -> bool:
        """Whether no row is inserted or updated."""
        return self.inserted is None and (self.changes is None or not self.changes.updates)


def write_change(writer: TableWriter, live: LiveRows, plan: RowPlan, mode: RowMode) -> WrittenChange:
    """Write what ``plan`` changes in the files ``live``; returns it together with what tasks have written.

    Raises StorageError, and FormatError, which names the file.
    """
    job = writer.job
    vectors = job.format_version >= VERSION_OF_LINEAGE
    if plan.changes is not None and vectors:
        job = writer.keep_lineage()
    changed = plan.changes.changed_files if plan.changes else []
    marked = markable(live, changed) if mode.merges_on_read else []
    found = MarkedRows((), ())
    if plan.changes is not None and marked:
        found = marked_rows(job, live, {number: plan.changes.going[number] for number in marked}, vectors=vectors)
    removed = {*plan.dropped, *changed} - {*marked} | {*found.emptied}
    new: list[DataFile] = []
    if not plan.only_deletes or {*changed} - {*marked}:
        gone = [live.files[number] for number in sorted(removed)]
        new = writer.write(_rows(job, live, plan, marked), _row_bytes(gone) if plan.inserted is None else None)
    groups = delete_files_of(found.deletes, vectors=vectors, by_file=mode.by_file)
    new += writer.write_deletes(groups, vectors=vectors)
    return WrittenChange(tuple(new), frozenset(removed), frozenset(marked) - removed) + plan.written


def _rows(job: RewriteJob, live: LiveRows, plan: RowPlan, marked: Sequence[int]) -> Iterator[pa.RecordBatch]:
    if plan.changes is not None:
        yield from plan.changes.rows(job, live, frozenset(marked))
    for batch in plan.inserted or ():
        rows = batch
        if job.keeps_lineage:
            for field in job.arrow_schema:
                if field.name not in rows.schema.names:
                    rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        yield rows


def _row_bytes(gone: Sequence[LiveFile]) -> int:
    rows = sum(live.file.record_count for live in gone)
    return sum(live.file.file_size_in_bytes for live in gone) // rows if rows else _FIRST_GUESS
