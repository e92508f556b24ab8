"""Chooses the version that a read uses: the newest, one by id, or the one current at a time.

A request sets it once; the reader applies it to each newly loaded metadata. Pure functions of the metadata.
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
    """Return the current snapshot."""
    return metadata.current_snapshot()


@dataclass(frozen=True)
class SeenVersion:
    """A version that the same call has found before, so it need not look for a newer one."""

    id: int

    def __call__(self, metadata: TableMetadata) -> Snapshot | None:
        """As :func:`at_version`."""
        return at_version(self.id)(metadata)


def at_version(version: int) -> SnapshotChoice:
    """Choose the snapshot with id ``version``; 0 is the empty version before the first. NotFoundError if not kept."""

    def choose(metadata: TableMetadata) -> Snapshot | None:
        snapshot = metadata.snapshot_by_id(version)
        if snapshot is None and version != 0:
            raise NotFoundError(
                f"version {version} is not kept (any more); `metastore history` lists the versions that are"
            )
        return snapshot

    return choose


def as_of(time: datetime) -> SnapshotChoice:
    """Choose the snapshot current at ``time`` (in ms); None before the first. NotFoundError if it is gone.

    Snapshots that were rolled back later count too, for the time when they were current.
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
    """Whether other versions were current between ``before`` and ``version``, its successor in the history.

    A version whose parent has expired has no parent id, and had one when it became current.
    """
    snapshot = metadata.snapshot_by_id(version)
    return snapshot is None or snapshot.parent_snapshot_id is None or version == before.snapshot_id
