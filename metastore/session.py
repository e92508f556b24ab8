"""A session: an open metastore with its sources and an engine. The door for programs: ``metastore.connect()``.

Place in the flow: names and paths become source tables (``sources``), ANALYZE and pruning are given what they need
from the metastore and the store, and the engine is chosen by the size of the work. Spark is injected from above as a
factory, so that a program which never needs it never loads it.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from types import TracebackType
from typing import Final, Literal

from pyiceberg.expressions import BooleanExpression

from metastore.analyze.run import AnalyzeResult, Progress, analyze, drop_metadata
from metastore.components.requests import of_table
from metastore.components.tables import Tables
from metastore.config import Settings
from metastore.engine import Engine, LocalEngine
from metastore.errors import EngineError, NotFoundError
from metastore.metastore import Metastore
from metastore.model.identity import TableInfo
from metastore.model.vocabulary import MetadataType
from metastore.pruning.prune import UNIT_COLUMNS, UNIT_TYPES, prune
from metastore.pruning.result import PruneResult
from metastore.sources.listing import list_files
from metastore.sources.naming import SourceTable, resolve
from metastore.storage.handover import Registered

_log: Final = logging.getLogger(__name__)

TableLike = str | TableInfo | PurePath
"""A table by its name, ``plugin.workspace.table``, or by the path of its data."""

EngineFactory = Callable[[], Engine]
EngineName = Literal["local", "spark"]


class Session:
    """A metastore, its sources, and an engine; a context manager.

    ``engine`` runs everything if it is given, and stays the caller's to close. Without one the settings choose: the
    local engine for small work, the one that ``spark_engine`` makes for large work. Both are made on first use, kept,
    and closed with the session.
    """

    def __init__(
        self, metastore: Metastore, engine: Engine | None = None, *, spark_engine: EngineFactory | None = None
    ) -> None:
        self.metastore = metastore
        self._given = engine
        self._spark_engine = spark_engine
        self._engines: dict[str, Engine] = {}

    @property
    def settings(self) -> Settings:
        """The settings that the metastore was opened with."""
        return self.metastore.settings

    @property
    def tables(self) -> Tables:
        """Metadata of tables: read, modify, ready requests, versions."""
        return self.metastore.tables

    @property
    def views(self) -> object:
        """Not there yet. Raises InvalidRequestError."""
        return self.metastore.views

    @property
    def materialized_views(self) -> object:
        """Not there yet. Raises InvalidRequestError."""
        return self.metastore.materialized_views

    def analyze(
        self,
        table: TableLike,
        *,
        columns: Sequence[str] | None = None,
        level: MetadataType | str = MetadataType.ROW_GROUP,
        on_progress: Progress | None = None,
    ) -> AnalyzeResult:
        """Bring the metadata of ``table`` up to date with its files, on the engine that suits how many are to be read.

        ``columns`` limits statistics to these (None: all), ``level`` says how deep metadata goes. ``on_progress`` is
        called with the number of footers read and to read. Raises as :func:`metastore.analyze.run.analyze` does, and
        EngineError when the engine cannot be had.
        """
        source = self.source(table)
        engine = self._engine_for
        return analyze(self.tables, source, engine, columns=columns, level=level, on_progress=on_progress)

    def prune(
        self,
        table: TableLike,
        where: str | BooleanExpression,
        *,
        list_files: bool = True,
        time_zone: str | None = None,
    ) -> PruneResult:
        """What of ``table`` must be read for the rows that satisfy ``where``, a Spark SQL predicate or an expression.

        The files that exist now are listed, so that those which changed since ANALYZE, and new ones, are kept. With
        ``list_files=False`` the metadata is trusted instead: right only if the files are as they were. ``time_zone``
        is that of timestamps in ``where`` that name none. Raises NotFoundError for a table that was never analyzed,
        InvalidRequestError for a predicate that does not fit it.
        """
        source = self.source(table) if list_files else None
        info = source.table if source else self.table_info(table)
        read = self.tables.read().metadata_types(*UNIT_TYPES).filter(of_table(info)).columns(*UNIT_COLUMNS)
        units = read.to_arrow()
        if not units.num_rows:
            raise self.no_metadata(info)
        listing = self._listing(source) if source else None
        return prune(where, units, listing=listing, time_zone=time_zone)

    def drop_metadata(self, table: TableLike, *, if_exists: bool = False) -> bool:
        """Remove all metadata of ``table``, in one version; its data is not touched. True if there was any.

        Raises NotFoundError when there is none, unless ``if_exists``.
        """
        info = self.table_info(table)
        dropped = drop_metadata(self.tables, info, if_exists=True)
        if not (dropped or if_exists):
            raise self.no_metadata(info)
        return dropped

    def register(self, source: Settings | None = None) -> list[Registered]:
        """Bring the component tables of ``source`` into the configured catalog; see :meth:`Metastore.register`."""
        return self.metastore.register(source)

    def source(self, table: TableLike) -> SourceTable:
        """Where the data of ``table`` lies. Raises NotFoundError for a plugin or workspace that is not configured."""
        return resolve(self.settings.storage, table)

    def table_info(self, table: TableLike) -> TableInfo:
        """The name that the metastore knows ``table`` by; its plugin need not be configured here."""
        try:
            return self.source(table).table
        except NotFoundError:
            return table if isinstance(table, TableInfo) else TableInfo.parse(str(table))

    def no_metadata(self, table: TableInfo) -> NotFoundError:
        """The error for a table without metadata; names the nearest that have some."""
        names = ("storagePlugin", "workspace", "tableName")
        read = self.tables.read().metadata_types(MetadataType.TABLE).columns(*names)
        known = {".".join(row[name] for name in names) for row in read.to_arrow().to_pylist()}
        near = difflib.get_close_matches(str(table), known - {str(table)}, n=3)
        hint = f"did you mean {' or '.join(near)}? If not, analyze" if near else "analyze"
        return NotFoundError(f"the metastore knows nothing of {table}; {hint} the table first")

    def close(self) -> None:
        """Close the metastore and the engines that this session made."""
        while self._engines:
            _, engine = self._engines.popitem()
            engine.close()
        self.metastore.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _engine_for(self, files: int) -> Engine:
        """The engine that was given, else the one that the settings name, by the number of ``files`` if they say so."""
        if self._given is not None:
            return self._given
        settings = self.settings.engine
        if settings.kind != "auto":
            _log.info("engine %s, as configured", settings.kind)
            return self._engine(settings.kind)
        if self._spark_engine is None:
            return self._engine("local")
        chosen: EngineName = "spark" if files >= settings.spark_threshold_files else "local"
        _log.info("engine %s: %d files, and Spark is for %d or more", chosen, files, settings.spark_threshold_files)
        return self._engine(chosen)

    def _engine(self, name: EngineName) -> Engine:
        if name not in self._engines:
            self._engines[name] = LocalEngine(self.settings.engine.processes) if name == "local" else self._spark()
        return self._engines[name]

    def _spark(self) -> Engine:
        if self._spark_engine is None:
            raise EngineError(
                "drill.metastore.engine.kind is spark, and this session was given no Spark: "
                "open it with metastore.spark.connect(spark, conf)"
            )
        return self._spark_engine()

    @staticmethod
    def _listing(source: SourceTable) -> dict[str, tuple[int, int]]:
        return {file.path: file.fingerprint for file in list_files(source.location, options=source.options).files}


def connect(
    conf: str | Path | Settings | None = None,
    engine: Engine | None = None,
    *,
    spark_engine: EngineFactory | None = None,
) -> Session:
    """Open a session on the metastore that ``conf`` describes (as :meth:`Metastore.open` reads it).

    Nothing is written or started. Raises ConfigError.
    """
    return Session(Metastore.open(conf), engine, spark_engine=spark_engine)
