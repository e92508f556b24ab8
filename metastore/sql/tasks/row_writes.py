"""Runs a statement that changes rows: plan on the newest version, write, commit; repeat if another writer was faster.

Place in the flow: INSERT, DELETE, UPDATE and MERGE describe their changes by a :class:`RowPlan`. Promises: each
statement makes one snapshot, based on the version that the statement read. A failed statement leaves no file and no
snapshot. If the outcome of a commit is unknown, all files stay. After a lost race, written files that still fit are
committed again (:mod:`metastore.lake.writes.kept_work`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.rows.live_files import LiveFile
from metastore.lake.iceberg.rows.row_lineage import VERSION_OF_LINEAGE
from metastore.lake.iceberg.snapshots.contention import until_won
from metastore.lake.iceberg.snapshots.valid_updates import require_known_transforms
from metastore.lake.writes.audit import Head
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.kept_work import adds_no_match, is_written_alike, still_gone
from metastore.lake.writes.publication import publish_change
from metastore.lake.writes.row_changes import LiveRows
from metastore.lake.writes.row_modes import Kind, RowMode
from metastore.lake.writes.table_writer import TableWriter, job_of
from metastore.lake.writes.written_change import RowPlan, write_change
from metastore.procedures.files.guards import require_written_version
from metastore.sql.queries.relations import Relations
from metastore.sql.target import StatementTarget

_COUNTS: Final = ("inserted", "updated", "deleted")
_ANSWER: Final[list[pa.Field[Any]]] = [
    *(pa.field(name, pa.int64()) for name in (*_COUNTS, "snapshot_id")),
    pa.field("engine", pa.string()),
]


@dataclass(frozen=True, kw_only=True)
class StatementReading:
    """The input of a plan: one version of the table, its rows by address, and the names of the statement.

    ``mode`` says how rows change, ``writer`` writes files, and knows those of tasks. ``explains``: nothing is written;
    the plan has lines only.
    """

    job: RewriteJob
    table: Table
    live: LiveRows
    relations: Relations
    mode: RowMode
    writer: TableWriter
    branch: str | None = None
    """The branch that the statement names."""
    explains: bool = False


Planner = Callable[[StatementReading], RowPlan]


def run_change(
    target: StatementTarget,
    table: TargetTable,
    planner: Planner,
    kind: Kind | None,
    *,
    branch: str | None = None,
    makes_branch: bool = False,
    explains: bool = False,
) -> pa.Table:
    """Returns one row: the numbers of rows inserted, updated and deleted, the snapshot, and the engine.

    The snapshot is NULL when nothing changed. It is on ``branch``, or where the session and the table have it
    (:mod:`metastore.lake.writes.audit`). The engine is the one that ran the statement's query.
    ``kind`` chooses the properties of the table that say how rows change. With None the plan changes no existing row:
    then rows have no addresses, and are written once even if the commit is tried several times. With ``explains``, the
    statement does not run, and the rows are the lines of its plan. With ``makes_branch``, a branch that does not exist
    begins at the current snapshot.

    Raises the errors of ``planner``, ConflictError if other writers kept winning, StorageError, OutcomeUnknownError.
    """
    change = _Change(target, table, planner, kind, branch, makes_branch=makes_branch)
    if explains:
        return pa.table({"plan": pa.array(change.explain(table.load()), pa.string())})
    try:
        row = until_won(table, target.settings.iceberg.commit.timeout, change.attempt)
    except BaseException:
        change.remove()
        raise
    return pa.Table.from_pylist([row], pa.schema(_ANSWER))


@dataclass(frozen=True)
class _Work:
    """What one plan wrote: ``new`` files, and the files ``gone``. ``touched`` are numbers of changed data files."""

    base: TableMetadata
    live: LiveRows
    plan: RowPlan
    new: Sequence[DataFile]
    gone: Sequence[LiveFile]
    touched: frozenset[int]


class _Change:
    """The attempts of one statement."""

    def __init__(
        self,
        target: StatementTarget,
        table: TargetTable,
        planner: Planner,
        kind: Kind | None,
        branch: str | None,
        *,
        makes_branch: bool,
    ) -> None:
        self._target = target
        self._table = table
        self._planner = planner
        self._kind = kind
        self._branch = branch
        self._makes_branch = makes_branch
        self._writer: TableWriter | None = None
        self._work: _Work | None = None

    def attempt(self, loaded: Table) -> dict[str, int | str | None]:
        """Plan, write and commit on ``loaded``. Raises as :func:`run_change`."""
        require_written_version(loaded, self._table)
        head = self._head(loaded)
        mode = self._mode(loaded)
        work = self._reuse_work(head.read(loaded), mode)
        if work is None:
            self.remove()
            work = self._work = self._plan_and_write(loaded, mode)
        counts = {name: (work.plan.counts or {}).get(name, 0) for name in _COUNTS}
        if not work.new and not work.gone:
            return {**counts, "snapshot_id": None, "engine": work.plan.engine}
        now_ms = self._target.metastore.clock.now_ms()
        writer = self._writer
        assert writer is not None
        with writer.committing():
            snapshot_id = publish_change(self._table, loaded, now_ms, work.new, work.gone, head)
        return {**counts, "snapshot_id": snapshot_id, "engine": work.plan.engine}

    def remove(self) -> None:
        """Delete the files that were written."""
        if self._writer is not None:
            self._writer.remove()
        self._writer = self._work = None

    def _head(self, loaded: Table) -> Head:
        audit, name = self._target.catalogs.audit, str(self._table)
        return audit.head(name, loaded.metadata, self._branch, may_be_new=self._makes_branch)

    def _mode(self, loaded: Table) -> RowMode:
        if self._kind is None:
            return RowMode()
        metadata = loaded.metadata
        return RowMode.of(str(self._table), metadata.properties, metadata.format_version, self._kind)

    def _reuse_work(self, loaded: Table, mode: RowMode) -> _Work | None:
        """Returns the work of the previous attempt as it fits ``loaded``; None if the statement is planned again."""
        work, metadata = self._work, loaded.metadata
        if work is None or not is_written_alike(work.base, metadata):
            return None
        if self._kind is None:
            return work
        now = LiveRows.of(metadata, loaded.io)
        gone = still_gone(work.live, now, work.touched, work.gone)
        if gone is None:
            return None
        fits = adds_no_match(work.live, now, metadata, loaded.io, work.plan.condition)
        return replace(work, gone=gone) if fits or not mode.is_serializable else None

    def _plan_and_write(self, loaded: Table, mode: RowMode) -> _Work:
        """Plan on ``loaded``, and write the new files."""
        reading = self._reading(loaded, mode)
        self._writer, live, metadata = reading.writer, reading.live, loaded.metadata
        plan = self._planner(reading)
        written = write_change(reading.writer, live, plan, mode)
        touched = written.removed | written.marked
        vectors = metadata.format_version >= VERSION_OF_LINEAGE
        gone = [live.files[number] for number in sorted(written.removed)]
        replaced = live.deletes_of(touched if vectors else written.removed)
        gone += {each.place: each for each in (*plan.dropped_deletes, *replaced)}.values()
        return _Work(metadata, live, plan, written.new, gone, touched)

    def explain(self, loaded: Table) -> list[str]:
        """Returns how the statement would run on ``loaded``."""
        require_written_version(loaded, self._table)
        plan = self._planner(replace(self._reading(loaded, self._mode(loaded)), explains=True))
        dropped = [f"Drop {len(plan.dropped)} files that are not read"] if plan.dropped else []
        return [*plan.lines[:1], *dropped, *plan.lines[1:]]

    def _reading(self, loaded: Table, mode: RowMode) -> StatementReading:
        read = self._head(loaded).read(loaded)
        job = job_of(str(self._table), loaded.metadata, loaded.io)
        live = LiveRows((), (), ()) if self._kind is None else LiveRows.of(read.metadata, loaded.io)
        require_known_transforms(str(self._table), loaded.metadata, (each.file.spec_id for each in live.files))
        relations = Relations(self._target)
        branch = self._branch if self._branch in loaded.metadata.refs else None  # a new one has no name in the query
        relations.pin(self._table, loaded, None if self._kind is None else live, branch)
        return StatementReading(
            job=job, table=loaded, live=live, relations=relations, mode=mode, writer=TableWriter(job), branch=branch
        )
