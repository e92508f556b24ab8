"""Which version of a table a read is of: the newest, one by its id, or the one that was current at some time.

Place in the flow: a request says it once, and the reader asks anew of each fresh metadata. Pure functions of that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from metastore.errors import NotFoundError

SnapshotChoice = Callable[[TableMetadata], Snapshot | None]


def newest(metadata: TableMetadata) -> Snapshot | None:
    """The current snapshot."""
    return metadata.current_snapshot()


@dataclass(frozen=True)
class SeenVersion:
    """The version ``id`` that the same call has found before: no look for a newer one tells more of it."""

    id: int

    def __call__(self, metadata: TableMetadata) -> Snapshot | None:
        """As :func:`at_version`."""
        return at_version(self.id)(metadata)


def at_version(version: int) -> SnapshotChoice:
    """The snapshot with id ``version``; 0 is the empty version before the first. NotFoundError when it is not kept."""

    def choose(metadata: TableMetadata) -> Snapshot | None:
        snapshot = metadata.snapshot_by_id(version)
        if snapshot is None and version != 0:
            raise NotFoundError(f"version {version} is not kept (any more); the history lists the versions that are")
        return snapshot

    return choose


def as_of(time: datetime) -> SnapshotChoice:
    """The snapshot current at ``time``, to the millisecond; None before the first. NotFoundError when it is gone.

    What was rolled back since then was current all the same.
    """
    moment = int(time.timestamp() * 1000)

    def choose(metadata: TableMetadata) -> Snapshot | None:
        log = metadata.snapshot_log
        passed = sum(entry.timestamp_ms <= moment for entry in log)
        if not passed:
            first = metadata.snapshot_by_id(log[0].snapshot_id) if log else metadata.current_snapshot()
            if first is None or first.sequence_number == 1:
                return None
            raise NotFoundError(f"no version is kept from {time.isoformat()} or before")
        began = log[passed - 1]
        found = metadata.snapshot_by_id(began.snapshot_id)
        ended = passed < len(log) and began.timestamp_ms < moment
        if found is None or (ended and _follows_a_gap(metadata, log[passed].snapshot_id, found)):
            raise NotFoundError(f"the version that was current at {time.isoformat()} is not kept (any more)")
        return found

    return choose


def _follows_a_gap(metadata: TableMetadata, version: int, before: Snapshot) -> bool:
    """Whether other versions were current between ``before`` and ``version``, which the history has next.

    A version whose parent expired names none any more, and none becomes current when it is.
    """
    snapshot = metadata.snapshot_by_id(version)
    return snapshot is None or snapshot.parent_snapshot_id is None or version == before.snapshot_id
