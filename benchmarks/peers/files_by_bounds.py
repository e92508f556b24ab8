"""Peers that choose files by bounds: what is known of made-up files in their own form, and how they ask.

All know the same names and bounds of one column. DuckDB has them as typed columns of a Parquet file, which is the least
that the question can cost; delta-rs as a log with statistics; PyIceberg as entries of manifests, in the order of the
bounds, which is the best that it can have.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog import Catalog
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

_FILES_OF_AN_APPEND: Final = 1_000


@dataclass(frozen=True)
class MadeUpFiles:
    """``count`` files below ``root``, of which each has ``rows`` ids that follow those of the file before."""

    root: str
    count: int
    of_a_segment: int
    rows: int

    def folder(self, file: int) -> str:
        """The folder of a file."""
        return f"part={file // self.of_a_segment:06d}"

    def paths(self) -> Iterator[str]:
        """Paths below ``root``."""
        return (f"{self.folder(file)}/{file:08d}.parquet" for file in range(self.count))

    def bounds(self, file: int) -> tuple[int, int]:
        """The least and the largest id of a file."""
        return file * self.rows, file * self.rows + self.rows - 1


def typed_bounds(files: MadeUpFiles, path: str) -> None:
    """Write paths and bounds as a Parquet file."""
    low = pa.array(range(0, files.count * files.rows, files.rows), pa.int64())
    high: Any = pc.add(low, files.rows - 1)
    pq.write_table(pa.table({"path": list(files.paths()), "low": low, "high": high}), path)


def by_duckdb(path: str, low: int, high: int) -> pa.Table:
    """The files that may hold ids from ``low`` to below ``high``."""
    with duckdb.connect() as connection:
        question = "SELECT path FROM read_parquet(?) WHERE high >= ? AND low < ?"
        found: pa.Table = connection.sql(question, params=[path, low, high]).to_arrow_table()
        return found


def delta_log(files: MadeUpFiles, folder: str) -> None:
    """Write a Delta table's log whose one commit adds all files, with statistics."""
    log = os.path.join(folder, "_delta_log")
    os.makedirs(log)
    column = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
    schema = json.dumps({"type": "struct", "fields": [column]})
    metadata = {
        "id": "made-up",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 0,
    }
    with open(os.path.join(log, f"{0:020d}.json"), "w", encoding="utf-8") as commit:
        commit.write(json.dumps({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}) + "\n")
        commit.write(json.dumps({"metaData": metadata}) + "\n")
        for file, path in enumerate(files.paths()):
            low, high = files.bounds(file)
            known = {
                "numRecords": files.rows,
                "minValues": {"id": low},
                "maxValues": {"id": high},
                "nullCount": {"id": 0},
            }
            add = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
            commit.write(json.dumps({"add": {**add, "stats": json.dumps(known)}}) + "\n")


def by_delta(table: DeltaTable, low: int, high: int) -> pa.Table:
    """The same of a Delta table, whose add actions are filtered by Arrow."""
    actions = pa.table(table.get_add_actions(flatten=True))
    return actions.filter((pc.field("max.id") >= low) & (pc.field("min.id") < high))


def iceberg_table(files: MadeUpFiles, catalog: Catalog) -> Table:
    """An Iceberg table of all files, in manifests of a thousand each."""
    catalog.create_namespace("benchmark")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", LongType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    table = catalog.create_table(("benchmark", "orders"), schema, partition_spec=spec)
    paths = list(files.paths())
    for start in range(0, files.count, _FILES_OF_AN_APPEND):
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for file in range(start, min(files.count, start + _FILES_OF_AN_APPEND)):
                append.append_data_file(_entry(files, file, paths[file]))
    return table


def _entry(files: MadeUpFiles, file: int, path: str) -> DataFile:
    low, high = ({1: to_bytes(LongType(), bound)} for bound in files.bounds(file))
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=os.path.join(files.root, path),
        file_format=FileFormat.PARQUET,
        partition=Record(file // files.of_a_segment),
        record_count=files.rows,
        file_size_in_bytes=1,
        value_counts={1: files.rows},
        null_value_counts={1: 0},
        lower_bounds=low,
        upper_bounds=high,
        spec_id=0,
    )
