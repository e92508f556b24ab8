"""Procedures that set the current snapshot of a table (backwards, forwards, to a branch), and list its ancestors.

All of them decide on fresh metadata. They move ``main``, or a branch, by one commit, which requires that the ref has
not moved meanwhile. They touch no files. Snapshots that are left behind stay until they expire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from metastore.errors import InvalidRequestError, ProcedureError
from metastore.ground.epoch import micros_since_epoch
from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns
from metastore.procedures.refs.refs import (
    RefChange,
    ancestors,
    change_ref,
    is_ancestor,
    move_branch,
    ref_of,
    require_kind,
)

_MOVED: Final = columns(previous_snapshot_id=pa.int64(), current_snapshot_id=pa.int64())


@procedure(result=_MOVED)
def rollback_to_snapshot(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    snapshot_id: int,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Makes an earlier snapshot of the table's history the current one, or one that was made after it."""

    def decide(metadata: TableMetadata) -> int:
        if metadata.snapshot_by_id(snapshot_id) is None:
            raise ProcedureError(f"Cannot roll back to unknown snapshot id: {snapshot_id}")
        current = _current(metadata, "roll back").snapshot_id
        if not is_ancestor(metadata, snapshot_id, current) and not is_ancestor(metadata, current, snapshot_id):
            raise ProcedureError(
                f"Cannot roll back to snapshot, not an ancestor of the current state: {snapshot_id}; "
                "set_current_snapshot goes anywhere"
            )
        return snapshot_id

    return _move_main(context, (schema, table_name), decide, dry_run=dry_run)


@procedure(result=_MOVED)
def rollback_to_timestamp(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    timestamp: datetime,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Makes the newest snapshot of the table's history before a given time the current one."""
    micros = micros_since_epoch(timestamp)

    def decide(metadata: TableMetadata) -> int:
        for snapshot in ancestors(metadata, _current(metadata, "roll back")):
            if snapshot.timestamp_ms * 1000 < micros:
                return snapshot.snapshot_id
        raise ProcedureError(f"Cannot roll back, no valid snapshot older than: {timestamp.isoformat(sep=' ')}")

    return _move_main(context, (schema, table_name), decide, dry_run=dry_run)


@procedure(result=_MOVED)
def set_current_snapshot(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    snapshot_id: int | None = None,
    ref: str | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Makes any snapshot, or that of a branch or tag, the current one; it may be newer than the current one."""
    if (snapshot_id is None) == (ref is None):
        raise InvalidRequestError("Either snapshot_id or ref must be provided, not both")

    def decide(metadata: TableMetadata) -> int:
        if ref is not None:
            if ref not in metadata.refs:
                raise ProcedureError(f"Cannot find matching snapshot ID for ref {ref}")
            return metadata.refs[ref].snapshot_id
        assert snapshot_id is not None
        if metadata.snapshot_by_id(snapshot_id) is None:
            raise ProcedureError(f"Cannot set current snapshot to unknown snapshot id: {snapshot_id}")
        return snapshot_id

    return _move_main(context, (schema, table_name), decide, *((ref,) if ref else ()), dry_run=dry_run)


@procedure(result=columns(branch_updated=pa.string(), previous_ref=pa.int64(), updated_ref=pa.int64()))
def fast_forward(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    branch: str,
    to: str,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Moves a branch forward to the snapshot of another branch or tag; creates the branch if it does not exist."""

    def decide(metadata: TableMetadata) -> RefChange:
        head = ref_of(metadata, to).snapshot_id
        present = metadata.refs.get(branch)
        if present is not None:
            require_kind(branch, present, SnapshotRefType.BRANCH)
            if not is_ancestor(metadata, present.snapshot_id, head):
                raise ProcedureError(f"Cannot fast-forward: {branch} is not an ancestor of {to}")
        return move_branch(metadata, branch, head, relies_on=(to,))

    before, change = change_ref(context, context.table(schema, table_name), decide, dry_run=dry_run)
    previous = before.refs.get(branch)
    return {
        "branch_updated": branch,
        "previous_ref": previous.snapshot_id if previous else None,
        "updated_ref": change.head,
    }


@procedure(result=columns(snapshot_id=pa.int64(), timestamp=pa.timestamp("ms", "UTC")))
def ancestors_of(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    snapshot_id: int | None = None,
) -> Iterable[dict[str, Any]]:
    """Lists a snapshot, by default the current one, and its ancestors, newest first."""
    metadata = context.table(schema, table_name).load().metadata
    start = metadata.current_snapshot() if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
    if start is None and snapshot_id is not None:
        raise ProcedureError(f"Cannot find snapshot: {snapshot_id}")
    return [{"snapshot_id": each.snapshot_id, "timestamp": each.timestamp_ms} for each in ancestors(metadata, start)]


def _move_main(
    context: CallContext,
    table: tuple[str, str],
    decide: Callable[[TableMetadata], int],
    *relies_on: str,
    dry_run: bool,
) -> dict[str, Any]:
    def change(metadata: TableMetadata) -> RefChange:
        return move_branch(metadata, MAIN_BRANCH, decide(metadata), relies_on)

    before, done = change_ref(context, context.table(*table), change, dry_run=dry_run)
    current = before.current_snapshot()
    return {"previous_snapshot_id": current.snapshot_id if current else None, "current_snapshot_id": done.head}


def _current(metadata: TableMetadata, action: str) -> Snapshot:
    current = metadata.current_snapshot()
    if current is None:
        raise ProcedureError(f"Cannot {action}: the table has no current snapshot")
    return current
