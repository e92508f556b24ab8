"""The interface of a session that refreshing and reading materialized views need."""

from __future__ import annotations

from typing import Protocol

from metastore.analyze.result import AnalyzeResult
from metastore.components.catalogs import Catalogs
from metastore.components.metastore import Metastore
from metastore.lake.formats.source_file import SourceFile
from metastore.lake.stores.bounded_reading import ReadLimits
from metastore.model.identity import TableInfo
from metastore.scan.tables import ScannedTables
from metastore.sources.source_table import SourceTable
from metastore.sql.views.folders import Workspace
from metastore.sql.views.names import Names
from metastore.sql.views.runner import QueryRunner


class ViewSession(Protocol):
    """The session in which a view is used."""

    metastore: Metastore

    catalogs: Catalogs

    @property
    def tables(self) -> ScannedTables:
        """Metadata of tables, and their rows."""

    def source(self, table: TableInfo) -> SourceTable:
        """Returns the location of the data of ``table``."""

    def analyze(self, table: TableInfo) -> AnalyzeResult:
        """Bring the metadata of ``table`` up to date."""

    def drop_metadata(self, table: TableInfo, *, if_exists: bool = False) -> bool:
        """Delete the metadata of ``table``."""

    def query_runner(self, files: int) -> QueryRunner:
        """Returns the runner for a query over a number of files."""


def names_of(session: ViewSession) -> Names:
    """Returns the meaning of names in ``session``, of tables that nobody has analyzed, too."""
    return Names(session.metastore, session.tables.describe_unstored)


def workspace_of(session: ViewSession, view: TableInfo) -> Workspace:
    """Returns the workspace of ``view``. Raises NotFoundError for a workspace that is not configured."""
    source = session.source(view)
    location = source.location[: -len(source.table.name)].rstrip("/") or "/"
    limits = ReadLimits(session.metastore.settings.limits)
    return Workspace(source.table.storage_plugin, source.table.workspace, location, source.options, limits)


def files_of(session: ViewSession, table: TableInfo) -> list[SourceFile]:
    """Returns the files of ``table`` that exist now."""
    return list(session.tables.readable(table).files())
