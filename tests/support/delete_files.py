"""Delete files of Iceberg tables, made by hand: PyIceberg reads those of positions and writes none."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from metastore.iceberg.manifest_writer import write_manifest_file
from metastore.iceberg.manifests import added, write_list
from metastore.stores.new_files import NewFiles

_TEXT: pa.DataType = pa.string()
DELETE_SCHEMA = pa.schema(
    [
        pa.field("file_path", _TEXT, nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


def delete_positions(table: Table, positions: dict[str, Sequence[int]], partition: Record | None = None) -> DataFile:
    """Commit a delete file of format version 2 for ``{path: positions}``, as merge-on-read engines do."""
    rows = sorted((path, position) for path, found in positions.items() for position in found)
    path = f"{table.metadata.location}/data/{uuid.uuid4()}-deletes.parquet"
    named = [{"file_path": path, "pos": position} for path, position in rows]
    pq.write_table(pa.Table.from_pylist(named, DELETE_SCHEMA), path.removeprefix("file://"))
    paths = sorted(positions)
    file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition or Record(),
        record_count=len(rows),
        file_size_in_bytes=len(table.io.new_input(path)),
        lower_bounds={2147483546: paths[0].encode()},
        upper_bounds={2147483546: paths[-1].encode()},
    )
    commit_deletes(table, file)
    return file


def delete_where_equal(table: Table, partition: Record | None = None) -> DataFile:
    """Commit an entry of an equality delete file; the file itself need not exist, for nobody here may read it."""
    file = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES,
        file_path=f"{table.metadata.location}/data/{uuid.uuid4()}-equality.parquet",
        file_format=FileFormat.PARQUET,
        partition=partition or Record(),
        record_count=1,
        file_size_in_bytes=100,
        equality_ids=[1],
    )
    commit_deletes(table, file)
    return file


def commit_deletes(table: Table, file: DataFile) -> None:
    """One snapshot that adds the delete file and changes nothing else."""
    metadata, io = table.metadata, table.io
    head = metadata.current_snapshot()
    assert head is not None
    snapshot_id = metadata.new_snapshot_id()
    stem = f"{metadata.location}/metadata/{uuid.uuid4()}"
    entries: list[ManifestEntry] = [added(file, snapshot_id)]
    manifest: ManifestFile = write_manifest_file(
        NewFiles(io), f"{stem}-m0.avro", 2, table.spec(), table.schema(), snapshot_id, entries, ManifestContent.DELETES
    )
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=head.snapshot_id,
        sequence_number=metadata.next_sequence_number(),
        timestamp_ms=metadata.last_updated_ms + 1,
        manifest_list=f"{stem}-list.avro",
        summary=Summary(Operation.OVERWRITE),
        schema_id=metadata.current_schema_id,
    )
    write_list(NewFiles(io), snapshot, 2, [manifest, *head.manifests(io)])
    updates = (
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=snapshot_id),
    )
    table.catalog.commit_table(table, (AssertRefSnapshotId(ref="main", snapshot_id=head.snapshot_id),), updates)
