"""INSERT and CREATE TABLE AS by tasks: each runs the query over its part, and writes or hands over the rows.

Place in the flow: the statement has a divided query, and the columns that its values go to. With distribution ``none``
each task writes its rows. With ``hash`` a task deals them by partition, and further tasks write the rows of some
partitions each. A task holds some batches in memory; rows are sorted in temporary files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema

from metastore.errors import InvalidRequestError
from metastore.procedures.rewrite.job import RewriteJob
from metastore.sql.division import DividedQuery, Division
from metastore.sql.row_parts import RowPart
from metastore.sql.statement_tasks import ANSWERS, Dealt, answer, answers, task_count
from metastore.writes.conforming import conformed
from metastore.writes.distribution import by_partition, distribution
from metastore.writes.table_writer import TableWriter


@dataclass(frozen=True)
class InsertValues:
    """Which columns of ``schema`` a query's columns are, by position, and the ``fixed`` value of others.

    ``place`` is where an error is in the statement, or empty. The columns are cast to the types ``stored`` before. Rows
    in ``defaulted``, by the query's column, have the write default.
    """

    schema: Schema
    places: Sequence[int]
    fixed: Mapping[int, Any]
    place: str
    stored: pa.Schema | None = None
    defaulted: Mapping[int, Sequence[int]] = field(default_factory=dict)

    def rows(self, job: RewriteJob, batch: pa.RecordBatch | pa.Table) -> pa.Table:
        """Returns the table's rows for rows of the query. Raises InvalidRequestError for a value that does not fit."""
        rows = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        if self.stored is not None:
            rows = rows.rename_columns(self.stored.names).cast(self.stored)
        given = {self.schema.fields[place].name: rows.column(at) for at, place in enumerate(self.places)}
        first = np.zeros(rows.num_rows, dtype=np.int64)
        given.update({self.schema.fields[place].name: value.take(first) for place, value in self.fixed.items()})
        defaulted = {self.schema.fields[self.places[at]].name: own for at, own in self.defaulted.items()}
        try:
            return conformed(given, self.schema, job.arrow_schema, rows.num_rows, defaulted)
        except InvalidRequestError as error:
            raise InvalidRequestError(f"{self.place}: {error}" if self.place else str(error)) from error


@dataclass(frozen=True)
class _Insert:
    """What all tasks of one statement share."""

    job: RewriteJob
    query: DividedQuery
    values: InsertValues

    def rows(self, part: RowPart) -> Iterator[pa.RecordBatch]:
        for batch in self.query.rows(part):
            yield from self.values.rows(self.job, batch).to_batches()


def insert_by_tasks(division: Division, values: InsertValues, writer: TableWriter) -> tuple[list[DataFile], int]:
    """Returns the files that tasks wrote for all rows of ``division``, and the number of rows.

    Raises as :meth:`metastore.sql.division.DividedQuery.rows`, :meth:`InsertValues.rows`, and
    :meth:`metastore.writes.table_writer.TableWriter.write`; EngineError if the engine fails.
    """
    files = writer.files_of_tasks()
    job = files.job
    mode = distribution(job.name, job.properties, is_partitioned=bool(job.output_spec.fields))
    work, engine = _Insert(job, division.query, values), division.engine
    tasks = task_count(engine)
    parts = division.rows.parts(tasks)
    if mode == "none":
        found = answers(engine, files, lambda able: able.run(parts, partial(_written, work), ANSWERS))
    else:
        deal, gather = partial(_dealt, work, tasks), partial(_gathered, job)
        found = answers(engine, files, lambda able: able.shuffle(parts, deal, gather, tasks, ANSWERS))
    new: list[DataFile] = []
    for made, _ in found:
        files.add(made)
        new += made
    return new, sum(file.record_count for file in new)


def _written(work: _Insert, part: RowPart) -> Iterator[pa.RecordBatch]:
    """The task without a distribution."""
    return _gathered(work.job, work.rows(part))


def _dealt(work: _Insert, groups: int, part: RowPart) -> Iterator[Dealt]:
    """The task that deals rows by partition."""
    for batch in work.rows(part):
        yield from by_partition(work.job, batch, groups)


def _gathered(job: RewriteJob, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task that writes rows. Yields one answer; none without rows. If it fails, its files are removed."""
    rows = iter(batches)
    first = next(rows, None)
    if first is None:
        return
    writer = TableWriter(job)
    try:
        files = writer.write(chain([first], rows), first.nbytes // max(1, first.num_rows))
    except BaseException:
        writer.remove()
        raise
    yield answer((files, None))
