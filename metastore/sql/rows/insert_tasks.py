"""INSERT and CREATE TABLE AS by tasks: each runs the query over its part, and writes or hands over the rows.

Place in the flow: the statement has a divided query, or the rows of an engine's own query, and the columns that its
values go to. With distribution ``none`` each task that runs the query writes its rows. With ``hash`` it deals them by
partition, and further tasks write the rows of some partitions each. A task holds some batches in memory; rows are
sorted in temporary files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyiceberg.manifest import DataFile

from metastore.lake.writes.distribution import by_partition, distribution
from metastore.lake.writes.insert_values import InsertValues
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.table_writer import TableWriter
from metastore.lake.writes.task_files import TaskFiles
from metastore.sql.queries.divided_query import DividedQuery
from metastore.sql.target import Dealt, QueriedRows, Rows
from metastore.sql.tasks.division import Division, TablePart
from metastore.sql.tasks.statement_tasks import ANSWERS, answer, answers

_GROUPS: Final = 1 << 20
"""Numbers for groups of an engine's rows. The engine decides how many of them come to one task."""


@dataclass(frozen=True)
class _Insert:
    """What all tasks of one statement share."""

    job: RewriteJob
    query: DividedQuery
    values: InsertValues

    def of_part(self, part: TablePart) -> Iterator[pa.RecordBatch]:
        """Yields the table's rows for a part of the only divided table that it has rows of."""
        for batch in self.query.rows({part.table: part.rows}):
            yield from self.values.rows(self.job, batch).to_batches()


def insert_rows(
    rows: Iterator[pa.RecordBatch], values: InsertValues, writer: TableWriter
) -> tuple[list[DataFile], int]:
    """Returns the files of this machine for ``rows`` of a query, which are read once, and the number of rows.

    Raises as :func:`insert_by_tasks`, and the errors of reading ``rows``.
    """
    job = writer.job
    files = writer.write(own for batch in rows for own in values.rows(job, batch).to_batches())
    return files, sum(file.record_count for file in files)


def insert_by_tasks(division: Division, values: InsertValues, writer: TableWriter) -> tuple[list[DataFile], int]:
    """Returns the files that tasks wrote for all rows of ``division``, and the number of rows.

    Raises as :meth:`metastore.sql.queries.divided_query.DividedQuery.rows`, :meth:`InsertValues.rows`, and
    :meth:`metastore.lake.writes.table_writer.TableWriter.write`; EngineError if the engine fails.
    """
    files = writer.files_of_tasks()
    job = files.job
    mode = distribution(job.name, job.properties, is_partitioned=bool(job.output_spec.fields))
    if division.chosen.is_random:
        mode = "none"  # a task that runs again would deal other rows: some would be lost, others written twice
    work, parts, groups = _Insert(job, division.query, values), division.parts(), division.groups
    if mode == "none":
        found = answers(division.engine, files, lambda able: able.run(parts, partial(_write_part, work), ANSWERS))
    else:
        deal, gather = partial(_dealt, work, groups), partial(_write_batches, job)
        found = answers(division.engine, files, lambda able: able.shuffle(parts, deal, gather, groups, ANSWERS))
    return _files_of(found, files)


def insert_queried(rows: QueriedRows, values: InsertValues, writer: TableWriter) -> tuple[list[DataFile], int]:
    """Returns the files that tasks of the engine wrote for all ``rows`` of its query, and the number of rows.

    Raises as :func:`insert_by_tasks`.
    """
    files = writer.files_of_tasks()
    job = files.job
    values.require_storable(job, rows.columns)
    stored = partial(_convert_rows, job, values)
    if distribution(job.name, job.properties, is_partitioned=bool(job.output_spec.fields)) == "none":
        found = answers(rows.engine, files, lambda _: rows.answers(partial(_written_as, stored, job), ANSWERS))
    else:
        deal, gather = partial(_dealt_as, stored, job), partial(_write_batches, job)
        found = answers(rows.engine, files, lambda _: rows.dealt_answers(deal, gather, ANSWERS))
    return _files_of(found, files)


def _files_of(found: Iterator[Any], files: TaskFiles) -> tuple[list[DataFile], int]:
    """Returns the files of the answers ``found``, and the number of their rows."""
    new: list[DataFile] = []
    for made, _ in found:
        files.add(made)
        new += made
    return new, sum(file.record_count for file in new)


def _convert_rows(job: RewriteJob, values: InsertValues, batches: Rows) -> Rows:
    """Yields the table's rows for rows of a query."""
    for batch in batches:
        yield from values.rows(job, batch).to_batches()


def _written_as(stored: Callable[[Rows], Rows], job: RewriteJob, batches: Rows) -> Rows:
    """The task that writes rows of a query."""
    return _write_batches(job, stored(batches))


def _dealt_as(stored: Callable[[Rows], Rows], job: RewriteJob, batches: Rows) -> Iterator[Dealt]:
    """The task that deals rows of a query by partition."""
    for batch in stored(batches):
        yield from by_partition(job, batch, _GROUPS)


def _write_part(work: _Insert, part: TablePart) -> Iterator[pa.RecordBatch]:
    """The task that reads and writes rows."""
    return _write_batches(work.job, work.of_part(part))


def _dealt(work: _Insert, groups: int, part: TablePart) -> Iterator[Dealt]:
    """The task that deals the rows of the query by partition."""
    for batch in work.of_part(part):
        yield from by_partition(work.job, batch, groups)


def _write_batches(job: RewriteJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task that writes rows. Yields one answer. If it fails, its files are removed."""
    writer = TableWriter(job)
    try:
        files = writer.write(batches)
    except BaseException:
        writer.remove()
        raise
    yield answer((files, None))
