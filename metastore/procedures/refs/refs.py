"""Moves the branches and tags of a table by commits.

Place in the flow: the procedures on snapshots decide what a ref becomes; this module commits the decision. Promises: a
ref that moves keeps its retention (PyIceberg drops it). The commit requires that the ref is unchanged since the
decision, so no concurrent move is overwritten. After a lost race, the decision is made again. A decision that changes
nothing makes no new version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of
from pyiceberg.table.update import (
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from metastore.errors import ProcedureError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.snapshots.contention import until_won
from metastore.lake.iceberg.snapshots.snapshot import NewSnapshot, RefIsAt
from metastore.lake.iceberg.snapshots.summaries import count_changes, summarize
from metastore.procedures.framework.model import CallContext


@dataclass(frozen=True)
class RefRetention:
    """How long a ref and its snapshots stay; None means not set. For a tag, only the age of the ref itself counts."""

    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None
    max_ref_age_ms: int | None = None

    @classmethod
    def of(cls, ref: SnapshotRef | None) -> RefRetention:
        """Returns the retention of ``ref``; nothing is set if ``ref`` is None."""
        if ref is None:
            return cls()
        return cls(ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms)

    def over(self, older: RefRetention) -> RefRetention:
        """Returns the values that are set here, and the others from ``older``."""
        return RefRetention(
            self.min_snapshots_to_keep or older.min_snapshots_to_keep,
            self.max_snapshot_age_ms or older.max_snapshot_age_ms,
            self.max_ref_age_ms or older.max_ref_age_ms,
        )


@dataclass(frozen=True)
class RefChange:
    """The new state of a ref: its snapshot and its retention. If ``head`` is None, the ref is removed.

    ``relies_on`` names further refs that must not move between decision and commit. A branch of a table without
    snapshots ``begins_empty``: the commit makes an empty snapshot for it, and ``head`` is that snapshot afterwards.
    """

    name: str
    head: int | None
    kind: SnapshotRefType = SnapshotRefType.BRANCH
    retention: RefRetention = RefRetention()
    relies_on: tuple[str, ...] = ()
    begins_empty: bool = False


def change_ref(
    context: CallContext, target: TargetTable, decide: Callable[[TableMetadata], RefChange], *, dry_run: bool = False
) -> tuple[TableMetadata, RefChange]:
    """Commit the change that ``decide`` makes of fresh metadata. Returns that metadata and the change.

    With ``dry_run``, nothing is committed, but ``decide`` refuses the same requests.

    Raises what ``decide`` raises, ConflictError if other writers keep winning, and what :meth:`TargetTable.commit`
    raises.
    """

    def attempt(table: Table) -> tuple[TableMetadata, RefChange]:
        metadata = table.metadata
        change = decide(metadata)
        if change.begins_empty:
            return metadata, _begin(context, target, table, change)
        updates = _updates(metadata.refs, change)
        if updates and not dry_run:
            target.commit(table, _requirements(metadata, change), updates)
        return metadata, change

    return until_won(target, context.settings.iceberg.commit.timeout, attempt)


def move_branch(metadata: TableMetadata, name: str, head: int, relies_on: tuple[str, ...] = ()) -> RefChange:
    """Returns the change that moves the branch ``name`` to ``head``, or creates it. Its retention stays."""
    return RefChange(name, head, SnapshotRefType.BRANCH, RefRetention.of(metadata.refs.get(name)), relies_on)


def head_update(metadata: TableMetadata, name: str, head: int) -> SetSnapshotRefUpdate:
    """Returns the update that moves the branch ``name`` to ``head`` and keeps its retention."""
    return _set(move_branch(metadata, name, head))


def ref_of(metadata: TableMetadata, name: str, kind: SnapshotRefType | None = None) -> SnapshotRef:
    """Returns the ref ``name``. Raises ProcedureError if it does not exist or is not of ``kind``."""
    ref = metadata.refs.get(name)
    if ref is None:
        raise ProcedureError(f"Ref does not exist: {name}")
    if kind is not None:
        require_kind(name, ref, kind)
    return ref


def require_kind(name: str, ref: SnapshotRef, kind: SnapshotRefType) -> None:
    """Raise ProcedureError if ``ref`` is not of ``kind`` (branch or tag)."""
    if ref.snapshot_ref_type != kind:
        raise ProcedureError(f"Ref {name} is a {ref.snapshot_ref_type} not a {kind}")


def ancestors(metadata: TableMetadata, snapshot: Snapshot | None) -> list[Snapshot]:
    """Returns the snapshot and its ancestors, newest first, as far as they still exist."""
    return list(ancestors_of(snapshot, metadata))


def is_ancestor(metadata: TableMetadata, snapshot_id: int, of: int) -> bool:
    """Returns whether ``snapshot_id`` is ``of`` or an ancestor of it."""
    return any(each.snapshot_id == snapshot_id for each in ancestors(metadata, metadata.snapshot_by_id(of)))


def _begin(context: CallContext, target: TargetTable, table: Table, change: RefChange) -> RefChange:
    """Commit an empty snapshot and the ref at it; returns the change with its head."""
    made = NewSnapshot(table, context.now_ms(), change.name)
    begun = replace(change, head=made.id)
    with made.taken_back_unless_published():
        added, _ = made.updates((), summarize(Operation.APPEND, count_changes((), ()), None))
        target.commit(table, _requirements(table.metadata, begun), (added, _set(begun)))
    return begun


def _requirements(metadata: TableMetadata, change: RefChange) -> list[TableRequirement]:
    names = dict.fromkeys((change.name, *change.relies_on))
    heads = {name: ref.snapshot_id if (ref := metadata.refs.get(name)) else None for name in names}
    return [
        AssertTableUUID(uuid=metadata.table_uuid),
        *(RefIsAt(ref=name, snapshot_id=head) for name, head in heads.items()),
    ]


def _updates(refs: dict[str, SnapshotRef], change: RefChange) -> list[TableUpdate]:
    """Returns the updates of ``change``; empty if the ref already has that state."""
    present = refs.get(change.name)
    if change.head is None:
        return [] if present is None else [RemoveSnapshotRefUpdate(ref_name=change.name)]
    if present is not None and present.snapshot_id == change.head and RefRetention.of(present) == change.retention:
        return []
    return [_set(change)]


def _set(change: RefChange) -> SetSnapshotRefUpdate:
    fields: dict[str, Any] = vars(change.retention)
    return SetSnapshotRefUpdate(ref_name=change.name, type=change.kind, snapshot_id=change.head, **fields)
