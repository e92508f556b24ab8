"""``compute_partition_stats``: rows, files and deletes of each partition, in a Parquet file that the metadata names.

The file has the columns and field ids of Iceberg's specification, so that engines plan by it and extend it. Every
manifest of the snapshot is read, entries of removed files too: they tell when a partition changed last. The number of
rows, ``total_record_count``, stays unknown: Iceberg for Java 1.12 keeps an older file's number when files are added.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.statistics import PartitionStatisticsFile
from pyiceberg.typedef import Record
from pyiceberg.types import (
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StructType,
    UnknownType,
    UUIDType,
)

from metastore.errors import InvalidRequestError, StorageError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.columns.partition_type import partition_fields
from metastore.lake.iceberg.manifests.manifest_reader import read_entries, read_list
from metastore.lake.iceberg.manifests.manifests import decode_file
from metastore.lake.iceberg.manifests.partition_key import SpecPartition, partition_key
from metastore.lake.iceberg.rows.row_lineage import VERSION_OF_LINEAGE
from metastore.lake.stores.new_files import write_alone
from metastore.procedures.files.guards import require_written_version
from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns
from metastore.procedures.tables.attached_statistics import attach

_RESULT: Final = columns(partition_statistics_file=pa.string(), snapshot_id=pa.int64())
_COUNTS: Final[Mapping[str, IcebergType]] = {
    "data_record_count": LongType(),
    "data_file_count": IntegerType(),
    "total_data_file_size_in_bytes": LongType(),
    "position_delete_record_count": LongType(),
    "position_delete_file_count": IntegerType(),
    "equality_delete_record_count": LongType(),
    "equality_delete_file_count": IntegerType(),
}
"""Counts in the order of their field ids, from 3 on."""
_FIRST_COUNT_ID: Final = 3
_REQUIRED_COUNTS: Final = 3
"""Counts of deletes are required from format version 3 on."""
_UUID_BYTES: Final = 16


@procedure(result=_RESULT)
def compute_partition_stats(
    context: CallContext, *, schema: str, table_name: str, snapshot_id: int | None = None
) -> list[Mapping[str, Any]]:
    """Counts rows, files and deletes of each partition, and keeps them as the snapshot's partition statistics."""
    target = context.table(schema, table_name)
    table = target.load()
    require_written_version(table, target)
    metadata = table.metadata
    snapshot = metadata.current_snapshot() if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
    if snapshot is None and snapshot_id is not None:
        raise InvalidRequestError(f"{target} has no snapshot {snapshot_id}")
    if not any(spec.fields for spec in metadata.partition_specs):
        raise InvalidRequestError(f"{target} is not partitioned, so there are no partitions to count")
    if snapshot is None:
        return []
    for file in metadata.partition_statistics:
        if file.snapshot_id == snapshot.snapshot_id:
            return [{"partition_statistics_file": file.statistics_path, "snapshot_id": snapshot.snapshot_id}]
    statistics = _write_statistics(target, table, snapshot)
    attach(target, context.settings.iceberg.commit.timeout, table.io, statistics)
    return [{"partition_statistics_file": statistics.statistics_path, "snapshot_id": snapshot.snapshot_id}]


def file_schema(table: Table) -> Schema:
    """Return the columns of the file, with the ids of the specification.

    Raises InvalidRequestError for a partition field whose source column is in no schema any more.
    """
    is_3 = table.metadata.format_version >= VERSION_OF_LINEAGE
    parts = []
    for field_id, (name, kind) in partition_fields(table.metadata).items():
        if isinstance(kind, UnknownType):
            raise InvalidRequestError(f"{'.'.join(table.name())}: the type of the partition field {name} is not known")
        stored = FixedType(_UUID_BYTES) if isinstance(kind, UUIDType) else kind
        parts.append(NestedField(field_id, name, stored, required=False))
    counts = [
        NestedField(_FIRST_COUNT_ID + number, name, kind, required=is_3 or number < _REQUIRED_COUNTS)
        for number, (name, kind) in enumerate(_COUNTS.items())
    ]
    return Schema(
        NestedField(1, "partition", StructType(*parts), required=True),
        NestedField(2, "spec_id", IntegerType(), required=True),
        *counts,
        NestedField(10, "total_record_count", LongType(), required=False),
        NestedField(11, "last_updated_at", LongType(), required=False),
        NestedField(12, "last_updated_snapshot_id", LongType(), required=False),
        *([NestedField(13, "dv_count", IntegerType(), required=True)] if is_3 else []),
    )


