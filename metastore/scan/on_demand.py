"""Tables that are analyzed when a scan or a query first needs their metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metastore.components.component import Backing
from metastore.errors import NotFoundError
from metastore.model.identity import TableInfo
from metastore.model.table_unit import TableMetadataUnit
from metastore.scan.scan import Scan
from metastore.scan.tables import Places, ScannedTables, TableLike
from metastore.sources.finding import FinderResources


class TablesOnDemand(ScannedTables):
    """As :class:`ScannedTables`; ``require`` analyzes a table that has no metadata."""

    def __init__(
        self, backing: Backing, places: Places, resources: FinderResources, require: Callable[[TableLike], None]
    ) -> None:
        super().__init__(backing, places, resources)
        self._require = require

    def scan(self, table: TableLike, *arguments: Any, **options: Any) -> Scan:
        """As :meth:`ScannedTables.scan`; a table without metadata is analyzed first."""
        if self.readable(table).provided is None:
            self._require(table)
        return super().scan(table, *arguments, **options)

    def describe_unstored(self, table: TableInfo) -> TableMetadataUnit | None:
        """As :meth:`ScannedTables.describe_unstored`, and the unit of a folder, which is analyzed first."""
        found = super().describe_unstored(table)
        if found is not None:
            return found
        try:
            self._require(table)
        except NotFoundError:
            return None
        return self.requests.table_metadata(table)
