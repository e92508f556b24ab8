"""What a scan reads: the data files of a snapshot that a condition leaves, each with the delete files that apply to it.

PyIceberg plans scans too. It refuses every table that has an equality delete file, and a REST catalog that plans for it
is not told of the snapshot of a table that was taken back in time.
"""

from __future__ import annotations

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from metastore.iceberg.delete_index import Deletes, unpartitioned_specs
from metastore.iceberg.live_files import live_files


def scan_tasks(
    metadata: TableMetadata,
    io: FileIO,
    condition: BooleanExpression | None = None,
    snapshot: Snapshot | None = None,
) -> list[FileScanTask]:
    """One task an entry of the ``snapshot`` (None: the current one), less files that are known to hold no row.

    ``condition`` must fit the current schema; a file stays if a row of it may match. Raises StorageError when a
    manifest cannot be read.
    """
    chosen = metadata.current_snapshot() if snapshot is None else snapshot
    if chosen is None:
        return []
    files = live_files(metadata, io, chosen, None if isinstance(condition, AlwaysTrue) else condition)
    deletes = Deletes(files.deletes, unpartitioned_specs(metadata))
    return [
        FileScanTask(data.file, {delete.file for delete in deletes.of(data)})
        for data in files.data
        if data.file.record_count
    ]