def partition_statistics(target: TargetTable, table: Table, snapshot: Snapshot) -> pa.Table:
    """Return one row for each partition and spec, in the columns of :func:`file_schema`, in order of the partitions.

    Raises StorageError when manifests cannot be read, FormatError when they are damaged.
    """
    names = {field_id: name for field_id, (name, _) in partition_fields(table.metadata).items()}
    specs = table.metadata.specs()
    times = {each.snapshot_id: each.timestamp_ms for each in table.metadata.snapshots}
    found: dict[SpecPartition, tuple[int, Record, _PartitionCounts]] = {}
    try:
        path = snapshot.manifest_list
        for manifest in decode_file(path, lambda: read_list(table.io, path)):
            spec_id = manifest.partition_spec_id
            for entry in decode_file(manifest.manifest_path, partial(read_entries, table.io, manifest)):
                file = entry.data_file
                key = partition_key(spec_id, file.partition)
                _, _, counted = found.setdefault(key, (spec_id, file.partition, _PartitionCounts()))
                if entry.status != ManifestEntryStatus.DELETED:
                    counted.add(file)
                if entry.snapshot_id in times:
                    counted.note_change(times[entry.snapshot_id], entry.snapshot_id)
    except OSError as error:
        raise StorageError(f"cannot read the manifests of {target}: {error}") from error
    rows = []
    for spec_id, partition, counted in found.values():
        values: dict[str, Any] = dict.fromkeys(names.values())
        for position, field in enumerate(specs[spec_id].fields):
            value = partition[position]
            values[names[field.field_id]] = value.bytes if isinstance(value, uuid.UUID) else value
        row = {"partition": values, "spec_id": spec_id, **counted.row()}
        rows.append(row)
    rows.sort(key=lambda row: [(value is not None, value) for value in row["partition"].values()])
    return pa.Table.from_pylist(rows, schema_to_pyarrow(file_schema(table)))


class _PartitionCounts:
    """Adds up the entries of one partition."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._vectors = 0
        self._time: int | None = None
        self._snapshot_id: int | None = None

    def add(self, file: DataFile) -> None:
        """Count a live file. A deletion vector is no delete file, but its positions count."""
        counts = self._counts
        match file.content:
            case DataFileContent.DATA:
                counts["data_record_count"] += file.record_count
                counts["data_file_count"] += 1
                counts["total_data_file_size_in_bytes"] += file.file_size_in_bytes
            case DataFileContent.POSITION_DELETES:
                is_vector = file.file_format == FileFormat.PUFFIN
                counts["position_delete_record_count"] += file.record_count
                counts["position_delete_file_count"] += not is_vector
                self._vectors += is_vector
            case DataFileContent.EQUALITY_DELETES:
                counts["equality_delete_record_count"] += file.record_count
                counts["equality_delete_file_count"] += 1

    def note_change(self, time: int, snapshot_id: int) -> None:
        """Note that a snapshot of ``time`` (milliseconds) added or removed a file."""
        if self._time is None or time > self._time:
            self._time, self._snapshot_id = time, snapshot_id

    def row(self) -> dict[str, Any]:
        """Return the counts, and the last change."""
        return {
            **self._counts,
            "total_record_count": None,
            "last_updated_at": self._time,
            "last_updated_snapshot_id": self._snapshot_id,
            "dv_count": self._vectors,
        }


def _write_statistics(target: TargetTable, table: Table, snapshot: Snapshot) -> PartitionStatisticsFile:
    sink = pa.BufferOutputStream()
    pq.write_table(partition_statistics(target, table, snapshot), sink)
    content = sink.getvalue().to_pybytes()
    name = f"partition-stats-{snapshot.snapshot_id}-{uuid.uuid4()}.parquet"
    location = table.location_provider().new_metadata_location(name)
    write_alone(table.io, location, content)
    return PartitionStatisticsFile(
        snapshot_id=snapshot.snapshot_id, statistics_path=location, file_size_in_bytes=len(content)
    )
