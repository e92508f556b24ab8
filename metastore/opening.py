"""``metastore.open``, which ``metastore.scan`` calls: a session near a table's folder, without configuration.

In a place (:mod:`metastore.config.place`), a table that was never analyzed is analyzed when a question needs it. With
any other configuration, such a question is an error.
"""
# ruff: noqa: PLC0415 - opening a session imports little; each method imports what it needs

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from metastore.components.metastore import Metastore
from metastore.components.storage.table import look_again
from metastore.config import Settings
from metastore.engines.choice import EngineFactory
from metastore.session import Session, TableLike
from metastore.sources.first_use import is_of_place, settings_near

if TYPE_CHECKING:
    from metastore.scan import scan_near
    from metastore.scan.pruning.result import PruneResult
    from metastore.scan.tables import ScannedTables

    scan = scan_near
else:
    from metastore import scan  # noqa: F401 - the same, as the package that can be called

_log = logging.getLogger(__name__)


class PlaceSession(Session):
    """A session in a place. ``note`` receives one line for each table that is analyzed on demand."""

    def __init__(
        self,
        metastore: Metastore,
        *,
        spark_engine: EngineFactory | None = None,
        note: Callable[[str], None] = _log.info,
    ) -> None:
        super().__init__(metastore, spark_engine=spark_engine)
        self._note = note

    @cached_property
    def tables(self) -> ScannedTables:
        """As :attr:`Session.tables`; a table without metadata is analyzed before a scan or a query."""
        from metastore.scan.on_demand import TablesOnDemand

        return TablesOnDemand(self.metastore.tables.backing, self, self._finder_resources, self._require_metadata)

    def prune(self, table: TableLike, where: Any, **options: Any) -> PruneResult:
        """As :meth:`Session.prune`; a table without metadata is analyzed first."""
        self._require_metadata(table)
        return super().prune(table, where, **options)

    def _require_metadata(self, table: TableLike) -> None:
        info = self.table_info(table)
        if self.metastore.tables.requests.table_metadata(info) is None:
            look_again()
            result = self.analyze(table)
            look_again()
            self._note(f"analyzed {info} first (files: {result.files:,}, rows: {result.rows or 0:,})")


def session_of(
    settings: Settings, spark_engine: EngineFactory | None = None, note: Callable[[str], None] = _log.info
) -> Session:
    """Open a session over ``settings``, which analyzes on demand if they are those of a place."""
    metastore = Metastore.open(settings)
    if is_of_place(settings):
        return PlaceSession(metastore, spark_engine=spark_engine, note=note)
    return Session(metastore, spark_engine=spark_engine)


def open(table: str | PurePath | None = None) -> Session:  # noqa: A001 - metastore.open, as gzip.open
    """Open a session for ``table``: a path, a URI or a name; None is the working directory.

    A configuration in the usual place holds. Without one, the nearest ``.metastore`` at or above the table's folder
    does, and is made beside the table if there is none; for a table on a store, in the working directory.
    ``session.table_info(path)`` is the table's name, ``dfs.my.sales`` for the folder ``sales``. Raises ConfigError, and
    StorageError if the folder cannot be made.
    """
    return session_of(settings_near(table, made=_log.info))
