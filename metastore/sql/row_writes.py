"""Runs a statement that changes rows: plan on the newest version, write, commit; repeat if another writer was faster.

Place in the flow: INSERT, DELETE, UPDATE and MERGE describe their changes by a :class:`RowPlan`. Promises: each
statement makes one snapshot, based on the version that the statement read. A failed statement leaves no file and no
snapshot. If the outcome of a commit is unknown, all files stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from metastore.iceberg.contention import until_won
from metastore.iceberg.live_files import LiveFile
from metastore.iceberg.row_lineage import VERSION_OF_LINEAGE
from metastore.iceberg.target import TargetTable
from metastore.procedures.files.guards import require_written_version
from metastore.procedures.rewrite.job import RewriteJob
from metastore.sql.relations import Relations
from metastore.sql.target import StatementTarget
from metastore.writes.publication import publish_change
from metastore.writes.row_changes import LiveRows, RowChanges
from metastore.writes.table_writer import TableWriter, job_of

_COUNTS: Final = ("inserted", "updated", "deleted")
_ANSWER: Final[list[pa.Field[Any]]] = [pa.field(name, pa.int64()) for name in (*_COUNTS, "snapshot_id")]
_FIRST_GUESS: Final = 64
"""Bytes of a row if nothing else tells its size."""


@dataclass(frozen=True)
class Reading:
    """The input of a plan: one version of the table, its rows by address, and the names of the statement."""

    job: RewriteJob
    table: Table
    live: LiveRows
    relations: Relations


@dataclass(frozen=True)
class RowPlan:
    """``inserted`` are rows of ``job.arrow_schema``; ``dropped`` are files that are removed without being read."""

    inserted: pa.Table | None = None
    changes: RowChanges | None = None
    dropped: Sequence[LiveFile] = ()
    counts: Mapping[str, int] | None = None
    """Numbers of rows by ``inserted``, ``updated`` and ``deleted``."""


Planner = Callable[[Reading], RowPlan]


def run_change(target: StatementTarget, table: TargetTable, planner: Planner, *, only_adds: bool = False) -> pa.Table:
    """Returns one row: the numbers of rows inserted, updated and deleted, and the snapshot; NULL when nothing changed.

    With ``only_adds`` the plan changes no existing row. Then rows have no addresses, and are written once even if the
    commit is tried several times.

    Raises the errors of ``planner``, ConflictError if other writers kept winning, StorageError, OutcomeUnknownError.
    """
    change = _Change(target, table, planner, only_adds)
    try:
        row = until_won(table, target.settings.iceberg.commit.timeout, change.attempt)
    except BaseException:
        change.remove()
        raise
    return pa.Table.from_pylist([row], pa.schema(_ANSWER))


class _Change:
    """The attempts of one statement."""

    def __init__(self, target: StatementTarget, table: TargetTable, planner: Planner, only_adds: bool) -> None:
        self._target = target
        self._table = table
        self._planner = planner
        self._only_adds = only_adds
        self._writer: TableWriter | None = None
        self._appended: tuple[TableMetadata, list[DataFile], RowPlan] | None = None

    def attempt(self, loaded: Table) -> dict[str, int | None]:
        """Plan, write and commit on ``loaded``. Raises as :func:`run_change`."""
        require_written_version(loaded, self._table)
        files, plan, gone = self._written(loaded)
        counts: dict[str, int | None] = {name: (plan.counts or {}).get(name, 0) for name in _COUNTS}
        if not files and not gone:
            return {**counts, "snapshot_id": None}
        now_ms = self._target.metastore.clock.now_ms()
        writer = self._writer
        assert writer is not None
        try:
            with writer.committing():
                snapshot_id = publish_change(self._table, loaded, now_ms, files, gone)
        except CommitFailedException:
            if self._appended is None:
                self.remove()
            raise
        return {**counts, "snapshot_id": snapshot_id}

    def remove(self) -> None:
        """Delete the files that were written."""
        if self._writer is not None:
            self._writer.remove()
        self._writer = self._appended = None

    def _written(self, loaded: Table) -> tuple[list[DataFile], RowPlan, list[LiveFile]]:
        """Returns the new files, and the files that they replace. Rows that are only added are written once."""
        metadata = loaded.metadata
        if self._appended is not None and _is_written_alike(self._appended[0], metadata):
            return self._appended[1], self._appended[2], []
        self.remove()
        job = job_of(str(self._table), metadata, loaded.io)
        live = LiveRows((), (), ()) if self._only_adds else LiveRows.of(metadata, loaded.io)
        relations = Relations(self._target)
        relations.pin(self._table, loaded, None if self._only_adds else live)
        plan = self._planner(Reading(job, loaded, live, relations))
        if plan.changes is not None and metadata.format_version >= VERSION_OF_LINEAGE:
            job = replace(job, keeps_lineage=True)
        self._writer = TableWriter(job)
        changed = plan.changes.changed_files if plan.changes else []
        gone = [*plan.dropped, *(live.files[number] for number in changed)]
        files = self._writer.write(_rows(job, live, plan), _row_bytes(plan, gone)) if changed or plan.inserted else []
        known = {each.place for each in gone}
        gone += [each for each in live.vectors_of(gone) if each.place not in known]
        if self._only_adds:
            self._appended = metadata, files, plan
        return files, plan, gone


def _rows(job: RewriteJob, live: LiveRows, plan: RowPlan) -> Iterator[pa.RecordBatch]:
    if plan.changes is not None:
        yield from plan.changes.rows(job, live)
    if plan.inserted is not None:
        rows = plan.inserted
        if job.keeps_lineage:
            for field in job.arrow_schema:
                if field.name not in rows.schema.names:
                    rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        yield from rows.to_batches()


def _row_bytes(plan: RowPlan, gone: Sequence[LiveFile]) -> int:
    if plan.inserted is not None and plan.inserted.num_rows:
        return plan.inserted.nbytes // plan.inserted.num_rows
    rows = sum(live.file.record_count for live in gone)
    return sum(live.file.file_size_in_bytes for live in gone) // rows if rows else _FIRST_GUESS


def _is_written_alike(one: TableMetadata, other: TableMetadata) -> bool:
    """Whether files that were written for ``one`` are the same as files for ``other`` would be."""
    return (
        one.table_uuid == other.table_uuid
        and one.location == other.location
        and one.current_schema_id == other.current_schema_id
        and one.default_spec_id == other.default_spec_id
        and one.default_sort_order_id == other.default_sort_order_id
        and one.format_version == other.format_version
    )
