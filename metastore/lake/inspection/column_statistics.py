"""What is known of the columns of an Iceberg table without reading its rows, in the form of Trino's SHOW STATS.

Only certain figures are shown: metrics of manifests are believed as pruning believes them (note 008), and where delete
files take rows away, counts are unknown. Numbers of distinct values are estimates, from ``compute_table_stats``.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot, ancestors_of
from pyiceberg.types import BinaryType, FixedType, StringType

from metastore.lake.iceberg.manifests.believed_metrics import Metrics, primitive_leaves
from metastore.lake.iceberg.rows.puffin import THETA
from metastore.lake.inspection.column_metrics import ReadableMetrics
from metastore.lake.inspection.column_range import ColumnRange
from metastore.lake.inspection.of_manifests import list_manifests, live_entries

STATISTICS: Final[dict[str, pa.DataType]] = {
    "column_name": pa.string(),
    "data_size": pa.int64(),
    "distinct_values_count": pa.int64(),
    "nulls_fraction": pa.float64(),
    "row_count": pa.int64(),
    "low_value": pa.string(),
    "high_value": pa.string(),
}
_CUT: Final = (StringType, BinaryType, FixedType)
"""Types whose bounds writers cut: they limit the values and are none."""


def column_statistics(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """Returns one row for each column that holds values, and a last one, without a name, with the number of rows.

    ``data_size`` is the size in bytes of the column in all files, compressed. None means unknown.
    """
    schema = table.schema()
    columns = ReadableMetrics(schema).columns
    fields = [field for field in primitive_leaves(schema) if field.field_id in columns]
    ranges = {field.field_id: ColumnRange(field.field_id, columns[field.field_id][1]) for field in fields}
    sizes: dict[int, int | None] = dict.fromkeys(ranges, 0)
    believed = Metrics.of(table.metadata.properties)
    rows, has_deletes = 0, False
    for entry in live_entries(table, list_manifests(table, snapshot)):
        file = entry.data_file
        if file.content != DataFileContent.DATA:
            has_deletes = True
            continue
        rows += file.record_count
        checked = believed.file(file, fields)
        for field_id, each in ranges.items():
            each.add(checked)
            size, more = sizes[field_id], (file.column_sizes or {}).get(field_id)
            sizes[field_id] = None if size is None or more is None else size + more
    distinct = _distinct(table, snapshot)
    found = []
    for field in sorted(fields, key=lambda field: field.field_id):
        shown = ranges[field.field_id].row()
        nulls = shown["null_count"]
        is_cut = isinstance(field.field_type, _CUT)
        found.append(
            {
                "column_name": columns[field.field_id][0],
                "data_size": sizes[field.field_id],
                "distinct_values_count": distinct.get(field.field_id),
                "nulls_fraction": None if nulls is None or has_deletes or not rows else nulls / rows,
                "low_value": None if is_cut else ranges[field.field_id].low_text,
                "high_value": None if is_cut else ranges[field.field_id].high_text,
            }
        )
    last: dict[str, Any] = {"row_count": None if has_deletes else rows}
    return pa.Table.from_pylist([*found, last], pa.schema(STATISTICS))


def _distinct(table: Table, snapshot: Snapshot | None) -> dict[int, int]:
    """Returns estimates by column, from the statistics of the snapshot or of its nearest ancestor that has some."""
    metadata = table.metadata
    by_snapshot = {file.snapshot_id: file for file in metadata.statistics}
    for each in ancestors_of(snapshot, metadata):
        if each.snapshot_id in by_snapshot:
            blobs = by_snapshot[each.snapshot_id].blob_metadata
            known = [blob for blob in blobs if blob.type == THETA and len(blob.fields) == 1 and blob.properties]
            return {
                blob.fields[0]: int(ndv)
                for blob in known
                if (ndv := (blob.properties or {}).get("ndv", "")).isdecimal()
            }
    return {}
