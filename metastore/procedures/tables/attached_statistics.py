"""Attaches a statistics file to its snapshot: of the table's columns, or of its partitions.

Place in the flow: ``compute_table_stats`` and ``compute_partition_stats`` have written a file, and call this.
"""

from __future__ import annotations

from datetime import timedelta

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.statistics import PartitionStatisticsFile, StatisticsFile
from pyiceberg.table.update import AssertTableUUID, SetPartitionStatisticsUpdate, SetStatisticsUpdate

from metastore.errors import ConflictError, InvalidRequestError, StorageError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.snapshots.contention import until_won
from metastore.lake.stores.files import discard


def attach(
    target: TargetTable, timeout: timedelta, io: FileIO, statistics: StatisticsFile | PartitionStatisticsFile
) -> None:
    """Set the file as its snapshot's statistics. The file is removed if that certainly failed.

    Raises ConflictError if the snapshot has expired, or other writers win for ``timeout``; StorageError if the commit
    was refused; OutcomeUnknownError if that is unknown.
    """
    update = (
        SetStatisticsUpdate(statistics=statistics)
        if isinstance(statistics, StatisticsFile)
        else SetPartitionStatisticsUpdate(partition_statistics=statistics)
    )

    def attempt(fresh: Table) -> None:
        if fresh.metadata.snapshot_by_id(statistics.snapshot_id) is None:
            raise ConflictError(f"snapshot {statistics.snapshot_id} of {target} expired while it was read")
        target.commit(fresh, [AssertTableUUID(uuid=fresh.metadata.table_uuid)], [update])

    try:
        until_won(target, timeout, attempt)
    except (ConflictError, InvalidRequestError, StorageError):
        discard(io, [statistics.statistics_path])
        raise
