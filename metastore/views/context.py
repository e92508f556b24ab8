"""What refreshing and reading materialized views need of the session that they run in."""

from __future__ import annotations

from typing import Protocol

from metastore.analyze.result import AnalyzeResult
from metastore.catalogs import Catalogs
from metastore.formats.source_file import SourceFile
from metastore.metastore import Metastore
from metastore.model.identity import TableInfo
from metastore.scan.tables import ScannedTables
from metastore.sources.source_table import SourceTable
from metastore.stores.bounded_reading import ReadLimits
from metastore.views.folders import Workspace
from metastore.views.runner import QueryRunner


class ViewSession(Protocol):
    """The session that a view is used in."""

    metastore: Metastore

    catalogs: Catalogs

    @property
    def tables(self) -> ScannedTables:
        """Metadata of tables, and their rows."""

    def source(self, table: TableInfo) -> SourceTable:
        """Where the data of ``table`` lies."""

    def analyze(self, table: TableInfo) -> AnalyzeResult:
        """Bring the metadata of ``table`` up to date."""

    def drop_metadata(self, table: TableInfo, *, if_exists: bool = False) -> bool:
        """Forget the metadata of ``table``."""

    def query_runner(self, files: int) -> QueryRunner:
        """Who runs a query over a number of files."""


def workspace_of(session: ViewSession, view: TableInfo) -> Workspace:
    """The workspace that ``view`` stands in. NotFoundError for one that is not configured."""
    source = session.source(view)
    location = source.location[: -len(source.table.name)].rstrip("/") or "/"
    limits = ReadLimits(session.metastore.settings.limits)
    return Workspace(source.table.storage_plugin, source.table.workspace, location, source.options, limits)


def files_of(session: ViewSession, table: TableInfo) -> list[SourceFile]:
    """The files of ``table`` that exist now."""
    source = session.source(table)
    return list(source.files())
