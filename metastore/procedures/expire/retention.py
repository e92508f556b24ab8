"""Decides which snapshots, branches and tags of an Iceberg table expire. Pure functions.

Each branch keeps its newest snapshots: at least ``min-snapshots-to-keep`` of them, and all that are not older than
``max-snapshot-age-ms``. The values of the branch come first, then those of the call, then those of the table
(``history.expire.*``). A branch or tag older than its ``max-ref-age-ms`` is removed itself; ``main`` never is.
Snapshots on no ref are kept if they are newer than the call's bound.

If snapshot IDs are given, exactly these expire, whatever their age. This is the one deliberate difference from
Iceberg's Java library, which expires them in addition to all old snapshots.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from metastore.errors import FormatError, InvalidRequestError

MAX_SNAPSHOT_AGE: Final = "history.expire.max-snapshot-age-ms"
MIN_SNAPSHOTS: Final = "history.expire.min-snapshots-to-keep"
MAX_REF_AGE: Final = "history.expire.max-ref-age-ms"

_DEFAULT_AGE_MS: Final = 5 * 24 * 60 * 60 * 1000
_FOR_EVER_MS: Final = (1 << 63) - 1


@dataclass(frozen=True)
class Retention:
    """The arguments of a call; None means the table's setting. If ``snapshot_ids`` are given, exactly these expire."""

    older_than_ms: int | None = None
    retain_last: int | None = None
    snapshot_ids: Sequence[int] = ()

    def __post_init__(self) -> None:
        if self.retain_last is not None and self.retain_last < 1:
            raise InvalidRequestError(
                f"Number of snapshots to retain must be at least 1, cannot be: {self.retain_last}"
            )
        if self.snapshot_ids and (self.older_than_ms is not None or self.retain_last is not None):
            raise InvalidRequestError(
                "snapshot_ids names exactly the snapshots to expire; leave older_than and retain_last out"
            )


@dataclass(frozen=True)
class Expiring:
    """IDs of the snapshots to remove, oldest first, and names of the branches and tags to remove."""

    snapshots: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.snapshots or self.refs)


def expiring(retention: Retention, metadata: TableMetadata, now_ms: int) -> Expiring:
    """Returns what ``retention`` removes from the table at ``now_ms``.

    Raises InvalidRequestError if the table does not have a given ID, or a branch or tag points to it. Raises
    FormatError if a table property is not a number.
    """
    if retention.snapshot_ids:
        return Expiring(_only(retention.snapshot_ids, metadata))
    refs = tuple(sorted(_outdated_refs(metadata, now_ms)))
    kept = set(_keep_snapshots(retention, metadata, refs, now_ms))
    return Expiring(tuple(s.snapshot_id for s in _by_age(metadata.snapshots) if s.snapshot_id not in kept), refs)


def _only(ids: Sequence[int], metadata: TableMetadata) -> tuple[int, ...]:
    wanted = set(ids)
    unknown = sorted(wanted - {snapshot.snapshot_id for snapshot in metadata.snapshots})
    if unknown:
        raise InvalidRequestError(f"Cannot expire unknown snapshots: {', '.join(map(str, unknown))}")
    for snapshot_id in sorted(wanted):
        heads = sorted(name for name, ref in metadata.refs.items() if ref.snapshot_id == snapshot_id)
        if heads:
            raise InvalidRequestError(f"Cannot expire {snapshot_id}. Still referenced by refs: {', '.join(heads)}")
    return tuple(s.snapshot_id for s in _by_age(metadata.snapshots) if s.snapshot_id in wanted)


def _outdated_refs(metadata: TableMetadata, now_ms: int) -> Iterator[str]:
    by_default = _number(metadata, MAX_REF_AGE, _FOR_EVER_MS)
    for name, ref in metadata.refs.items():
        snapshot = metadata.snapshot_by_id(ref.snapshot_id)
        longest = by_default if ref.max_ref_age_ms is None else ref.max_ref_age_ms
        if name != MAIN_BRANCH and snapshot is not None and now_ms - snapshot.timestamp_ms > longest:
            yield name


def _keep_snapshots(retention: Retention, metadata: TableMetadata, gone: Collection[str], now_ms: int) -> Iterator[int]:
    bound = retention.older_than_ms
    if bound is None:
        bound = now_ms - _number(metadata, MAX_SNAPSHOT_AGE, _DEFAULT_AGE_MS)
    least = retention.retain_last or max(1, _number(metadata, MIN_SNAPSHOTS, 1))
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    on_refs: set[int] = set()
    for name, ref in metadata.refs.items():
        if name not in gone:
            history = _history(ref, by_id)
            on_refs.update(snapshot.snapshot_id for snapshot in history)
            yield from _kept_of(ref, history, bound, least, now_ms)
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id not in on_refs and snapshot.timestamp_ms >= bound:
            yield snapshot.snapshot_id


def _history(ref: SnapshotRef, by_id: Mapping[int, Snapshot]) -> list[Snapshot]:
    """Returns the snapshots of a ref: a branch's head and all ancestors, newest first; or a tag's one snapshot."""
    found: dict[int, Snapshot] = {}
    next_id: int | None = ref.snapshot_id
    while next_id is not None and next_id not in found and (snapshot := by_id.get(next_id)) is not None:
        found[next_id] = snapshot
        next_id = None if ref.snapshot_ref_type == SnapshotRefType.TAG else snapshot.parent_snapshot_id
    return list(found.values())


def _kept_of(ref: SnapshotRef, history: Sequence[Snapshot], bound: int, least: int, now_ms: int) -> Iterator[int]:
    oldest = bound if ref.max_snapshot_age_ms is None else now_ms - ref.max_snapshot_age_ms
    count = least if ref.min_snapshots_to_keep is None else max(1, ref.min_snapshots_to_keep)
    for position, snapshot in enumerate(history):
        if position >= count and snapshot.timestamp_ms < oldest:
            # All older ones expire too, even if a clock that was set back makes them look newer: a history has no gaps.
            return
        yield snapshot.snapshot_id


def _by_age(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    return sorted(snapshots, key=lambda snapshot: snapshot.timestamp_ms)


def _number(metadata: TableMetadata, name: str, default: int) -> int:
    text = metadata.properties.get(name)
    try:
        return default if text is None else int(text)
    except ValueError as error:
        raise FormatError(f"table property {name} of {metadata.location} is no whole number: {text!r}") from error
