"""Columns of ``$partitions`` from partition statistics: one small file in place of all manifests.

Place in the flow: ``$partitions`` asks here if a query wants no bounds of columns. Iceberg's statistics count deletion
vectors apart, and keep partitions that have no file any more; ``$partitions`` does neither. A file is passed over, and
manifests are read, if it is gone, says less than the specification requires, or counts other files than its snapshot's
summary. So is a file of Iceberg for Java if the table has had several specs: its releases up to 1.11 add partitions of
different specs up (apache/iceberg#17915).

Statistics of another snapshot are brought up to date. A count of the one snapshot is that of the other, less the files
of manifests that only the other has, plus those of manifests that only the one has. So only these are read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from metastore.errors import MetastoreError
from metastore.lake.iceberg.manifests.partition_key import SpecPartition, partition_key
from metastore.lake.iceberg.rows.row_difference import row_numbers
from metastore.lake.inspection.file_counts import COUNTS, FileCounts
from metastore.lake.inspection.of_manifests import list_manifests, live_entries
from metastore.lake.inspection.of_metadata import TIMESTAMP
from metastore.lake.inspection.partition_columns import PartitionColumn
from metastore.lake.stores.files import open_ranges

_log: Final = logging.getLogger(__name__)
_compute: Any = pc

_PARTITION, _SPEC, _SNAPSHOT, _VECTORS = 1, 2, 12, 13
_FIRST_COUNT: Final = 3
"""The ids of fields in the statistics; those of the counts follow each other."""

_OF_JAVA: Final = "parquet-mr"
_TOTALS: Final = {"record_count": "total-records", "file_count": "total-data-files"}
"""Counts that the summary of a snapshot has for the whole table."""

_FILES: Final = tuple(name for name in COUNTS if name.endswith("file_count"))

LAST_CHANGE: Final = frozenset({"last_updated_at", "last_updated_snapshot_id"})
"""The columns about the snapshot that last changed a live file."""

COLUMNS: Final = frozenset({"partition", "spec_id", *COUNTS, "total_size", *LAST_CHANGE})
"""The columns that statistics tell."""


def counted_partitions(table: Table, snapshot: Snapshot, *, last_change: bool = False) -> pa.Table | None:
    """Returns :data:`COLUMNS` of each partition with a file; those of :data:`LAST_CHANGE` only if ``last_change``.

    Returns None if no statistics tell them, or if reading all manifests of the snapshot is cheaper.
    """
    files = {each.snapshot_id: each.statistics_path for each in table.metadata.partition_statistics}
    own = files.get(snapshot.snapshot_id)
    if own is not None:
        held = _read_columns(table, own)
        counted = None if held is None else _counts(table, snapshot, held)
        if held is None or counted is None:
            return None
        if last_change:
            counted = _with_last_change(table, counted, held.get(_SNAPSHOT))
        return None if counted is None else _live_partitions(counted)
    if last_change:
        return None
    for other in reversed(table.metadata.snapshots):
        path = files.get(other.snapshot_id)
        if path is not None:
            try:
                return _brought_to(table, snapshot, other, path)
            except (OSError, MetastoreError) as error:
                _log.warning("partition statistics %s are not used, because a manifest is missing: %s", path, error)
                return None
    return None


def _brought_to(table: Table, snapshot: Snapshot, other: Snapshot, path: str) -> pa.Table | None:
    """Returns the counts of ``snapshot`` by the statistics ``path`` of the snapshot ``other``."""
    now, before = ({each.manifest_path: each for each in list_manifests(table, of)} for of in (snapshot, other))
    gone = [each for manifest, each in before.items() if manifest not in now]
    come = [each for manifest, each in now.items() if manifest not in before]
    if _size([*gone, *come]) >= _size(list(now.values())):
        return None
    held = _read_columns(table, path)
    counted = None if held is None else _counts(table, other, held)
    if counted is None:
        return None
    every = pa.concat_tables([counted, _count_partitions(table, come, 1), _count_partitions(table, gone, -1)])
    numbers = row_numbers(every.drop_columns(list(COUNTS)))
    _, first = np.unique(numbers, return_index=True)
    sums: dict[str, Any] = {}
    for name in COUNTS:
        total = np.zeros(len(first), dtype=np.int64)
        np.add.at(total, numbers, every[name].to_numpy())
        sums[name] = pa.array(total)
        if (total < 0).any():
            _log.warning("partition statistics %s count fewer files than the snapshot had, so manifests are read", path)
            return None
    brought = every.drop_columns(list(COUNTS)).take(first)
    for name, values in sums.items():
        brought = brought.append_column(name, values)
    return _live_partitions(brought)


def _size(manifests: Sequence[ManifestFile]) -> int:
    return sum(each.manifest_length for each in manifests)


def _count_partitions(table: Table, manifests: Sequence[ManifestFile], sign: int) -> pa.Table:
    """Returns the counts of the live files of ``manifests``, times ``sign``."""
    shown = PartitionColumn(table.metadata)
    found: dict[SpecPartition, tuple[dict[str, Any], FileCounts]] = {}
    for entry in live_entries(table, manifests):
        file = entry.data_file
        key = partition_key(file.spec_id, file.partition)
        if key not in found:
            found[key] = ({**shown.of(file), "spec_id": file.spec_id}, FileCounts())
        found[key][1].add(file)
    rows = [{**key, **{name: sign * each for name, each in own.values.items()}} for key, own in found.values()]
    return pa.Table.from_pylist(rows, _schema(shown))


def _schema(shown: PartitionColumn) -> pa.Schema:
    counts = [pa.field(name, pa.int64()) for name in COUNTS]
    return pa.schema([*shown.fields, pa.field("spec_id", pa.int32()), *counts])


def _read_columns(table: Table, path: str) -> dict[int, Any] | None:
    """Returns the columns of a file of statistics by their ids; None if it cannot be read."""
    try:
        with open_ranges(table.io, path) as stream:
            file = pq.ParquetFile(stream)
            if len(table.metadata.partition_specs) > 1 and _OF_JAVA in (file.metadata.created_by or ""):
                return None
            held = file.read()
    except (OSError, pa.ArrowException) as error:
        _log.warning("partition statistics %s cannot be read, so manifests are: %s", path, error)
        return None
    return dict(_by_id(held))


def _counts(table: Table, snapshot: Snapshot, held: dict[int, Any]) -> pa.Table | None:
    """Returns partition, spec and counts; None if the statistics of ``snapshot`` lack one of them, or are wrong."""
    shown = PartitionColumn(table.metadata)
    columns = {name: held.get(_FIRST_COUNT + number) for number, name in enumerate(COUNTS)}
    partition, spec = held.get(_PARTITION), held.get(_SPEC)
    if partition is None or spec is None or any(each is None or each.null_count for each in columns.values()):
        return None
    counts = {name: _compute.cast(each, pa.int64()) for name, each in columns.items()}
    if (vectors := held.get(_VECTORS)) is not None:
        vectors = _compute.cast(_compute.fill_null(vectors, 0), pa.int64())
        counts["position_delete_file_count"] = _compute.add(counts["position_delete_file_count"], vectors)
    for name, total in _TOTALS.items():
        known = snapshot.summary.additional_properties.get(total) if snapshot.summary is not None else None
        if known is not None and known != str(_compute.sum(counts[name]).as_py() or 0):
            _log.warning("partition statistics of snapshot %s are wrong, so manifests are read", snapshot.snapshot_id)
            return None
    keys = shown.from_statistics(partition)
    if keys is None:
        return None
    return pa.table({**keys, "spec_id": _compute.cast(spec, pa.int32()), **counts}).cast(_schema(shown))


def _with_last_change(table: Table, counted: pa.Table, changed_by: Any) -> pa.Table | None:
    """Returns the counts with the columns :data:`LAST_CHANGE`; None if statistics do not tell them of each partition.

    Statistics have the last change of any kind, and ``$partitions`` the newest snapshot that added a live file. An
    append removes no file. So if the last change was an append, its files are live, and it is the snapshot wanted.
    """
    if changed_by is None:
        return None
    times = {
        each.snapshot_id: each.timestamp_ms
        for each in table.metadata.snapshots
        if each.summary is not None and each.summary.operation == Operation.APPEND
    }
    ids = changed_by.to_pylist()
    if not all(
        each in times for each, has_files in zip(ids, _has_files(counted).to_pylist(), strict=True) if has_files
    ):
        return None
    changed = pa.array([times.get(each) for each in ids], TIMESTAMP)
    snapshots = pa.array(ids, pa.int64())
    return counted.append_column("last_updated_at", changed).append_column("last_updated_snapshot_id", snapshots)


def _has_files(counted: pa.Table) -> Any:
    first, second, third = (counted[name] for name in _FILES)
    return _compute.greater(_compute.add(_compute.add(first, second), third), 0)


def _live_partitions(counted: pa.Table) -> pa.Table:
    """Returns the partitions that have a file, with all columns."""
    return counted.append_column("total_size", counted["total_data_file_size_in_bytes"]).filter(_has_files(counted))


def _by_id(held: pa.Table) -> Iterator[tuple[int, Any]]:
    for field, column in zip(held.schema, held.columns, strict=True):
        number = (field.metadata or {}).get(b"PARQUET:field_id")
        if number is not None:
            yield int(number), column
