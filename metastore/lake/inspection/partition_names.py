"""The partitions of an Iceberg table by name, in the form of SHOW PARTITIONS: ``day=2021-04-01/city=Rome``."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from metastore.lake.iceberg.columns.schemas import schema_of
from metastore.lake.iceberg.manifests.partition_key import SpecPartition, partition_key
from metastore.lake.inspection.of_manifests import list_manifests, live_entries

_COLUMNS: Final[dict[str, pa.DataType]] = {
    "PARTITION": pa.string(),
    "SPEC_ID": pa.int32(),
    "RECORD_COUNT": pa.int64(),
    "FILE_COUNT": pa.int64(),
}


def partition_names(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """Returns partitions with live data files, by spec and name; values are encoded as in paths.

    Counts are those of the data files: deleted rows are still in them.
    """
    metadata = table.metadata
    specs = metadata.specs()
    schemas = {spec_id: schema_of(metadata, spec) for spec_id, spec in specs.items()}
    found: dict[SpecPartition, tuple[DataFile, list[int]]] = {}
    for entry in live_entries(table, list_manifests(table, snapshot)):
        file = entry.data_file
        if file.content == DataFileContent.DATA:
            _, counts = found.setdefault(partition_key(file.spec_id, file.partition), (file, [0, 0]))
            counts[0] += file.record_count
            counts[1] += 1
    rows = [
        {
            "PARTITION": specs[file.spec_id].partition_to_path(file.partition, schemas[file.spec_id]),
            "SPEC_ID": file.spec_id,
            "RECORD_COUNT": counts[0],
            "FILE_COUNT": counts[1],
        }
        for file, counts in found.values()
    ]
    return pa.Table.from_pylist(rows, pa.schema(_COLUMNS)).sort_by(
        [("SPEC_ID", "ascending"), ("PARTITION", "ascending")]
    )
