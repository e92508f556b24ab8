"""DELETE, UPDATE and MERGE by tasks: each finds the rows of its own data files, and writes their change.

Place in the flow: a statement finds rows by a query, and turns them into a plan (:class:`RowsToPlan`). On this machine
this happens once. In tasks it happens for each part of the table: a task has whole data files, so it writes their
deletes or their new versions, and returns only what it has written. No address of a row leaves its task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from metastore.duck.queries import StreamedRows
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.row_changes import Numbers
from metastore.lake.writes.row_modes import RowMode
from metastore.lake.writes.table_writer import TableWriter
from metastore.lake.writes.written_change import RowPlan, WrittenChange, write_change
from metastore.sql.queries.composed_query import ComposedQuery
from metastore.sql.queries.divided_query import DividedQuery
from metastore.sql.queries.row_parts import AddressedFiles
from metastore.sql.queries.select import fetch_lines, streamed_rows
from metastore.sql.target import StatementTarget
from metastore.sql.tasks.division import Division, TablePart, divide_query
from metastore.sql.tasks.row_writes import StatementReading
from metastore.sql.tasks.statement_tasks import ANSWERS, answer, answers

_BY_ADDRESS: Final = "1 NULLS LAST, 2"
"""Sort keys of rows that were found: number of the file, number in the file. Rows of a source have no address."""

_AT_ONCE_BYTES: Final = 128 << 20
"""About the most bytes of such rows in memory, unless one file has more."""


SOURCE_ROW: Final = "$source_row"
"""A column of a query: the number of the source's row. Tasks return the numbers that they have found."""


class RowsToPlan(Protocol):
    """Turns the rows that a query found into the change of a table. It pickles."""

    def plan(self, rows: pa.Table) -> RowPlan:
        """Returns the change. Raises InvalidRequestError, with line and column, for a value that does not fit."""


@dataclass(frozen=True)
class StatementChange:
    """What all tasks of one statement share; ``columns`` are those of the rows that ``query`` finds."""

    job: RewriteJob
    query: DividedQuery
    columns: pa.Schema
    composed: ComposedQuery
    to_plan: RowsToPlan
    mode: RowMode

    def write_and_answer(self, writer: TableWriter, part: AddressedFiles, rows: pa.Table) -> pa.RecordBatch:
        """Write the change of ``part`` for the rows that were found in it; returns the answer of the task."""
        plan = self.to_plan.plan(rows)
        written = write_change(writer, part.live, plan, self.mode)
        source_rows = np.empty(0, dtype=np.int64)
        if SOURCE_ROW in rows.column_names:
            source_rows = np.unique(rows.column(SOURCE_ROW).drop_null().to_numpy())
        return answer((written.new, (written.with_numbers(part.numbers), dict(plan.counts or {}), source_rows)))


@dataclass(frozen=True)
class TaskChanges:
    """What tasks have written, as a plan, and the numbers of the source's rows that they found."""

    plan: RowPlan
    source_rows: Numbers


def plan_change(
    target: StatementTarget, composed: ComposedQuery, reading: StatementReading, to_plan: RowsToPlan
) -> RowPlan:
    """Returns the plan of a statement whose rows the query ``composed`` finds: here, or by tasks that write it.

    Raises the errors of the query and of ``to_plan``.
    """
    if reading.explains:
        return explain_change(target, composed, reading)
    found = changed_by_tasks(target, composed, reading, to_plan)
    if found is not None:
        return found.plan
    with ExitStack() as opened:
        with composed.errors():
            rows = opened.enter_context(streamed_rows(composed.query(), reading.relations, _BY_ADDRESS))
        return _changed_here(reading, by_files(composed, rows), to_plan)


def _changed_here(reading: StatementReading, tables: Iterator[pa.Table], to_plan: RowsToPlan) -> RowPlan:
    """Write the change for the rows of one table after another; new rows are last."""
    written, counts = WrittenChange(), Counter[str]()

    def planned_next(table: pa.Table) -> RowPlan:
        plan = to_plan.plan(table)
        counts.update(plan.counts or {})
        return plan

    def new_rows(first: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from first
        for table in tables:
            yield from planned_next(table).inserted or ()

    for table in tables:
        plan = planned_next(table)
        if plan.inserted is not None:
            plan = replace(plan, inserted=new_rows(plan.inserted))
        written += write_change(reading.writer, reading.live, plan, reading.mode)
    return RowPlan(written=written, counts=counts)


def by_files(composed: ComposedQuery, rows: StreamedRows) -> Iterator[pa.Table]:
    """Yields ``rows`` in tables of about :data:`_AT_ONCE_BYTES`, at least one; rows of one file are in one table.

    They are sorted by :data:`_BY_ADDRESS`, or at least by their file.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    while True:
        with composed.errors():
            batch = next(rows.batches, None)
        if batch is None:
            break
        held.append(batch)
        size += batch.nbytes
        if size >= _AT_ONCE_BYTES:
            table = pa.Table.from_batches(held)
            last = table.column(0)[-1].as_py()
            first = table.num_rows if last is None else table.column(0).index(last).as_py()
            if first:
                yield table.slice(0, first)
                held, size = table.slice(first).to_batches(), 0
    yield pa.Table.from_batches(held, rows.schema)


def explain_change(target: StatementTarget, composed: ComposedQuery, reading: StatementReading) -> RowPlan:
    """Returns the lines that EXPLAIN prints: where the query runs, and which part of each table it fetches."""
    with composed.errors():
        line = divide_query(target, composed.query(), reading.relations).line
        return RowPlan(lines=[line, *fetch_lines(composed.query(), reading.relations)])


def changed_by_tasks(
    target: StatementTarget, composed: ComposedQuery, reading: StatementReading, to_plan: RowsToPlan
) -> TaskChanges | None:
    """Returns what tasks have written; None if the statement runs on this machine. Raises as :func:`plan_change`."""
    with composed.errors():
        division = divide_query(target, composed.query(), reading.relations)
    if not isinstance(division, Division):
        return None
    to_plan.plan(division.columns.empty_table())  # a type that does not fit is refused here
    files = reading.writer.files_of_tasks()
    work = StatementChange(files.job, division.query, division.columns, composed, to_plan, reading.mode)
    parts, task = division.parts(), partial(_run_change, work)
    written, counts = WrittenChange(), Counter[str]()
    numbers = [np.empty(0, dtype=np.int64)]

    for made, (own, own_counts, source_rows) in answers(
        division.engine, files, lambda able: able.run(parts, task, ANSWERS)
    ):
        files.add(made)
        written += own
        counts.update(own_counts)
        numbers.append(source_rows)
    plan = RowPlan(written=written, counts=counts, engine=division.engine.name)
    return TaskChanges(plan, np.unique(np.concatenate(numbers)))


def _run_change(work: StatementChange, part: TablePart) -> Iterator[pa.RecordBatch]:
    """The task: writes the change of its files. If it fails, its files are removed."""
    assert isinstance(part.rows, AddressedFiles)
    with work.composed.errors():
        found = list(work.query.rows({part.table: part.rows}))
    rows = pa.Table.from_batches(found, found[0].schema if found else work.columns)
    writer = TableWriter(work.job)
    try:
        yield work.write_and_answer(writer, part.rows, rows)
    except BaseException:
        writer.remove()
        raise
