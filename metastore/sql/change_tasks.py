"""DELETE, UPDATE and MERGE by tasks: each finds the rows of its own data files, and writes their change.

Place in the flow: a statement finds rows by a query, and turns them into a plan (:class:`RowsToPlan`). On this machine
this happens once. In tasks it happens for each part of the table: a task has whole data files, so it writes their
deletes or their new versions, and returns only what it has written. No address of a row leaves its task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from metastore.procedures.rewrite.job import RewriteJob
from metastore.sql.composed import Composed
from metastore.sql.division import DividedQuery, Division, divided
from metastore.sql.row_parts import AddressedFiles
from metastore.sql.row_writes import Reading
from metastore.sql.select import fetch_lines, rows_of
from metastore.sql.statement_tasks import ANSWERS, answer, answers, task_count
from metastore.sql.target import StatementTarget
from metastore.writes.row_changes import Numbers
from metastore.writes.row_modes import RowMode
from metastore.writes.table_writer import TableWriter
from metastore.writes.written_change import RowPlan, WrittenChange, write_change

SOURCE_ROW = "$source_row"
"""A column of a query: the number of the source's row. Tasks return the numbers that they have found."""


class RowsToPlan(Protocol):
    """Turns the rows that a query found into the change of a table. It pickles."""

    def plan(self, rows: pa.Table) -> RowPlan:
        """Returns the change. Raises InvalidRequestError, with line and column, for a value that does not fit."""


@dataclass(frozen=True)
class TaskChanges:
    """What tasks have written, as a plan, and the numbers of the source's rows that they found."""

    plan: RowPlan
    source_rows: Numbers


def planned(target: StatementTarget, composed: Composed, reading: Reading, to_plan: RowsToPlan) -> RowPlan:
    """Returns the plan of a statement whose rows the query ``composed`` finds: here, or by tasks that write it.

    Raises the errors of the query and of ``to_plan``.
    """
    if reading.explains:
        return explained(target, composed, reading)
    found = changed_by_tasks(target, composed, reading, to_plan)
    if found is not None:
        return found.plan
    with composed.errors():
        rows = rows_of(composed.query(), reading.relations)
    return to_plan.plan(rows)


def explained(target: StatementTarget, composed: Composed, reading: Reading) -> RowPlan:
    """Returns the lines that EXPLAIN prints: where the query runs, and which part of each table it fetches."""
    with composed.errors():
        line = divided(target, composed.query(), reading.relations).line
        return RowPlan(lines=[line, *fetch_lines(composed.query(), reading.relations)])


def changed_by_tasks(
    target: StatementTarget, composed: Composed, reading: Reading, to_plan: RowsToPlan
) -> TaskChanges | None:
    """Returns what tasks have written; None if the statement runs on this machine. Raises as :func:`planned`."""
    with composed.errors():
        division = divided(target, composed.query(), reading.relations)
    if not isinstance(division, Division):
        return None
    to_plan.plan(division.columns.empty_table())  # a type that does not fit is refused here
    files = reading.writer.files_of_tasks()
    work = _Change(files.job, division.query, division.columns, composed, to_plan, reading.mode)
    parts = division.rows.parts(task_count(division.engine))
    written, counts = WrittenChange(), Counter[str]()
    numbers = [np.empty(0, dtype=np.int64)]
    for made, (own, own_counts, source_rows) in answers(
        division.engine, files, lambda able: able.run(parts, partial(_changed, work), ANSWERS)
    ):
        files.add(made)
        written += own
        counts.update(own_counts)
        numbers.append(source_rows)
    plan = RowPlan(written=written, counts=counts, engine=division.engine.name)
    return TaskChanges(plan, np.unique(np.concatenate(numbers)))


@dataclass(frozen=True)
class _Change:
    """What all tasks of one statement share."""

    job: RewriteJob
    query: DividedQuery
    columns: pa.Schema
    composed: Composed
    to_plan: RowsToPlan
    mode: RowMode


def _changed(work: _Change, part: AddressedFiles) -> Iterator[pa.RecordBatch]:
    """The task: writes the change of its files. If it fails, its files are removed."""
    with work.composed.errors():
        found = list(work.query.rows(part))
    rows = pa.Table.from_batches(found, found[0].schema if found else work.columns)
    plan = work.to_plan.plan(rows)
    writer = TableWriter(work.job)
    try:
        written = write_change(writer, part.live, plan, work.mode)
    except BaseException:
        writer.remove()
        raise
    source_rows = np.empty(0, dtype=np.int64)
    if SOURCE_ROW in rows.column_names:
        source_rows = np.unique(rows.column(SOURCE_ROW).drop_null().to_numpy())
    yield answer((written.new, (written.numbered(part.numbers), dict(plan.counts or {}), source_rows)))
