"""The metadata table ``$partitions``: rows, files and bytes of each partition, its delete files, and its columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import PrimitiveType

from metastore.lake.iceberg.manifests.partition_key import SpecPartition, partition_key
from metastore.lake.inspection.column_metrics import ReadableMetrics
from metastore.lake.inspection.column_range import ColumnRange
from metastore.lake.inspection.counted_partitions import COLUMNS, LAST_CHANGE, counted_partitions
from metastore.lake.inspection.file_counts import COUNTS, FileCounts
from metastore.lake.inspection.of_manifests import list_manifests, live_entries
from metastore.lake.inspection.of_metadata import TIMESTAMP
from metastore.lake.inspection.partition_columns import PartitionColumn, arrow_type

_LONG: Final[pa.DataType] = pa.int64()


def partitions_schema(table: Table) -> pa.Schema:
    """Returns the columns of ``$partitions``."""
    bounds = [pa.field(name, _column_type(kind)) for name, kind in _data_columns(table).values()]
    fields: list[pa.Field[Any]] = [
        *PartitionColumn(table.metadata).fields,
        pa.field("spec_id", pa.int32()),
        *(pa.field(name, _LONG) for name in COUNTS),
        pa.field("last_updated_at", TIMESTAMP),
        pa.field("last_updated_snapshot_id", _LONG),
        pa.field("total_size", _LONG),
        *([pa.field("data", pa.struct(bounds))] if bounds else []),
    ]
    return pa.schema(fields)


def partitions(table: Table, snapshot: Snapshot | None, names: Collection[str] | None = None) -> pa.Table:
    """Returns counts by partition and spec, the snapshot that last changed a live file, and bounds of each column.

    ``record_count``, ``total_size`` and ``data`` are those of data files: deleted rows are still in them. If only
    columns are ``names`` for that partition statistics tell, the result may have these columns alone.
    """
    if names is not None and snapshot is not None and COLUMNS.issuperset(names):
        counted = counted_partitions(table, snapshot, last_change=not LAST_CHANGE.isdisjoint(names))
        if counted is not None:
            return counted
    shown = PartitionColumn(table.metadata)
    columns = _data_columns(table)
    times = {each.snapshot_id: each.timestamp_ms for each in table.metadata.snapshots}
    found: dict[SpecPartition, _Partition] = {}
    for entry in live_entries(table, list_manifests(table, snapshot)):
        file = entry.data_file
        key = partition_key(file.spec_id, file.partition)
        if key not in found:
            found[key] = _Partition({**shown.of(file), "spec_id": file.spec_id}, columns)
        found[key].add(file)
        if entry.snapshot_id in times:
            found[key].note_snapshot(times[entry.snapshot_id], entry.snapshot_id)
    return pa.Table.from_pylist([each.row() for each in found.values()], partitions_schema(table))


class _Partition:
    """Adds up the files of one partition and spec."""

    def __init__(self, key: Mapping[str, Any], columns: Mapping[int, tuple[str, PrimitiveType]]) -> None:
        self._key = key
        self._counts = FileCounts()
        self._ranges = {name: ColumnRange(field_id, kind) for field_id, (name, kind) in columns.items()}
        self._time: int | None = None
        self._snapshot_id: int | None = None

    def add(self, file: DataFile) -> None:
        """Count a live file."""
        self._counts.add(file)
        if file.content == DataFileContent.DATA:
            for each in self._ranges.values():
                each.add(file)

    def note_snapshot(self, time: int, snapshot_id: int) -> None:
        """Note that a snapshot of ``time`` (milliseconds) added a file."""
        if self._time is None or time >= self._time:
            self._time, self._snapshot_id = time, snapshot_id

    def row(self) -> dict[str, Any]:
        """Returns the partition's row."""
        return {
            **self._key,
            **self._counts.values,
            "last_updated_at": self._time,
            "last_updated_snapshot_id": self._snapshot_id,
            "total_size": self._counts.values["total_data_file_size_in_bytes"],
            "data": {name: each.row() for name, each in self._ranges.items()},
        }


def _data_columns(table: Table) -> dict[int, tuple[str, PrimitiveType]]:
    """Returns name and type of the columns of ``data``, by id: top-level ones that the partition does not tell."""
    identity = {field.source_id for field in table.spec().fields if isinstance(field.transform, IdentityTransform)}
    schema: Schema = table.schema()
    top = {field.field_id for field in schema.fields}
    return {key: column for key, column in ReadableMetrics(schema).columns.items() if key in top - identity}


def _column_type(kind: PrimitiveType) -> pa.StructType:
    bounds = [pa.field(name, arrow_type(kind)) for name in ("min", "max")]
    return pa.struct([*bounds, pa.field("null_count", _LONG), pa.field("nan_count", _LONG)])
