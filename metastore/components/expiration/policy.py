"""Decides which versions are outdated, and when a run is due: pure functions of metadata, settings and the time.

The head of every branch and tag is always kept. Without ``retain_last`` and ``min_age`` nothing else is kept: by
default the metastore has only its current state, and history must be configured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import ancestors_of

from metastore.lake.iceberg.catalogs.own_properties import OWN_PROPERTIES

LAST_RUN: Final = f"{OWN_PROPERTIES}expiration.last-run-ms"
"""Table property with the time of the table's last expiration, so that all processes share one period."""


CLOCKS_DIFFER: Final = timedelta(hours=1)
"""Maximum plausible difference between the clocks of two hosts."""


@dataclass(frozen=True)
class ExpirationPolicy:
    """A version expires if it is beyond the last ``retain_last`` and ``after_commit``, and older than ``min_age``.

    ``period``: time between runs; None: no periodic runs. ``after_commit``: number of versions kept after each commit;
    None: all.
    """

    period: timedelta | None
    retain_last: int | None = None
    min_age: timedelta | None = None
    after_commit: int | None = None

    @property
    def is_on(self) -> bool:
        """Whether versions ever expire automatically."""
        return self.after_commit is not None or (self.period is not None and self.period > timedelta(0))


def is_due(policy: ExpirationPolicy, metadata: TableMetadata, now_ms: int) -> bool:
    """Returns whether a run is due: versions are outdated after a commit, or the period has passed.

    The period starts at the last run, or at the first kept version if there was none. A start in the future
    (:func:`is_yet_to_come`) is ignored, and a run is due.
    """
    if policy.after_commit is not None and versions_to_expire(policy, metadata, now_ms):
        return True
    if policy.period is None or not policy.is_on or not metadata.snapshots:
        return False
    first = min(snapshot.timestamp_ms for snapshot in metadata.snapshots)
    last_run = int(metadata.properties.get(LAST_RUN, first))
    return now_ms - last_run >= _milliseconds(policy.period) or is_yet_to_come(last_run, now_ms)


def is_yet_to_come(time_ms: int, now_ms: int) -> bool:
    """Returns whether ``time_ms`` is further in the future than clocks of hosts may differ: a wrong clock wrote it."""
    return time_ms - now_ms > _milliseconds(CLOCKS_DIFFER)


def versions_to_expire(policy: ExpirationPolicy, metadata: TableMetadata, now_ms: int) -> list[int]:
    """Returns the ids of the versions to expire, oldest first."""
    kept = set(_kept_by_refs(policy, metadata))
    youngest = now_ms - _milliseconds(policy.min_age) if policy.min_age else None
    return [
        snapshot.snapshot_id
        for snapshot in sorted(metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms)
        if snapshot.snapshot_id not in kept and (youngest is None or snapshot.timestamp_ms < youngest)
    ]


def _kept_by_refs(policy: ExpirationPolicy, metadata: TableMetadata) -> Iterator[int]:
    for ref in metadata.refs.values():
        keep = 1
        if ref.snapshot_ref_type == SnapshotRefType.BRANCH:
            keep = max(policy.retain_last or 1, policy.after_commit or 1, ref.min_snapshots_to_keep or 1)
        ancestors = ancestors_of(metadata.snapshot_by_id(ref.snapshot_id), metadata)
        for _, snapshot in zip(range(keep), ancestors, strict=False):
            yield snapshot.snapshot_id


def _milliseconds(period: timedelta) -> int:
    return period // timedelta(milliseconds=1)
