"""MERGE by an engine's own join: pairs of rows come to the tasks that change their files.

Place in the flow: MERGE makes one query over the table, whose rows have addresses, and its source
(:mod:`metastore.sql.rows.merge`). The engine joins both by its own plan, so sources may have any size. Rows of one file
come to one task, which writes the file's change. New rows of one partition come to one task, so that each partition
gets few files; those of a table without partitions are spread over tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.duck.queries import StreamedRows
from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.writes.distribution import by_group, distribution, partition_groups
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.row_changes import FILE, ROW, LiveRows
from metastore.lake.writes.row_modes import RowMode
from metastore.lake.writes.table_writer import TableWriter
from metastore.lake.writes.written_change import RowPlan, WrittenChange, write_change
from metastore.sql.queries.composed_query import ComposedQuery
from metastore.sql.queries.push_down import AskedRows
from metastore.sql.queries.relation import Relation
from metastore.sql.queries.row_parts import AddressedFiles
from metastore.sql.rows.merged_rows import MergedRows
from metastore.sql.target import Dealt, QueriedRows, ReadRows, Rows
from metastore.sql.tasks.change_tasks import by_files
from metastore.sql.tasks.row_writes import StatementReading
from metastore.sql.tasks.statement_tasks import ANSWERS, answer, answers

_LAST: Final = (1 << 31) - 1
_SPREAD: Final = 1 << 10
"""Groups of new rows. Their numbers are the greatest, so that new rows are last in their task."""

_PARTS: Final = 1 << 10
"""The most tasks that read the table."""


def addressed_table(reading: StatementReading, table: TargetTable, asked: AbstractSet[str]) -> ReadRows:
    """Returns all rows of ``table`` with their addresses, in the columns whose names in lower case are ``asked``."""
    relation = reading.relations.resolve(
        [table.catalog_name, *table.schema_name.split("."), table.name], reading.branch, unlisted=(FILE, ROW)
    )
    assert isinstance(relation, Relation)
    hidden = {name.lower() for name in relation.unlisted}
    names = [name for name in relation.schema.names if name.lower() in asked and name.lower() not in hidden]
    columns = (*names, FILE, ROW)
    stored = relation.on_store(AskedRows(columns))
    if stored is None:
        raise InvalidRequestError(f"{table} has rows that tasks cannot read; leave out the engine")
    schema = relation.part(columns)
    return ReadRows(stored.parts(_PARTS), partial(_number_files, schema), schema)


def merge_queried(rows: QueriedRows, reading: StatementReading, merged: MergedRows, composed: ComposedQuery) -> RowPlan:
    """Returns what tasks have written for ``rows``, pairs of rows in the columns of ``composed``.

    Raises InvalidRequestError for a row that is changed twice, and for a value that does not fit; EngineError.
    """
    merged.require_zones(rows.columns)
    files = reading.writer.files_of_tasks()
    work = _Merge(files.job, reading.live, merged, reading.mode, rows.columns, composed)
    written, counts = WrittenChange(), Counter[str]()
    job = files.job
    is_partitioned = bool(job.output_spec.fields)
    by_partition = distribution(job.name, job.properties, is_partitioned=is_partitioned) == "hash"
    deal = partial(_dealt, job, merged if by_partition else None)
    found = answers(rows.engine, files, lambda _: rows.dealt_answers(deal, work.change_files, ANSWERS))
    for made, (own, own_counts) in found:
        files.add(made)
        written += own
        counts.update(own_counts)
    return RowPlan(written=written, counts=counts, engine=rows.engine.name)


@dataclass(frozen=True)
class _Merge:
    """What all tasks of one statement share."""

    job: RewriteJob
    live: LiveRows
    merged: MergedRows
    mode: RowMode
    columns: pa.Schema
    composed: ComposedQuery

    def change_files(self, batches: Rows) -> Iterator[pa.RecordBatch]:
        """The task that changes files: all pairs of a file are in ``batches``, and new rows are last."""
        writer = TableWriter(self.job)
        written, counts = WrittenChange(), Counter[str]()
        first = next(batches, None)
        if first is None:
            return
        try:
            for rows in by_files(self.composed, StreamedRows(first.schema, _chain(first, batches))):
                own, own_counts = self._change_rows(writer, rows)
                written += own
                counts.update(own_counts)
        except BaseException:
            writer.remove()
            raise
        yield answer((written.new, (written, dict(counts))))

    def _change_rows(self, writer: TableWriter, rows: pa.Table) -> tuple[WrittenChange, Counter[str]]:
        """Write the change of the files whose pairs are ``rows``, numbered in them as in the table."""
        numbers = pc.unique(rows.column(0).drop_null())
        local: Any = pc.index_in(rows.column(0), numbers).cast(pa.int64())
        known = [int(each) for each in numbers.to_numpy()]
        plan = self.merged.plan(rows.set_column(0, FILE, local))
        written = write_change(writer, self.live.part(known), plan, self.mode)
        return written.with_numbers(known), Counter(plan.counts or {})


def _chain(first: pa.RecordBatch, batches: Rows) -> Rows:
    yield first
    yield from batches


def _number_files(schema: pa.Schema, part: AddressedFiles) -> Rows:
    """The task that reads files of the table: addresses have the files' numbers in the table."""
    numbers: Any = pa.array(part.numbers, pa.int64())
    place = schema.get_field_index(FILE)
    for batch in part.batches():
        columns = list(batch.columns)
        columns[place] = numbers.take(batch.column(place))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _dealt(job: RewriteJob, merged: MergedRows | None, batches: Rows) -> Iterator[Dealt]:
    """The task that deals pairs: those of a file to its number, new rows by partition; without ``merged`` evenly."""
    for batch in batches:
        files = batch.column(0)
        spread = np.arange(batch.num_rows) % _SPREAD
        if merged is not None:
            _spread_by_partition(job, merged, batch, spread)
        groups = np.where(files.is_null().to_numpy(zero_copy_only=False), _LAST - spread, files.fill_null(0).to_numpy())
        yield from by_group(batch, groups)


def _spread_by_partition(job: RewriteJob, merged: MergedRows, batch: pa.RecordBatch, spread: Any) -> None:
    """Sets the group of each new row of ``batch`` in ``spread``, which has one number for each row."""
    action: Any = batch.column(2)
    for number, clause in enumerate(merged.clauses):
        is_new = pc.equal(action, pa.scalar(number)).fill_null(False).to_numpy(zero_copy_only=False)
        if clause.action == "insert" and is_new.any():
            # The rows of one clause keep their order.
            rows = pa.Table.from_batches([batch]).filter(pa.array(is_new))
            inserted = merged.plan(rows).inserted or ()
            spread[is_new] = np.concatenate([partition_groups(job, each, _SPREAD) for each in inserted])
