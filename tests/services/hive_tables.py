"""Hive tables without Hive: descriptions by thrift on the real service, files by Arrow."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hive_metastore.ttypes import Database, FieldSchema, Partition, SerDeInfo, StorageDescriptor, Table
from pyarrow import orc

from metastore.sources.hive.client import HiveClient
from metastore.sources.hive.partitions import partition_name
from metastore.sources.hive.tables import FORMAT_CLASSES

FORMATS = {str(format_): name for format_, name in FORMAT_CLASSES.items()}
LIBRARY = "library"
"""The name of a SerDe among its properties."""

_PARQUET = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
_LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_number = itertools.count()


class HiveMaker:
    """Makes tables in one database, each with a folder of its own."""

    def __init__(self, client: HiveClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.database = f"db{next(_number)}"
        client._change("make a database", "create_database", Database(self.database, "", f"file:{folder}", {}))

    def new_name(self) -> str:
        """A name that no table has."""
        return f"t{next(_number)}"

    def descriptor(
        self, place: Path, columns: Mapping[str, str], format_: str, serde: Mapping[str, str] | None = None
    ) -> StorageDescriptor:
        """How and where files lie; with ``serde``, its properties, by Hive's own for text unless they name another."""
        fields = [FieldSchema(name, type_, None) for name, type_ in columns.items()]
        properties = {key: value for key, value in (serde or {}).items() if key != LIBRARY}
        library = _PARQUET if serde is None else serde.get(LIBRARY, _LAZY)
        return StorageDescriptor(
            fields,
            f"file:{place}",
            FORMATS.get(format_, format_),
            "x",
            serdeInfo=SerDeInfo(None, library, properties),
            bucketCols=[],
            sortCols=[],
        )

    def table(
        self,
        columns: Mapping[str, str],
        partitioned_by: Mapping[str, str] | None = None,
        *,
        format_: str = "PARQUET",
        kind: str = "MANAGED_TABLE",
        parameters: Mapping[str, str] | None = None,
        serde: Mapping[str, str] | None = None,
    ) -> str:
        """A new table without files; its name."""
        name = self.new_name()
        (self.folder / name).mkdir()
        external = {"EXTERNAL": "TRUE"} if kind == "EXTERNAL_TABLE" else {}
        keys = [FieldSchema(key, type_, None) for key, type_ in (partitioned_by or {}).items()]
        self.client.create_table(
            Table(
                name,
                self.database,
                "somebody",
                0,
                0,
                0,
                self.descriptor(self.folder / name, columns, format_, serde),
                keys,
                {**external, **(parameters or {})},
                "text" if kind == "VIRTUAL_VIEW" else None,
                "text" if kind == "VIRTUAL_VIEW" else None,
                kind,
            )
        )
        return name

    def partition(
        self,
        name: str,
        *values: str,
        format_: str | None = None,
        folder: str | None = None,
        serde: Mapping[str, str] | None = None,
    ) -> Path:
        """A new partition, of the table's SerDe if none is given; its folder, which the service makes."""
        table = self.client.table(self.database, name)
        keys = [each.name for each in table.partitionKeys]
        place = self.folder / name / (folder or partition_name(list(zip(keys, values, strict=True))))
        columns = {each.name: each.type for each in table.sd.cols}
        own = table.sd.serdeInfo
        given = {LIBRARY: own.serializationLib, **own.parameters} if serde is None else serde
        sd = self.descriptor(place, columns, format_ or table.sd.inputFormat, given)
        self.client.add_partitions(self.database, name, [Partition(list(values), self.database, name, 0, 0, sd, {})])
        return place

    def write(self, place: Path | str, rows: Any, file: str = "000000_0", format_: str = "PARQUET", **how: Any) -> Path:
        """A data file in a folder, or in that of a table; a mapping of lists, or an Arrow table."""
        folder = self.folder / place if isinstance(place, str) else place
        data = rows if isinstance(rows, pa.Table) else pa.table(rows)
        (pq if format_ == "PARQUET" else orc).write_table(data, str(folder / file), **how)
        return folder / file
