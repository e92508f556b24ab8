"""Delete files of Iceberg tables, made by hand: PyIceberg reads those of positions and writes none."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from metastore.lake.iceberg.manifests.manifest_writer import write_manifest_file
from metastore.lake.iceberg.manifests.manifests import added_entry, write_list
from metastore.lake.stores.new_files import NewFiles

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


def delete_equal(
    table: Table,
    rows: pa.Table,
    ids: Sequence[int],
    partition: Record | None = None,
    spec: PartitionSpec | None = None,
    *,
    bounds: Mapping[int, tuple[bytes, bytes]] | None = None,
    format_: FileFormat = FileFormat.PARQUET,
) -> DataFile:
    """Commit an equality delete file of ``rows``, whose fields carry their ids: rows that are equal in ``ids`` go."""
    path = f"{table.metadata.location}/data/{uuid.uuid4()}-equal.{format_.name.lower()}"
    local = path.removeprefix("file:").replace("//", "/")
    Path(local).parent.mkdir(parents=True, exist_ok=True)
    if format_ is FileFormat.PARQUET:
        pq.write_table(rows, local)
    else:
        orc.write_table(rows, local)
    file = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES,
        file_path=path,
        file_format=format_,
        partition=partition or Record(),
        record_count=rows.num_rows,
        file_size_in_bytes=len(table.io.new_input(path)),
        lower_bounds={own: low for own, (low, _) in (bounds or {}).items()},
        upper_bounds={own: high for own, (_, high) in (bounds or {}).items()},
        equality_ids=list(ids),
    )
    commit_deletes(table, file, spec)
    return file


def with_ids(rows: pa.Table, *ids: int) -> pa.Table:
    """The rows with these field ids, one a column."""
    fields = [field.with_metadata({"PARQUET:field_id": str(own)}) for field, own in zip(rows.schema, ids, strict=True)]
    return rows.cast(pa.schema(fields))


def commit_deletes(table: Table, file: DataFile, spec: PartitionSpec | None = None) -> None:
    """One snapshot that adds the delete file and changes nothing else; ``spec`` is the file's, else the current."""
    metadata, io = table.metadata, table.io
    head = metadata.current_snapshot()
    assert head is not None
    snapshot_id = metadata.new_snapshot_id()
    stem = f"{metadata.location}/metadata/{uuid.uuid4()}"
    entries: list[ManifestEntry] = [added_entry(file, snapshot_id)]
    manifest: ManifestFile = write_manifest_file(
        NewFiles(io),
        f"{stem}-m0.avro",
        2,
        spec or table.spec(),
        table.schema(),
        snapshot_id,
        entries,
        ManifestContent.DELETES,
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
