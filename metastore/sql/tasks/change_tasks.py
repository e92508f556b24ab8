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

import numpy as np
import pyarrow as pa

from metastore.lake.writes.row_changes import Numbers
from metastore.lake.writes.table_writer import TableWriter
from metastore.lake.writes.written_change import RowPlan, WrittenChange
from metastore.sql.queries.composed import Composed
from metastore.sql.queries.row_parts import AddressedFiles
from metastore.sql.queries.select import fetch_lines, rows_of
from metastore.sql.target import StatementTarget
from metastore.sql.tasks.change_groups import Change, RowsToPlan, changed_group, found_in_group
from metastore.sql.tasks.division import Division, divided
from metastore.sql.tasks.row_dealing import TablePart
from metastore.sql.tasks.row_writes import Reading
from metastore.sql.tasks.statement_tasks import ANSWERS, StatementEngine, answers


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
    target: StatementTarget, composed: Composed, reading: Reading, to_plan: RowsToPlan, *, only_alone: bool = False
) -> TaskChanges | None:
    """Returns what tasks have written; None if the statement runs on this machine. Raises as :func:`planned`.

    ``only_alone`` is as of :func:`metastore.sql.tasks.division.divided`.
    """
    with composed.errors():
        division = divided(target, composed.query(), reading.relations, only_alone=only_alone)
    if not isinstance(division, Division):
        return None
    to_plan.plan(division.columns.empty_table())  # a type that does not fit is refused here
    files = reading.writer.files_of_tasks()
    work = Change(files.job, division.query, division.columns, composed, to_plan, reading.mode)
    parts, dealing, groups = division.parts(), division.dealing, division.groups
    written, counts = WrittenChange(), Counter[str]()
    numbers = [np.empty(0, dtype=np.int64)]

    def run(able: StatementEngine) -> Iterator[pa.RecordBatch]:
        if dealing is None:
            return able.run(parts, partial(_changed, work), ANSWERS)
        found = partial(found_in_group, work, groups)
        return able.shuffle(parts, dealing.deal, [found], partial(changed_group, work), groups, ANSWERS)

    for made, (own, own_counts, source_rows) in answers(division.engine, files, run):
        files.add(made)
        written += own
        counts.update(own_counts)
        numbers.append(source_rows)
    plan = RowPlan(written=written, counts=counts, engine=division.engine.name)
    return TaskChanges(plan, np.unique(np.concatenate(numbers)))


def _changed(work: Change, part: TablePart) -> Iterator[pa.RecordBatch]:
    """The task: writes the change of its files. If it fails, its files are removed."""
    assert isinstance(part.rows, AddressedFiles)
    with work.composed.errors():
        found = list(work.query.rows({part.table: part.rows}))
    rows = pa.Table.from_batches(found, found[0].schema if found else work.columns)
    writer = TableWriter(work.job)
    try:
        yield work.answered(writer, part.rows, rows)
    except BaseException:
        writer.remove()
        raise
