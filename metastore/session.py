"""A session: an open metastore with its sources and an engine. Programs open one with ``metastore.connect()``.

A session resolves names and paths to source tables, and chooses the engine by the size of the work. The caller passes
Spark as a factory, so a program without Spark never imports it. Methods import modules on first use, because these
imports take longer than many commands run.
"""
# ruff: noqa: PLC0415 - opening a session imports little; each method imports what it needs

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final, cast

from metastore.components.catalogs import Catalogs
from metastore.components.metastore import Metastore
from metastore.components.storage.own_folders import folders_within
from metastore.components.storage.table import shared_look
from metastore.config import Settings
from metastore.engines.choice import EngineFactory, SessionEngines
from metastore.engines.engine import Engine
from metastore.engines.telemetry import operation
from metastore.errors import InvalidRequestError, MetastoreError, NotFoundError
from metastore.ground.suggestions import nearest
from metastore.model.identity import TableInfo
from metastore.sources.finding import FinderResources, found_table
from metastore.sources.naming import published_name, resolve
from metastore.sources.source_table import SourceTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from typing_extensions import Unpack

    from metastore.analyze.reading import Progress
    from metastore.analyze.request import AnalyzeOptions, AnalyzeRequest
    from metastore.analyze.result import AnalyzeResult
    from metastore.analyze.worklist import TableOutcome
    from metastore.components.information_schema import InformationSchema
    from metastore.components.integrity.findings import CheckReport
    from metastore.components.integrity.repair import RepairReport
    from metastore.components.storage.handover import TableRegistration
    from metastore.config.engine import QueryDialect
    from metastore.lake.stores.deletion_list import DeletionList
    from metastore.procedures.files.due_deletions import DueDeletions
    from metastore.procedures.framework.calls import Procedures
    from metastore.scan.pruning.result import PruneResult
    from metastore.scan.tables import ScannedTables
    from metastore.sources.database import DatabaseEngine, JdbcReader
    from metastore.sql.target import QueryEngine
    from metastore.sql.views.of_session import DefinedViews, RefreshedViews
    from metastore.sql.views.runner import QueryRunner

_log: Final = logging.getLogger(__name__)

TableLike = str | TableInfo | PurePath
"""A table by its name, ``plugin.workspace.table``, or by the path of its data."""


