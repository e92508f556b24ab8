"""The metadata table ``$position_deletes``: each deleted position, from delete files and from deletion vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from metastore.lake.iceberg.columns.version_3_fields import content_offset, content_size, referenced_data_file
from metastore.lake.iceberg.rows.position_deletes import deleted_positions, position_batches
from metastore.lake.inspection.of_manifests import list_manifests, live_entries
from metastore.lake.inspection.partition_columns import PartitionColumn
from metastore.lake.stores.read_errors import reading_file

_LONG: Final[pa.DataType] = pa.int64()
_TEXT: Final[pa.DataType] = pa.string()
_Deleted: TypeAlias = tuple[DataFile, "pa.Array[Any]", "pa.Array[Any]"]


def position_deletes(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """Returns the positions in the snapshot's delete files and deletion vectors, in the order of the files.

    A position is shown even if its data file is not in the snapshot any more.
    """
    shown = PartitionColumn(table.metadata)
    named = [pa.field("file_path", _TEXT), pa.field("pos", _LONG)]
    same: list[pa.Field[Any]] = [
        *shown.fields,
        pa.field("spec_id", pa.int32()),
        pa.field("delete_file_path", _TEXT),
        pa.field("content_offset", _LONG),
        pa.field("content_size_in_bytes", _LONG),
    ]
    schema = pa.schema([*named, *same])
    batches = []
    for file, paths, positions in _positions(table, snapshot):
        row = {
            **shown.of(file),
            "spec_id": file.spec_id,
            "delete_file_path": file.file_path,
            "content_offset": content_offset(file),
            "content_size_in_bytes": content_size(file),
        }
        constants: list[pa.Array[Any]] = [
            pa.array([row[each.name]], each.type).take(pa.repeat(0, len(positions))) for each in same
        ]
        batches.append(pa.RecordBatch.from_arrays([paths, positions, *constants], schema=schema))
    return pa.Table.from_batches(batches, schema)


def _positions(table: Table, snapshot: Snapshot | None) -> Iterator[_Deleted]:
    """Yields delete files with paths of data files and positions in them, in arrays of equal length."""
    by_path: dict[str, list[DataFile]] = {}
    manifests = [each for each in list_manifests(table, snapshot) if each.content == ManifestContent.DELETES]
    for entry in live_entries(table, manifests):
        if entry.data_file.content == DataFileContent.POSITION_DELETES:
            by_path.setdefault(entry.data_file.file_path, []).append(entry.data_file)
    for path, files in by_path.items():
        with reading_file(path):
            read = _of_vectors if files[0].file_format is FileFormat.PUFFIN else _of_rows
            yield from read(table, path, files)


def _of_vectors(table: Table, path: str, files: Sequence[DataFile]) -> Iterator[_Deleted]:
    """Yields the positions of all vectors of one Puffin file, which is read once."""
    targets = {target for file in files if (target := referenced_data_file(file)) is not None}
    found = deleted_positions(table.io, path, FileFormat.PUFFIN, targets)
    for file in files:
        target = referenced_data_file(file)
        for positions in found.get(target or "", ()):
            yield file, pa.array([target], _TEXT).take(pa.repeat(0, len(positions))), pa.array(positions, _LONG)


def _of_rows(table: Table, path: str, files: Sequence[DataFile]) -> Iterator[_Deleted]:
    for file in files:
        for batch in position_batches(table.io, path, file.file_format):
            yield file, batch.column(0).cast(_TEXT), batch.column(1).cast(_LONG)
