"""One row of the tables component: metadata of a table, segment, file, row group or partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from metastore.model.fields import ColumnType, Unit, stored_as
from metastore.model.vocabulary import GENERAL_INFO, MetadataType

_TABLE, _SEGMENT, _FILE = MetadataType.TABLE, MetadataType.SEGMENT, MetadataType.FILE
_ROW_GROUP, _PARTITION = MetadataType.ROW_GROUP, MetadataType.PARTITION


@dataclass(frozen=True)
class TableMetadataUnit(Unit):
    """One metadata unit with the columns of Drill's tables component, in Drill's order.

    ``last_modified_time`` is in epoch milliseconds. ``schema``, the values of ``columns_statistics`` and the items of
    ``metadata_statistics`` are JSON texts: see :mod:`metastore.model.tuple_schema`, :mod:`metastore.model.statistics`.
    """

    partition_columns: ClassVar[tuple[str, ...]] = ("storagePlugin", "workspace", "tableName", "metadataKey")
    location_columns: ClassVar[tuple[str, ...]] = ("storagePlugin", "workspace", "tableName")
    bounded_columns: ClassVar[tuple[str, ...]] = ("owner", "tableType", "metadataType", "location", "lastModifiedTime")
    kind_column: ClassVar[str | None] = "metadataType"
    digested: ClassVar[bool] = True

    storage_plugin: str | None = stored_as("storagePlugin", ColumnType.STRING)
    workspace: str | None = stored_as("workspace", ColumnType.STRING)
    table_name: str | None = stored_as("tableName", ColumnType.STRING)
    owner: str | None = stored_as("owner", ColumnType.STRING, _TABLE)
    table_type: str | None = stored_as("tableType", ColumnType.STRING, _TABLE)
    metadata_type: str | None = stored_as("metadataType", ColumnType.STRING)
    metadata_key: str | None = stored_as("metadataKey", ColumnType.STRING)
    location: str | None = stored_as("location", ColumnType.STRING, _TABLE, _SEGMENT, _FILE, _ROW_GROUP)
    interesting_columns: Sequence[str] | None = stored_as("interestingColumns", ColumnType.STRING_LIST, _TABLE)
    schema: str | None = stored_as("schema", ColumnType.STRING)
    columns_statistics: Mapping[str, str] | None = stored_as("columnsStatistics", ColumnType.STRING_MAP)
    metadata_statistics: Sequence[str] | None = stored_as("metadataStatistics", ColumnType.STRING_LIST)
    last_modified_time: int | None = stored_as("lastModifiedTime", ColumnType.LONG)
    partition_keys: Mapping[str, str] | None = stored_as("partitionKeys", ColumnType.STRING_MAP, _TABLE)
    additional_metadata: str | None = stored_as("additionalMetadata", ColumnType.STRING)
    metadata_identifier: str | None = stored_as(
        "metadataIdentifier", ColumnType.STRING, _SEGMENT, _FILE, _ROW_GROUP, _PARTITION
    )
    column: str | None = stored_as("column", ColumnType.STRING, _SEGMENT, _PARTITION)
    locations: Sequence[str] | None = stored_as("locations", ColumnType.STRING_LIST, _SEGMENT, _PARTITION)
    partition_values: Sequence[str] | None = stored_as("partitionValues", ColumnType.STRING_LIST, _SEGMENT, _PARTITION)
    path: str | None = stored_as("path", ColumnType.STRING, _SEGMENT, _FILE, _ROW_GROUP)
    row_group_index: int | None = stored_as("rowGroupIndex", ColumnType.INT, _ROW_GROUP)
    host_affinity: Mapping[str, float] | None = stored_as("hostAffinity", ColumnType.FLOAT_MAP, _ROW_GROUP)

    @classmethod
    def cluster(cls, key: Sequence[str]) -> int:
        """Separates general information from segments, so that a list of all tables reads no segment's manifest."""
        return 0 if key[-1] == GENERAL_INFO else 1