class Session:
    """A metastore, its sources, and an engine; a context manager.

    If ``engine`` is given, it runs all work, and the caller closes it. Otherwise the settings choose, by the size of
    the work, the local engine or the one of ``spark_engine``, which the session creates and closes.
    """

    def __init__(
        self, metastore: Metastore, engine: Engine | None = None, *, spark_engine: EngineFactory | None = None
    ) -> None:
        self.metastore = metastore
        self._engines = SessionEngines(metastore.settings.engine, engine, spark_engine, _log)
        self.catalogs = Catalogs(metastore)
        """All Iceberg tables with a name: the components, and the tables of ``drill.metastore.catalogs``."""

    def _repr_html_(self) -> str:
        """Show the metastore's location, storage plugins and catalogs in a notebook, without opening any of them."""
        from metastore.ground.notebook import facts

        settings, catalogs = self.settings, ", ".join(self.catalogs.names())
        rows = [("location", settings.iceberg.base_location), ("storage plugins", ", ".join(settings.storage))]
        return facts("metastore", [*rows, ("catalogs", catalogs), ("engine", settings.engine.kind)])

    @property
    def settings(self) -> Settings:
        """The settings that the metastore was opened with."""
        return self.metastore.settings

    @cached_property
    def _finder_resources(self) -> FinderResources:
        from metastore.lake.stores.bounded_reading import ReadLimits

        limits = ReadLimits(self.metastore.settings.limits)
        return FinderResources(lambda: self.catalogs, self._jdbc_reader, self.engine_for, limits)

    @cached_property
    def procedures(self) -> Procedures:
        """The procedures, which run on tables of :attr:`catalogs`."""
        from metastore.procedures.framework.calls import Procedures

        return Procedures(self.catalogs, self.settings, self.engine_for, self.metastore.clock.now_ms, self.sql)

    @cached_property
    def tables(self) -> ScannedTables:
        """Metadata of tables (read, modify, ready requests, versions), and scans, which ``metastore.tables`` lacks."""
        from metastore.scan.tables import ScannedTables

        return ScannedTables(self.metastore.tables.backing, self, self._finder_resources)

    @cached_property
    def views(self) -> DefinedViews:
        """Views: create them from SQL, look them up by name, read, modify, list versions."""
        from metastore.sql.views.of_session import DefinedViews

        return DefinedViews(self.metastore.views.backing, self)

    @cached_property
    def materialized_views(self) -> RefreshedViews:
        """Materialized views: create them from SQL, refresh, ask for their status, read, modify, list versions."""
        from metastore.sql.views.of_session import RefreshedViews

        return RefreshedViews(self.metastore.materialized_views.backing, self)

    @property
    def information_schema(self) -> InformationSchema:
        """The contents of the metastore as the tables of INFORMATION_SCHEMA, in Arrow."""
        from metastore.components.information_schema import InformationSchema

        return InformationSchema(self.metastore)

    def check(self, catalog_timeout: timedelta | None = None) -> CheckReport:
        """Check the configuration and that every file of the components exists.

        See :mod:`metastore.components.integrity.check`. ``catalog_timeout`` is how long a catalog may take to answer,
        by default 10 s. Changes nothing, and returns problems instead of raising them. Policies of the daemon that
        match no table are not reported: ``metastore check`` adds these.
        """
        from metastore.components.integrity.check import CATALOG_TIMEOUT, check_metastore

        now_ms = self.metastore.clock.now_ms()
        return check_metastore(self.catalogs, now_ms, CATALOG_TIMEOUT if catalog_timeout is None else catalog_timeout)

    def repair(self, *, dry_run: bool = False) -> RepairReport:
        """Restore each damaged component to its newest intact version.

        See :mod:`metastore.components.integrity.repair`. Deletes nothing: damaged version files are moved aside. Stop
        all writers first. Raises StorageError.
        """
        from metastore.components.integrity.repair import repair_components

        return repair_components(self.metastore, dry_run=dry_run)

    @property
    def deletions(self) -> DeletionList:
        """The list of files whose deletion is put off: entries are shown, taken back and released."""
        return self.metastore.deletions

    def delete_due(self) -> Mapping[str, DueDeletions | MetastoreError]:
        """Delete the files of every table, also of dropped ones, that are due and that nothing needs; by table.

        Files that ``remove_orphan_files`` and ``remove_old_metadata`` put off are left to these. The error of one table
        is its outcome. Raises StorageError, FormatError for the list itself.
        """
        from metastore.procedures.files.due_deletions import delete_all_due

        return dict(delete_all_due(self.catalogs, self.engine_for))

    def call(self, name: str, /, *values: Any, on_progress: Progress | None = None, **named: Any) -> pa.Table:
        """Call a procedure by its name and arguments; see :meth:`Procedures.call`."""
        return self.procedures.call(name, *values, on_progress=on_progress, **named)

    def sql(
        self, text: str, on_progress: Progress | None = None, *, engine: QueryDialect | None = None, **limits: Any
    ) -> pa.Table:
        """Run one SQL statement and return its rows. See :func:`metastore.sql.door.execute`.

        ``engine``, ``duckdb`` or ``spark``, runs the query of SELECT, INSERT, CREATE TABLE AS or MERGE, in its own SQL.
        None is ``drill.metastore.engine.sql``. Raises EngineError for ``spark`` in a session without Spark, and after
        ``timeout``. The limits ``timeout``, ``memory`` and ``threads`` are those of ``drill.metastore.sql``.
        """
        from metastore.sql.door import execute

        return execute(self, text, on_progress, engine, limits)

    def analyze(
        self,
        table: TableLike,
        request: AnalyzeRequest | None = None,
        *,
        partitions: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        since: Mapping[str, Any] | None = None,
        paths: Iterable[str | Mapping[str, Any]] | None = None,
        on_progress: Progress | None = None,
        **options: Unpack[AnalyzeOptions],
    ) -> AnalyzeResult:
        """Bring the metadata of ``table`` up to date with its files; the number of files to read chooses the engine.

        The ``options``, or the fields of ``request``, are those of :class:`metastore.analyze.request.AnalyzeRequest`:
        ``columns``, ``level``, ``statistics``, ``sample``, ``format``, ``schema``, ``options``, ``bounds`` and
        ``case_sensitive``, which defaults to ``drill.metastore.case_sensitive``.

        For a table of directories that was analyzed before, only named parts can be looked at; all else stays as it
        was. ``partitions`` are values of columns of directories, such as ``{"day": "2026-11-24"}``, with ``*`` and
        ``?`` for any text; ``since`` are the least values. ``paths`` are files, or events of a store as decoded JSON
        (:mod:`metastore.sources.path_lists`): nothing is listed, and a file that is gone is removed.

        A table whose workspace has the setting ``publish`` is published, too. ``on_progress`` is called with the number
        of files read and the number to read. Raises the errors of :func:`metastore.analyze.run.analyze`, EngineError
        when the engine is not available, and those of :meth:`publish`, after the metadata was committed.
        """
        from metastore.analyze.named_parts import NamedParts
        from metastore.analyze.request import AnalyzeRequest
        from metastore.analyze.run import analyze

        request = replace(request or AnalyzeRequest(), **options)
        told_apart = self.settings.case_sensitive if request.case_sensitive is None else request.case_sensitive
        request = replace(request, case_sensitive=told_apart)
        parts = NamedParts.of(partitions, since, paths, case_sensitive=told_apart)
        tables, source = self.metastore.tables, self.source(table)
        with operation("analyze", namespace=self.settings.iceberg.base_location, reads=[str(source.table)]) as running:
            result = analyze(tables, source, self.engine_for, request, parts=parts, on_progress=on_progress)
            running.counts |= {"files": result.files, "rows": result.rows or 0}
        if (name := published_name(self.settings.storage, source.table)) is not None:
            self.publish(source.table, name)
        return result

    def publish(self, table: TableLike, to: str, **options: Any) -> pa.Table:
        """Make or renew the Iceberg table ``to`` over the files of ``table``; options as ``system.publish_table``."""
        return self.call("metastore.system.publish_table", table=str(self.table_info(table)), to=to, **options)

    def unpublish(self, name: str, *, dry_run: bool = False) -> pa.Table:
        """Remove a published table from its catalog; every file stays."""
        return self.call("metastore.system.unpublish_table", table=name, dry_run=dry_run)

    def tables_matching(self, *patterns: str) -> list[TableInfo]:
        """Return the tables, with or without metadata, that match a pattern like ``dfs.shop.a*``; by default all."""
        from metastore.analyze.worklist import worklist

        return worklist(self.settings, self.metastore.tables, patterns)

    def analyze_all(
        self,
        tables: Iterable[TableInfo] | None = None,
        request: AnalyzeRequest | None = None,
        **options: Unpack[AnalyzeOptions],
    ) -> Iterator[TableOutcome]:
        """Run :meth:`analyze` on each of ``tables``, by default on all; a failure is returned as an outcome."""
        from metastore.analyze.worklist import analyze_each

        wanted = self.tables_matching() if tables is None else tables
        return analyze_each(wanted, lambda table: self.analyze(table, request, **options))

    @shared_look()
    def prune(
        self,
        table: TableLike,
        where: str | BooleanExpression,
        *,
        list_files: bool = True,
        time_zone: str | None = None,
    ) -> PruneResult:
        """Return which files and row groups of ``table`` may hold rows matching ``where``: Spark SQL or an expression.

        Lists the files that exist now, so new and changed files are kept. ``list_files=False`` trusts the metadata
        instead, which is correct only if no file has changed. ``time_zone`` applies to timestamps in ``where`` without
        a zone. Raises NotFoundError without metadata, InvalidRequestError for a predicate that does not fit the table.
        """
        from metastore.scan.pruning.listed_files import ListedFiles
        from metastore.scan.pruning.prune import prune
        from metastore.scan.pruning.stored_units import StoredUnits, in_newest, require_stored, units_of
        from metastore.scan.pruning.table_units import Units, UnitsWithSchema

        tables = self.metastore.tables
        source = self.source(table) if list_files else None
        info = source.table if source else self.table_info(table)
        require = partial(require_stored, tables, info, self.no_metadata)
        listing = ListedFiles.of_files(source.files_beside(require)) if source else None
        if source is None:
            require()
        kept_by = source.provided if source else None
        times = kept_by.modified_times() if kept_by else None

        def ask(version: int) -> PruneResult:
            units: Units = units_of(StoredUnits(tables, info, version))
            if source is not None and source.says_columns:
                units = UnitsWithSchema.of(units, source.schema)
            return prune(
                where, units, listing=listing, time_zone=time_zone, directories_tell=kept_by is None, modified=times
            )

        return in_newest(tables, ask)

    def drop_metadata(self, table: TableLike, *, if_exists: bool = False) -> bool:
        """Remove all metadata of ``table`` in one version, and return whether there was any. The data is not touched.

        Raises NotFoundError when there is none, unless ``if_exists``.
        """
        from metastore.analyze.run import drop_metadata

        info = self.table_info(table)
        dropped = drop_metadata(self.metastore.tables, info, if_exists=True)
        if not (dropped or if_exists):
            raise self.no_metadata(info)
        return dropped

    def register(self, source: Settings | None = None) -> list[TableRegistration]:
        """Register the component tables of ``source`` in the configured catalog; see :meth:`Metastore.register`."""
        return self.metastore.register(source)

    def source(self, table: TableLike) -> SourceTable:
        """Return where the data of ``table`` lies. Raises NotFoundError for an unconfigured plugin or workspace."""
        storage = self.settings.storage
        found = self._without_own_folders(resolve(storage, table))
        plugin = storage.get(found.table.storage_plugin)
        return found if plugin is None else found_table(found, plugin, self._finder_resources)

    def table_info(self, table: TableLike) -> TableInfo:
        """Return the name of ``table`` in the metastore; its plugin need not be configured."""
        try:
            return resolve(self.settings.storage, table).table
        except NotFoundError:
            return TableInfo.of(str(table) if isinstance(table, PurePath) else table)

    def no_metadata(self, table: TableInfo) -> NotFoundError:
        """Return the error for a table without metadata; the message suggests the nearest names with metadata."""
        from metastore.analyze.worklist import analyzed_tables, plain_name

        known = set(map(plain_name, analyzed_tables(self.metastore.tables)))
        if str(table) in known:
            return NotFoundError(f"{table} is not in the version that was requested, but in the newest one")
        near = nearest(str(table), known)
        hint = f"did you mean {' or '.join(near)}? If not, run" if near else "run"
        return NotFoundError(f"{table} has not been analyzed; {hint}: metastore analyze {table}")

    def close(self) -> None:
        """Close the metastore and the engines that this session created."""
        self._engines.close()
        self.catalogs.close()
        self.metastore.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def query_runner(self, files: int) -> QueryRunner:
        """Return the runner for a materialized view's query: Spark if it is the engine for ``files``, else DuckDB."""
        from metastore.sql.views.runner import DuckDBRunner

        engine = self.engine_for(files)
        return cast("QueryRunner", engine) if engine.capabilities.runs_queries else DuckDBRunner(self.settings.sql)

    def engine_for(self, files: int) -> Engine:
        """Return the given engine, else the one that the settings choose, possibly by the number of ``files``."""
        return self._engines.for_files(files)

    def engine_for_statement(self, files: int, size: int) -> Engine:
        """Return the engine for a statement that reads ``files`` of ``size`` bytes in all."""
        return self._engines.for_statement(files, size)

    def query_engine(self, dialect: QueryDialect) -> QueryEngine | None:
        """As :meth:`metastore.sql.target.StatementTarget.query_engine`."""
        return cast("QueryEngine | None", self._engines.for_query(dialect))

    def _without_own_folders(self, source: SourceTable) -> SourceTable:
        """Return ``source`` without the metastore's own files. Raises InvalidRequestError if it is such a folder."""
        plugin = self.settings.storage.get(source.table.storage_plugin)
        if plugin is not None and not plugin.kind.in_folders:
            return source  # Its location is a name.
        own = folders_within(self.settings.iceberg, source.location)
        if "" in own:
            raise InvalidRequestError(
                f"{source.location} is the metastore's own folder, and no table; its rows are in the tables "
                "metastore.components.<name>"
            )
        return replace(source, passed_over=own) if own else source

    def _jdbc_reader(self) -> JdbcReader:
        """Return the reader for tables of databases: Spark, if it is available."""
        from metastore.sources.database import no_reader

        engine = self._engines.for_databases
        if engine is None or not engine.capabilities.reads_databases:
            return no_reader()
        return cast("DatabaseEngine", engine).read_jdbc


def connect(
    conf: str | Path | Settings | None = None,
    engine: Engine | None = None,
    *,
    spark_engine: EngineFactory | None = None,
) -> Session:
    """Open a session on the metastore of ``conf``, which :meth:`Metastore.open` explains. Raises ConfigError."""
    return Session(Metastore.open(conf), engine, spark_engine=spark_engine)
