"""DELETE, UPDATE and MERGE whose rows are dealt by keys: one task finds rows of many files, another one changes a file.

Place in the flow: the rows of the changing table and of the other tables were dealt by keys. The query of a group finds
addresses of rows in any file. These go to the task that has the part of the table with this file. So one task changes a
data file, and two rows of a source that change one row meet there. Rows that MERGE inserts go by partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.lake.writes.distribution import by_partition, distribution
from metastore.lake.writes.groups import by_group
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.row_changes import FILE
from metastore.lake.writes.row_modes import RowMode
from metastore.lake.writes.table_writer import TableWriter
from metastore.lake.writes.written_change import RowPlan, WrittenChange, write_change
from metastore.sql.queries.composed import Composed
from metastore.sql.queries.divided_query import DividedQuery
from metastore.sql.queries.row_parts import AddressedFiles
from metastore.sql.tasks.dealt_rows import DealtRows, Place, group_of, labelled, table_of
from metastore.sql.tasks.row_dealing import PARTS, by_part, parts_of
from metastore.sql.tasks.statement_tasks import Dealt, answer, unpacked_parts

SOURCE_ROW: Final = "$source_row"
"""A column of a query: the number of the source's row. Tasks return the numbers that they have found."""

_FOUND: Final = -2
_NEW: Final = -3
"""Numbers of tables: rows that a query found, and rows to insert, as the table stores them."""


class RowsToPlan(Protocol):
    """Turns the rows that a query found into the change of a table. It pickles."""

    def plan(self, rows: pa.Table) -> RowPlan:
        """Returns the change. Raises InvalidRequestError, with line and column, for a value that does not fit."""


@dataclass(frozen=True)
class Change:
    """What all tasks of one statement share; ``columns`` are those of the rows that ``query`` finds."""

    job: RewriteJob
    query: DividedQuery
    columns: pa.Schema
    composed: Composed
    to_plan: RowsToPlan
    mode: RowMode

    def answered(self, writer: TableWriter, part: AddressedFiles, rows: pa.Table) -> pa.RecordBatch:
        """Write the change of ``part`` for the rows that were found in it; returns the answer of the task."""
        plan = self.to_plan.plan(rows)
        written = write_change(writer, part.live, plan, self.mode)
        source_rows = np.empty(0, dtype=np.int64)
        if SOURCE_ROW in rows.column_names:
            source_rows = np.unique(rows.column(SOURCE_ROW).drop_null().to_numpy())
        return answer((written.new, (written.numbered(part.numbers), dict(plan.counts or {}), source_rows)))


def found_in_group(work: Change, groups: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Dealt]:
    """The task that finds rows: deals them by the part of the table that they are in, and new rows by partition."""
    group = None
    with DealtRows() as dealt:
        for batch in batches:
            if table_of(batch) == PARTS:
                yield group_of(batch), batch
            else:
                group = group_of(batch)
                dealt.add(batch)
        if group is None:
            return
        with work.composed.errors():
            rows = work.query.rows(dealt.tables(), dealt.folder)
            for minor, batch in enumerate(rows):
                yield from _dealt(work, groups, group, batch, Place(group, minor))


def _dealt(work: Change, groups: int, group: int, rows: pa.RecordBatch, place: Place) -> Iterator[Dealt]:
    is_new: Any = pc.is_null(rows.column(rows.schema.get_field_index(FILE)))
    old = rows.filter(pc.invert(is_new))
    if old.num_rows:
        for number, own in by_group(old, parts_of(old) % groups):
            yield number, labelled(own, _FOUND, number, place)
    plan = work.to_plan.plan(pa.Table.from_batches([rows.filter(is_new)]))
    if plan.inserted is None:
        return
    job = work.job
    is_dealt = distribution(job.name, job.properties, is_partitioned=bool(job.output_spec.fields)) == "hash"
    for batch in plan.inserted.to_batches():
        for number, own in by_partition(job, batch, groups) if is_dealt else [(group, batch)]:
            yield number, labelled(own, _NEW, number, place)


def changed_group(work: Change, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task that writes the change of some parts of the table, and new rows. If it fails, its files are removed."""
    parts: dict[int, AddressedFiles] = {}
    writers: list[TableWriter] = []
    try:
        with DealtRows() as dealt:
            for batch in batches:
                if table_of(batch) == PARTS:
                    parts.update(unpacked_parts(batch))
                else:
                    dealt.add(batch)
            tables = dealt.tables()
            if _FOUND in tables:
                found = pa.Table.from_batches(list(tables[_FOUND].batches()))
                for number, own in by_part(found):
                    writers.append(TableWriter(work.job))
                    yield work.answered(writers[-1], parts[number], own)
            if _NEW in tables:
                rows = tables[_NEW].batches()
                first = next(rows)
                writers.append(TableWriter(work.job))
                files = writers[-1].write(chain([first], rows), first.nbytes // max(1, first.num_rows))
                counts = {"inserted": sum(file.record_count for file in files)}
                yield answer((files, (WrittenChange(tuple(files)), counts, np.empty(0, dtype=np.int64))))
    except BaseException:
        for writer in writers:
            writer.remove()
        raise
