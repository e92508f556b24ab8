"""One row of the materialized views component, with exactly Drill's columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from metastore.model.fields import ColumnType, stored_as
from metastore.model.named_unit import NamedUnit


class RefreshStatus(str, Enum):
    """State of the stored data relative to the query. PENDING and COMPLETE are stored; STALE is found by comparison."""

    PENDING = "PENDING"
    COMPLETE = "COMPLETE"
    STALE = "STALE"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class MaterializedViewMetadataUnit(NamedUnit):
    """One materialized view: its query, and the location of its last refresh's rows.

    ``schema`` is a tuple schema in JSON, ``fields`` Drill's own list of columns. ``data_location`` is relative to the
    workspace; None before the first refresh. ``last_refresh_time`` is the time when the last refresh began to look at
    its sources. ``additional_metadata`` is JSON for facts without a Drill column. Times are in epoch milliseconds.
    """

    bounded_columns: ClassVar[tuple[str, ...]] = ("owner", "refreshStatus", "lastRefreshTime", "lastModifiedTime")

    owner: str | None = stored_as("owner", ColumnType.STRING)
    sql: str | None = stored_as("sql", ColumnType.STRING)
    schema: str | None = stored_as("schema", ColumnType.STRING)
    fields: str | None = stored_as("fields", ColumnType.STRING)
    data_location: str | None = stored_as("dataLocation", ColumnType.STRING)
    workspace_schema_path: Sequence[str] | None = stored_as("workspaceSchemaPath", ColumnType.STRING_LIST)
    refresh_status: str | None = stored_as("refreshStatus", ColumnType.STRING)
    last_refresh_time: int | None = stored_as("lastRefreshTime", ColumnType.LONG)
    last_modified_time: int | None = stored_as("lastModifiedTime", ColumnType.LONG)
    additional_metadata: str | None = stored_as("additionalMetadata", ColumnType.STRING)
