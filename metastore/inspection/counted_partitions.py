"""The counts of ``$partitions`` from a snapshot's partition statistics: one small file in place of all manifests.

Place in the flow: ``$partitions`` asks here if a query wants counts only. A file that says less than the specification
requires, or that is gone, is passed over: then manifests are read. Iceberg's statistics count deletion vectors apart,
and keep partitions that have no file any more; ``$partitions`` does neither.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from metastore.inspection.partition_columns import PartitionColumn
from metastore.stores.files import open_ranges

_log: Final = logging.getLogger(__name__)
_compute: Any = pc

_PARTITION, _SPEC, _VECTORS = 1, 2, 13
_COUNTS: Final = {
    "record_count": 3,
    "file_count": 4,
    "total_data_file_size_in_bytes": 5,
    "position_delete_record_count": 6,
    "position_delete_file_count": 7,
    "equality_delete_record_count": 8,
    "equality_delete_file_count": 9,
}
"""Columns of ``$partitions`` by their field ids in the statistics."""

COLUMNS: Final = frozenset({"partition", "spec_id", *_COUNTS, "total_size"})
"""The columns that statistics tell."""


def counted_partitions(table: Table, snapshot: Snapshot) -> pa.Table | None:
    """Returns :data:`COLUMNS` of each partition with a file; None if the snapshot has no statistics that tell them."""
    files = {each.snapshot_id: each.statistics_path for each in table.metadata.partition_statistics}
    path = files.get(snapshot.snapshot_id)
    if path is None:
        return None
    try:
        with open_ranges(table.io, path) as stream:
            held = pq.ParquetFile(stream).read()
    except (OSError, pa.ArrowException) as error:
        _log.warning("partition statistics %s cannot be read, so manifests are: %s", path, error)
        return None
    return _shown(PartitionColumn(table), _by_id(held))


def _shown(shown: PartitionColumn, held: dict[int, Any]) -> pa.Table | None:
    columns = {name: held.get(field_id) for name, field_id in _COUNTS.items()}
    partition, spec = held.get(_PARTITION), held.get(_SPEC)
    if partition is None or spec is None or any(each is None or each.null_count for each in columns.values()):
        return None
    counts = {name: _compute.cast(each, pa.int64()) for name, each in columns.items()}
    if (vectors := held.get(_VECTORS)) is not None:
        vectors = _compute.cast(_compute.fill_null(vectors, 0), pa.int64())
        counts["position_delete_file_count"] = _compute.add(counts["position_delete_file_count"], vectors)
    files = [counts[name] for name in _COUNTS if name.endswith("file_count")]
    keys = shown.stored(partition)
    if keys is None:
        return None
    found = pa.table(
        {
            **keys,
            "spec_id": _compute.cast(spec, pa.int32()),
            **counts,
            "total_size": counts["total_data_file_size_in_bytes"],
        }
    )
    return found.filter(_compute.greater(_compute.add(_compute.add(*files[:2]), files[2]), 0))


def _by_id(held: pa.Table) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for field, column in zip(held.schema, held.columns, strict=True):
        number = (field.metadata or {}).get(b"PARQUET:field_id")
        if number is not None:
            found[int(number)] = column
    return found
