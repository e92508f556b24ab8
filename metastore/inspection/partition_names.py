"""The partitions of an Iceberg table by name, in the form of SHOW PARTITIONS: ``day=2021-04-01/city=Rome``."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record

from metastore.iceberg.schemas import schema_of
from metastore.inspection.of_manifests import listed, live_entries

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
    found: dict[tuple[int, Record], list[int]] = {}
    for entry in live_entries(table, listed(table, snapshot)):
        file = entry.data_file
        if file.content == DataFileContent.DATA:
            counts = found.setdefault((file.spec_id, file.partition), [0, 0])
            counts[0] += file.record_count
            counts[1] += 1
    rows = [
        {
            "PARTITION": specs[spec_id].partition_to_path(partition, schemas[spec_id]),
            "SPEC_ID": spec_id,
            "RECORD_COUNT": counts[0],
            "FILE_COUNT": counts[1],
        }
        for (spec_id, partition), counts in found.items()
    ]
    return pa.Table.from_pylist(rows, pa.schema(_COLUMNS)).sort_by(
        [("SPEC_ID", "ascending"), ("PARTITION", "ascending")]
    )
