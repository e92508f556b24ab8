"""The interface of a session that statements need; a session implements it, and runs statements itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from metastore.analyze.result import AnalyzeResult
from metastore.components.catalogs import Catalogs
from metastore.components.metastore import Metastore
from metastore.config import Settings
from metastore.engines.engine import Engine
from metastore.model.identity import TableInfo
from metastore.procedures.framework.calls import Procedures
from metastore.scan.tables import ScannedTables
from metastore.sources.source_table import SourceTable
from metastore.sql.views.of_session import DefinedViews, RefreshedViews

Progress = Callable[[int, int], None]
"""Called with the amount of work done, and the total."""


class StatementTarget(Protocol):
    """The session of a statement."""

    metastore: Metastore

    @property
    def settings(self) -> Settings:
        """The settings of the session."""

    @property
    def tables(self) -> ScannedTables:
        """Metadata of tables, and scans of the tables themselves."""

    @property
    def catalogs(self) -> Catalogs:
        """All Iceberg tables that can be named."""

    @property
    def procedures(self) -> Procedures:
        """All procedures that can be called."""

    @property
    def views(self) -> DefinedViews:
        """Views by name and from SQL."""

    @property
    def materialized_views(self) -> RefreshedViews:
        """Materialized views by name and from SQL."""

    @property
    def analyze(self) -> Callable[..., AnalyzeResult]:
        """Analyze a table, with the options of :class:`metastore.analyze.run.Request` by name."""

    def engine_for(self, files: int) -> Engine:
        """Returns the engine that runs work on this number of files."""

    def engine_for_statement(self, files: int, size: int) -> Engine:
        """Returns the engine that runs a statement which reads ``files`` of ``size`` bytes in all."""

    def drop_metadata(self, table: TableInfo | str, *, if_exists: bool = False) -> bool:
        """Delete the metadata of a table; returns True if there was any."""

    def source(self, table: str) -> SourceTable:
        """Returns the location of the data of ``table``."""

    def table_info(self, table: str) -> TableInfo:
        """Returns the name under which the metastore knows ``table``."""
