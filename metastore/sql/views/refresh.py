"""REFRESH MATERIALIZED VIEW: reads new data, or everything, into a new folder; then one commit switches the view to it.

Until the commit, no step changes the rows that are served. The steps:

- List the files of the sources.
- Decide, by the files and column types of the last refresh: do nothing, read only new files, or read everything.
- Write the new folder, and analyze it.
- Check that the sources are still what was read.
- Commit location, status and the files that were read, as one change to the one row of the view. That row must not have
  changed meanwhile.

If a process dies on the way, it leaves a folder that nothing names. The folder is deleted when it is a day old, with
the folders that no kept version of the component names any more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import pyarrow as pa
from pyiceberg.expressions import EqualTo
from sqlglot import exp

from metastore.analyze.changes import state_of_files
from metastore.components.materialized_views import MaterializedViews
from metastore.duck.limits import limit_queries, limits_or
from metastore.errors import ConflictError, InvalidRequestError, MetastoreError, OutcomeUnknownError
from metastore.lake.formats.source_file import Fingerprint
from metastore.model.identity import TableInfo
from metastore.model.mapping.filters import all_of
from metastore.model.materialized_view_unit import MaterializedViewMetadataUnit, RefreshStatus
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import MetadataType
from metastore.scan.arrow_types import arrow_schema
from metastore.scan.pruning.row_id import ROW_ID
from metastore.scan.scan import Scan
from metastore.sql.views import fields
from metastore.sql.views.bound_query import bind_query
from metastore.sql.views.context import ViewSession, files_of, names_of, workspace_of
from metastore.sql.views.expansion import tables_of
from metastore.sql.views.folders import RefreshFolder, SourceFiles, Workspace, find_unneeded
from metastore.sql.views.freshness import (
    LastRefresh,
    SourceState,
    columns_read,
    digest_of,
    metadata_state,
    query_of,
    stands,
)
from metastore.sql.views.incremental import STATE, FullRefresh, IncrementalState, Rowwise, Way, is_steady, way_of
from metastore.sql.views.runner import Source, with_types
from metastore.sql.views.types import UNKNOWN

_log: Final = logging.getLogger(__name__)

LEFT_BEHIND_AFTER: Final = timedelta(days=1)
"""A younger folder may be one that a refresh is still writing, or that a reader still reads."""

Step = Callable[[str], None]
"""Called after each step: listed, written, analyzed, committed, swept."""


@dataclass(frozen=True)
class RefreshResult:
    """The result of a refresh. ``mode`` is "full", "incremental" or "up to date"; ``reason`` says why.

    ``files`` counts the files that were read, ``rows`` the view's rows now. ``version`` is the component's version that
    holds the result. ``sources`` are the tables of the query.
    """

    view: TableInfo
    mode: str
    reason: str
    files: int
    rows: int | None
    version: int
    engine: str | None
    seconds: float
    sources: Sequence[TableInfo]


@dataclass(frozen=True)
class _Decision:
    mode: str
    reason: str
    files: SourceFiles
    """The files to read, of each table by its name."""


def refresh(
    session: ViewSession,
    view: TableInfo | str,
    mode: str | None = None,
    *,
    keep_for: timedelta = LEFT_BEHIND_AFTER,
    on_step: Step | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> RefreshResult:
    """Bring the rows of the materialized view up to date with its sources.

    ``mode`` "full" reads everything; "incremental" raises an error instead of reading everything; None chooses.
    ``keep_for`` is how long folders that nothing names stay. Raises NotFoundError for an unknown view,
    InvalidRequestError for a read-only workspace and for "incremental" if that is impossible, ConflictError when the
    view or a source changed meanwhile, and EngineError when the time of a statement is over. After any error but
    OutcomeUnknownError, the previous rows are still served.
    """
    began, step_done = clock(), on_step or (lambda _: None)
    info = TableInfo.of(view)
    run = _Refresh(session, session.metastore.materialized_views.get(info))
    step_done("listed")
    decision = run.decide(mode)
    if decision.mode == "up to date":
        version = run.confirm(decision)
        return RefreshResult(info, decision.mode, decision.reason, 0, None, version, None, clock() - began, run.sources)
    folder = run.new_folder()
    folder.require_new()
    try:
        with limit_queries(limits_or(session.metastore.settings.sql)):
            engine = run.write(decision, folder)
            step_done("written")
            rows, schema = run.analyze(folder)
        if other := run.other_types(schema):
            _log.warning("%s takes new types: %s", info, other)
            decision = replace(decision, reason=f"{decision.reason}; {other}")
        step_done("analyzed")
        run.require_unchanged()
        version = run.commit(decision, folder, schema)
    except OutcomeUnknownError:
        raise  # the folder may already be the view's
    except Exception:
        with suppress(MetastoreError):  # remaining folders are deleted when they are old
            _discard(session, folder)
        raise
    step_done("committed")
    try:
        remove_unneeded(session, info, keep_for=keep_for)
    except MetastoreError as error:
        _log.warning("rows of earlier refreshes of %s could not be removed; the next one tries again: %s", info, error)
    step_done("swept")
    files, took = sum(map(len, decision.files.values())), clock() - began
    return RefreshResult(info, decision.mode, decision.reason, files, rows, version, engine, took, run.sources)


def remove_unneeded(
    session: ViewSession, view: TableInfo, *, keep_for: timedelta = LEFT_BEHIND_AFTER
) -> list[TableInfo]:
    """Delete the folders of ``view`` that no kept version of the component names and that are older than ``keep_for``.

    The view may be deleted already. Also deletes the metadata of their rows; returns the names of these tables.
    """
    workspace = workspace_of(session, view)
    component = session.metastore.materialized_views
    before = session.metastore.clock.now_ms() - keep_for // timedelta(milliseconds=1)
    current = _named_locations(component, workspace, [component.metadata.version])
    candidates = find_unneeded(workspace, view.name, current, before)
    if not candidates:
        return []
    kept = _named_locations(component, workspace, [version.version for version in component.metadata.history()])
    gone = [folder for folder in candidates if folder.data_location not in kept]
    for folder in gone:
        _discard(session, folder)
    return [folder.table for folder in gone]


class _Refresh:
    """One refresh: the view as it was read, its query, and its sources as they were listed."""

    def __init__(self, session: ViewSession, unit: MaterializedViewMetadataUnit) -> None:
        self._session = session
        self._unit = unit
        self._now_ms = session.metastore.clock.now_ms()
        self._workspace = workspace_of(session, unit.info)
        _require_writable(session, unit.info)
        names = names_of(session)
        names.require_outside_tables(unit.info)
        self._query = query_of(unit, names)
        self._digest = digest_of(unit, names)
        bound = bind_query(self._query, names)
        self._bound, self._schemas, self._unlisted = bound.bound, bound.schemas, bound.unlisted
        self._way: Way = way_of(self._bound, self._schemas)
        version = session.metastore.tables.metadata.version
        self._listed = {table: files_of(session, table) for table in tables_of(self._query)}
        self.sources = list(self._listed)
        self._used = {column.name.lower() for column in self._bound.query.find_all(exp.Column)}
        self._states = {
            table: SourceState(
                metadata_state(session.metastore, table),
                version,
                state_of_files(files),
                len(files),
                columns_read(names.get(table), self._used),
            )
            for table, files in self._listed.items()
        }

    def decide(self, mode: str | None) -> _Decision:
        """Decide which files are read, and why."""
        if mode not in (None, "full", "incremental"):
            raise InvalidRequestError(f"a refresh is full or incremental, not {mode!r}")
        every = {str(table): {f.path: f.fingerprint for f in files} for table, files in self._listed.items()}
        if mode == "full":
            return _Decision("full", "it was asked for", every)
        reason, new = self._against_last(every)
        if not reason and not any(new.values()):
            return _Decision("up to date", "no source has changed", {})
        if not reason and isinstance(self._way, FullRefresh):
            reason = self._way.reason
        if not reason:
            count = sum(map(len, new.values()))
            return _Decision("incremental", f"{count} new file{'s' if count > 1 else ''}, none changed or gone", new)
        if mode == "incremental":
            raise InvalidRequestError(f"{self._unit.info} cannot be refreshed incrementally: {reason}")
        return _Decision("full", reason, every)

    def new_folder(self) -> RefreshFolder:
        """Returns a new folder for the rows."""
        return self._workspace.new_folder(self._unit.info.name, self._now_ms)

    def write(self, decision: _Decision, folder: RefreshFolder) -> str:
        """Write the rows, and the data for a later refresh, into ``folder``; returns the name of the engine."""
        runner = self._session.query_runner(sum(map(len, decision.files.values())))
        schema = self._bound.schema
        last = self._last_folder() if decision.mode == "incremental" else None
        match self._way:
            case Rowwise(table, query):
                runner.write(with_types(query, schema), self._scans(decision, [table]), folder.rows)
                if last is not None:
                    folder.copy_rows_from(last)
            case IncrementalState(table, state, merged, rows):
                scans = self._scans(decision, [table])
                if last is None:
                    runner.write(state, scans, folder.state)
                else:
                    runner.write(state, scans, folder.new_state)
                    runner.write(merged, {STATE: (last.state, folder.new_state)}, folder.state)
                    folder.forget_new_state()
                runner.write(with_types(rows, schema), {STATE: (folder.state,)}, folder.rows)
            case FullRefresh(query):
                scans = self._scans(decision, self._bound.tables)
                runner.write(with_types(query, schema), scans, folder.rows)
        folder.complete({str(table): files for table, files in self._listed.items()})
        return runner.name

    def analyze(self, folder: RefreshFolder) -> tuple[int, TupleSchema]:
        """Analyze the rows in ``folder``; returns their number and columns."""
        result = self._session.analyze(folder.table)
        unit = self._session.metastore.tables.requests.table_metadata(folder.table)
        assert unit is not None
        assert result.rows is not None  # footers count rows
        return result.rows, TupleSchema.from_json(unit.schema or "{}")

    def other_types(self, schema: TupleSchema) -> str:
        """Returns which columns of the view get another type in ``schema``; empty for none."""
        had = TupleSchema.from_json(self._unit.schema or "{}").by_name
        # Before its first refresh, a view has the types to which its query was bound.
        gets = schema if self._unit.data_location is not None else self._bound.schema
        return ", ".join(
            f"column {column.name} is {column.type} now, it was {before.type}"
            for column in gets.columns
            if (before := had.get(column.name)) is not None
            and before.type != column.type
            and UNKNOWN not in (before.type, column.type)
        )

    def require_unchanged(self) -> None:
        """Raises ConflictError if a source is no longer as it was listed, and so may differ from what was read."""
        names = names_of(self._session)
        for table, state in self._states.items():
            others = state.other_column(columns_read(names.get(table), self._used))
            if others is not None or state_of_files(files_of(self._session, table)) != state.files:
                raise ConflictError(f"{table} changed while it was being read; nothing was changed, refresh again")

    def commit(self, decision: _Decision, folder: RefreshFolder, schema: TupleSchema) -> int:
        """Make ``folder`` the view's folder; returns the new version."""
        unit = replace(
            self._unit,
            schema=schema.to_json(),
            fields=fields.to_json(schema),
            data_location=folder.data_location,
            refresh_status=RefreshStatus.COMPLETE.value,
            last_refresh_time=self._now_ms,
        )
        return self._commit(unit, decision)

    def confirm(self, decision: _Decision) -> int:
        """Record that the rows are current; makes no new version if that is recorded already."""
        refreshed = LastRefresh.of(self._unit)
        assert refreshed is not None
        known = {table: (kept.metadata, kept.files) for table, kept in refreshed.sources.items()}
        if known == {table: (state.metadata, state.files) for table, state in self._states.items()}:
            return self._session.metastore.materialized_views.metadata.version
        return self._commit(replace(self._unit, last_refresh_time=self._now_ms), decision)

    def _commit(self, unit: MaterializedViewMetadataUnit, decision: _Decision) -> int:
        folder = self._workspace.folder(unit.data_location or "").digest()
        refreshed = LastRefresh(
            decision.mode, decision.reason, self._digest, is_steady(self._query), self._states, folder
        )
        return self._session.metastore.materialized_views.replace(refreshed.stored_in(unit), seen=self._unit)

    def _against_last(self, every: SourceFiles) -> tuple[str, SourceFiles]:
        """Returns why everything must be read (empty if not), and the files that the last refresh has not read."""
        refreshed = LastRefresh.of(self._unit)
        if refreshed is None or self._unit.data_location is None:
            return "it was never refreshed", {}
        if refreshed.query != self._digest:
            return "the query, or the query of a view that it reads, has changed", {}
        if not refreshed.steady:
            return "the query may return another result each time", {}
        if reason := self._other_columns(refreshed):
            return reason, {}
        last = self._last_folder()
        read = last.sources()
        whole = stands(self._session, self._unit, refreshed)
        if read is None or not whole or (isinstance(self._way, IncrementalState) and not last.has_state()):
            return "the files of the last refresh no longer exist", {}
        new: dict[str, dict[str, Fingerprint]] = {}
        for table, files in every.items():
            known = read.get(table, {})
            if gone := sorted(known.keys() - files.keys()):
                return f"{_first_paths(gone)} of {table} is gone", {}
            if changed := sorted(path for path in known if files[path] != known[path]):
                return f"{_first_paths(changed)} of {table} changed", {}
            new[table] = {path: fingerprint for path, fingerprint in files.items() if path not in known}
        return "", new

    def _other_columns(self, refreshed: LastRefresh) -> str:
        """Returns which column is read differently than in the last refresh; empty for none."""
        for table, state in self._states.items():
            kept = refreshed.sources.get(table)
            if kept is None or kept.columns is None:
                return f"the last refresh did not note the types of the columns of {table}"
            other = kept.other_column(state.columns or {})
            if other == "":
                return f"{table} is read in another format, with other options, or declared otherwise"
            if other is not None and other not in kept.columns:
                return f"column {other} of {table} is new"
            if other is not None:
                return f"the type of column {other} of {table} has changed"
        return ""

    def _last_folder(self) -> RefreshFolder:
        return self._workspace.folder(self._unit.data_location or "")

    def _scans(self, decision: _Decision, keys: Iterable[str]) -> dict[str, tuple[Source, ...]]:
        """Returns scans of the files to read, by the names that the query has for their tables."""
        scans: dict[str, tuple[Source, ...]] = {}
        for key in keys:
            table = self._bound.tables[key]
            scan = self._scan_of(table)
            # The types of the view's columns were derived from these.
            scan.require(pa.schema([f for f in arrow_schema(self._schemas[key]) if f.name.lower() in self._used]))
            wanted = decision.files.get(str(table), {})
            files = [file for file in scan.files if file.path in wanted]
            scans[key] = (replace(scan, plan=replace(scan.plan, files=files)),)
        return scans

    def _scan_of(self, table: TableInfo) -> Scan:
        """Returns a scan of all columns of ``table``, and of those that a query must name."""
        if not (more := self._unlisted.get(table)):
            return self._session.tables.scan(table)
        listed = [column.name for column in names_of(self._session).schema(table).columns]
        columns = [*listed, *(name for name in more if name != ROW_ID)]
        return self._session.tables.scan(table, None, columns, row_id=ROW_ID in more)


def _first_paths(paths: list[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def _require_writable(session: ViewSession, view: TableInfo) -> None:
    workspace = session.metastore.settings.storage[view.storage_plugin].workspaces[view.workspace]
    if not workspace.writable:
        raise InvalidRequestError(
            f"{view} cannot be refreshed: workspace {view.workspace} may not be written to; "
            f"set drill.metastore.storage.{view.storage_plugin}.workspaces.{view.workspace}.writable"
        )


def _discard(session: ViewSession, folder: RefreshFolder) -> None:
    session.drop_metadata(folder.table, if_exists=True)
    folder.remove()


def _named_locations(component: MaterializedViews, workspace: Workspace, versions: Iterable[int]) -> set[str]:
    """Returns the data locations in this workspace that any of ``versions`` names."""
    parts = {"storagePlugin": workspace.plugin, "workspace": workspace.name}
    of_workspace = all_of(EqualTo(term=column, value=value) for column, value in parts.items())
    named: set[str] = set()
    for version in versions:
        read = component.read().metadata_types(MetadataType.ALL).filter(of_workspace).columns("dataLocation")
        named.update(location for location in read.at(version).to_arrow()["dataLocation"].to_pylist() if location)
    return named
