"""A Hive Metastore 2.3 from PySpark's jars, on Derby, in a process of its own, spoken to in thrift.

What it keeps is less than units: a table with its columns and parameters, and its partitions with theirs; no files, no
row groups, no statistics of these. What a segment's unit says of its columns stands in the partition's parameters. It
has no transaction over tables either: a commit is one call for each table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

import pyarrow as pa
from hive_metastore.ttypes import FieldSchema, Partition, SerDeInfo, StorageDescriptor, Table

from metastore.model.identity import TableInfo
from metastore.model.mapping.rows import from_arrow
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.sources.hive.client import HiveClient

NAME: Final = "Hive Metastore 2.3"

_ROOT: Final = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
_DATABASE: Final = "default"
_TIME: Final = "metastore.lastModifiedTime"


class HiveMetastore:
    """A service whose database is in ``folder``; a context manager. Raises OSError when it cannot be started."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder)
        self._process = subprocess.Popen(  # noqa: S603 - the program behind `make hms`
            [sys.executable, os.path.join(_ROOT, "tests", "services", "hms.py"), "--folder", folder],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((_ROOT, os.path.join(_ROOT, "tests")))},
        )
        assert self._process.stdout is not None
        uri = self._process.stdout.readline().strip()
        if not uri:
            raise OSError("the Hive Metastore did not start")
        self._client = HiveClient(uri)

    def create(self, rows: pa.Table) -> None:
        """Make the tables that the units ``rows`` tell of, with their partitions."""
        for table, partitions in _described(rows):
            self._client.create_table(table)
            self._client.add_partitions(_DATABASE, table.tableName, partitions)

    def replace(self, rows: pa.Table) -> None:
        """Describe the same tables and partitions anew."""
        for table, partitions in _described(rows):
            self._client.alter_table(table)
            self._client.alter_partitions(_DATABASE, table.tableName, partitions)

    def list(self) -> Sequence[Any]:
        """Name and time of every table."""
        tables = self._client.table_objects(_DATABASE, self._client.tables(_DATABASE))
        return [(table.tableName, int(table.parameters[_TIME])) for table in tables]

    def table(self, info: TableInfo) -> int:
        """Ask for one table; the time of its last change."""
        return int(self._client.table(_DATABASE, info.name).parameters[_TIME])

    def partitions(self, info: TableInfo) -> int:
        """Ask for all partitions of a table; how many there are."""
        return len(self._client.partitions(_DATABASE, info.name))

    def __enter__(self) -> HiveMetastore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
        self._process.terminate()
        self._process.communicate()  # closes the pipes too


def _described(rows: pa.Table) -> list[tuple[Table, list[Partition]]]:
    """Tables with their partitions, as the service has them, of units."""
    tables: dict[str, Table] = {}
    partitions: dict[str, list[Partition]] = {}
    for unit in from_arrow(TableMetadataUnit, rows):
        assert unit.table_name is not None
        if unit.metadata_type == MetadataType.TABLE.value:
            tables[unit.table_name] = Table(
                dbName=_DATABASE,
                tableName=unit.table_name,
                owner=unit.owner,
                tableType="EXTERNAL_TABLE",
                sd=_storage(unit.location, unit.schema),
                partitionKeys=[FieldSchema("region", "string", "")],
                parameters={"EXTERNAL": "TRUE", _TIME: str(unit.last_modified_time)},
            )
        elif unit.metadata_type == MetadataType.SEGMENT.value:
            values = [str(value) for value in unit.partition_values or ()]
            statistics = {f"stats.{name}": text for name, text in (unit.columns_statistics or {}).items()}
            partitions.setdefault(unit.table_name, []).append(
                Partition(
                    values=values,
                    dbName=_DATABASE,
                    tableName=unit.table_name,
                    sd=_storage(unit.location, unit.schema),
                    parameters={_TIME: str(unit.last_modified_time), **statistics},
                )
            )
    return [(table, partitions[name]) for name, table in tables.items()]


def _storage(location: str | None, schema: str | None) -> StorageDescriptor:
    columns = json.loads(schema or "{}").get("columns", [])
    parquet = "org.apache.hadoop.hive.ql.io.parquet"
    return StorageDescriptor(
        cols=[FieldSchema(column["name"], "string", "") for column in columns],
        location=f"file://{location}",
        inputFormat=f"{parquet}.MapredParquetInputFormat",
        outputFormat=f"{parquet}.MapredParquetOutputFormat",
        serdeInfo=SerDeInfo(serializationLib=f"{parquet}.serde.ParquetHiveSerDe", parameters={}),
    )
