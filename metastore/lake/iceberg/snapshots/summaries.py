"""The summary of a snapshot: counts of its changes, and the totals that follow from the parent's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyiceberg.manifest import DataFile
from pyiceberg.table.snapshots import (
    CHANGED_PARTITION_COUNT_PROP,
    Operation,
    Snapshot,
    Summary,
    UpdateMetrics,
    update_snapshot_summaries,
)

from metastore.lake.iceberg.manifests.partition_key import partition_key


def count_changes(new: Sequence[DataFile], gone: Sequence[DataFile]) -> dict[str, str]:
    """Return the counts of a change, as Iceberg for Java names them; a table without partitions counts as one."""
    metrics = UpdateMetrics()
    for file in new:
        metrics.add_file(file)
    for file in gone:
        metrics.remove_file(file)
    partitions = {partition_key(file.spec_id, file.partition) for file in (*new, *gone)}
    return {**metrics.to_dict(), CHANGED_PARTITION_COUNT_PROP: str(len(partitions))}


def summarize(operation: Operation, notes: Mapping[str, str], parent: Snapshot | None) -> Summary:
    """Return a summary with ``notes``, counts among them, and the totals of ``parent`` after these counts.

    It has no totals after a parent that has none.
    """
    previous = parent.summary.additional_properties if parent and parent.summary else None
    if parent and not previous:
        return Summary(operation, **notes)
    # PyIceberg sums up for every operation except this one.
    counted = Operation.OVERWRITE if operation is Operation.REPLACE else operation
    return Summary(operation, **update_snapshot_summaries(Summary(counted, **notes), previous).additional_properties)
