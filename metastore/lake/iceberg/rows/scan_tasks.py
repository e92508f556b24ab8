"""Plans a scan: data files of a snapshot that may match a condition, each with its applicable delete files.

PyIceberg plans scans too. But it refuses every table with an equality delete file, and does not tell a REST catalog
that plans scans which snapshot a time-travel read needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from metastore.lake.iceberg.rows.delete_index import Deletes, unpartitioned_specs
from metastore.lake.iceberg.rows.live_files import LiveFile, live_files


class EntryTask(FileScanTask):
    """The task of reading one data file. ``added_number`` is the sequence number of the commit that added the file."""

    def __init__(self, data: LiveFile, deletes: Iterable[LiveFile]) -> None:
        super().__init__(data.file, {delete.file for delete in deletes})
        self.added_number = data.added_number


def scan_tasks(
    metadata: TableMetadata,
    io: FileIO,
    condition: BooleanExpression | None = None,
    snapshot: Snapshot | None = None,
) -> list[EntryTask]:
    """Return one task for each entry of ``snapshot`` (None: current), without files known to have no rows.

    ``condition`` must fit the current schema; a file stays if a row of it may match. Raises StorageError if a manifest
    cannot be read.
    """
    chosen = metadata.current_snapshot() if snapshot is None else snapshot
    if chosen is None:
        return []
    files = live_files(metadata, io, chosen, None if isinstance(condition, AlwaysTrue) else condition)
    deletes = Deletes(files.deletes, unpartitioned_specs(metadata))
    return [EntryTask(data, deletes.of(data)) for data in files.data if data.file.record_count]


def without_history(metadata: TableMetadata, **others: Any) -> TableMetadata:
    """Return what tasks need of ``metadata`` to read files, with ``others`` replaced; a history may be megabytes."""
    lists = ("snapshots", "snapshot_log", "metadata_log", "statistics", "partition_statistics")
    nothing: dict[str, Any] = {**{name: [] for name in lists}, "refs": {}, "current_snapshot_id": None}
    bare: TableMetadata = metadata.model_copy(update={**nothing, **others})
    return bare
