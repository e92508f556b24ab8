"""Snapshots that a test knows to be there."""

from __future__ import annotations

from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot, Summary


def current(table: Table) -> Snapshot:
    """The table's current snapshot."""
    return there(table.current_snapshot())


def there(snapshot: Snapshot | None) -> Snapshot:
    """The snapshot, which is one."""
    assert snapshot is not None
    return snapshot


def summary_of(table: Table) -> Summary:
    """What the table's current snapshot says of itself."""
    found = current(table).summary
    assert found is not None
    return found


def ints(values: Any) -> list[int]:
    """Numbers of a column, sorted."""
    return sorted(values.to_pylist())


def operations(table: Table) -> list[str]:
    """The operation of every snapshot, in the order of the metadata."""
    summaries = [snapshot.summary for snapshot in table.metadata.snapshots]
    return [summary.operation.value for summary in summaries if summary is not None]
