"""The metadata table ``$changes``: the rows that each snapshot up to one inserted and deleted."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from metastore.lake.iceberg.rows.changelog import Changelog, SnapshotRange

CHANGES: Final = "changes"
"""The name of the metadata table. It has all changed rows, so SQL reads it in parts."""


def changelog_up_to(table: Table, snapshot_id: int | None) -> Changelog:
    """Returns the changes up to a snapshot, from the oldest one whose changes are known."""
    return Changelog.of(table, SnapshotRange(None, snapshot_id))


def changes(table: Table, snapshot: Snapshot | None) -> pa.Table:
    """Returns one row for each changed row: the columns of the table, and what happened to the row.

    Raises StorageError and FormatError, which name the file.
    """
    log = changelog_up_to(table, None if snapshot is None else snapshot.snapshot_id)
    return pa.Table.from_batches(log.batches(), log.schema)
