"""Procedures that create, move and remove branches and tags.

Writes move a branch; a tag stays at its snapshot. Both keep their snapshots from expiring, for as long as their own
retention says. The kind of a ref never changes: a tag does not become a branch. ``main`` cannot be removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any, Final

import pyarrow as pa
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

from metastore.errors import InvalidRequestError, ProcedureError
from metastore.procedures.framework.declaration import Integer, procedure
from metastore.procedures.framework.model import CallContext, columns
from metastore.procedures.refs.refs import RefChange, RefRetention, change_ref, ref_of, require_kind

_CHANGED: Final = columns(ref=pa.string(), type=pa.string(), previous_snapshot_id=pa.int64(), snapshot_id=pa.int64())
_BRANCH: Final = SnapshotRefType.BRANCH
_TAG: Final = SnapshotRefType.TAG


@procedure(result=_CHANGED)
def create_branch(  # noqa: PLR0913 - the arguments of the call
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    branch: str,
    snapshot_id: int | None = None,
    min_snapshots_to_keep: Integer | None = None,
    max_snapshot_age_ms: int | None = None,
    max_ref_age_ms: int | None = None,
    if_not_exists: bool = False,
    or_replace: bool = False,
) -> dict[str, Any]:
    """Creates a branch at a snapshot, by default the current one; in a table without snapshots, at a new empty one.

    A branch that exists stays, or is replaced, if asked.
    """
    retention = _retention(
        min_snapshots_to_keep=min_snapshots_to_keep,
        max_snapshot_age_ms=max_snapshot_age_ms,
        max_ref_age_ms=max_ref_age_ms,
    )
    existing = _Existing.of(if_not_exists=if_not_exists, or_replace=or_replace)
    return _create(context, (schema, table_name), _BRANCH, branch, snapshot_id, retention, existing)


@procedure(result=_CHANGED)
def create_tag(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    tag: str,
    snapshot_id: int | None = None,
    max_ref_age_ms: int | None = None,
    if_not_exists: bool = False,
    or_replace: bool = False,
) -> dict[str, Any]:
    """Creates a tag at a snapshot, by default the current one. One that exists stays, or is replaced, if asked."""
    retention = _retention(max_ref_age_ms=max_ref_age_ms)
    existing = _Existing.of(if_not_exists=if_not_exists, or_replace=or_replace)
    return _create(context, (schema, table_name), _TAG, tag, snapshot_id, retention, existing)


@procedure(result=_CHANGED)
def replace_branch(  # noqa: PLR0913 - the arguments of the call
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    branch: str,
    snapshot_id: int | None = None,
    min_snapshots_to_keep: Integer | None = None,
    max_snapshot_age_ms: int | None = None,
    max_ref_age_ms: int | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Moves a branch to any snapshot, by default the current one, and sets the given parts of its retention."""
    retention = _retention(
        min_snapshots_to_keep=min_snapshots_to_keep,
        max_snapshot_age_ms=max_snapshot_age_ms,
        max_ref_age_ms=max_ref_age_ms,
    )
    return _replace(context, (schema, table_name), _BRANCH, branch, snapshot_id, retention, dry_run=dry_run)


@procedure(result=_CHANGED)
def replace_tag(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    tag: str,
    snapshot_id: int | None = None,
    max_ref_age_ms: int | None = None,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Moves a tag to any snapshot, by default the current one, and sets its retention if given."""
    retention = _retention(max_ref_age_ms=max_ref_age_ms)
    return _replace(context, (schema, table_name), _TAG, tag, snapshot_id, retention, dry_run=dry_run)


@procedure(result=_CHANGED)
def drop_branch(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    branch: str,
    if_exists: bool = False,
    dry_run: bool = False,
) -> Iterable[dict[str, Any]]:
    """Removes a branch; its snapshots stay until they expire. The branch main cannot be removed."""
    if branch == MAIN_BRANCH:
        raise ProcedureError("Cannot remove main branch")
    return _drop(context, (schema, table_name), _BRANCH, branch, if_exists=if_exists, dry_run=dry_run)


@procedure(result=_CHANGED)
def drop_tag(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    tag: str,
    if_exists: bool = False,
    dry_run: bool = False,
) -> Iterable[dict[str, Any]]:
    """Removes a tag; its snapshot stays until it expires."""
    return _drop(context, (schema, table_name), _TAG, tag, if_exists=if_exists, dry_run=dry_run)


class _Existing(Enum):
    """What creation does with a ref that exists."""

    REFUSED = auto()
    KEPT = auto()
    REPLACED = auto()

    @classmethod
    def of(cls, *, if_not_exists: bool, or_replace: bool) -> _Existing:
        """Raises InvalidRequestError for both."""
        if if_not_exists and or_replace:
            raise InvalidRequestError("if_not_exists and or_replace exclude each other: give one of them")
        return cls.KEPT if if_not_exists else cls.REPLACED if or_replace else cls.REFUSED


def _create(
    context: CallContext,
    table: tuple[str, str],
    kind: SnapshotRefType,
    name: str,
    snapshot_id: int | None,
    retention: RefRetention,
    existing: _Existing,
) -> dict[str, Any]:
    """Create the ref, or do with an ``existing`` one as the caller said. Without ``snapshot_id``, it is the head's."""
    if not name:
        raise InvalidRequestError(f"{kind} is empty")

    def decide(metadata: TableMetadata) -> RefChange:
        if name not in metadata.refs:
            if kind == _BRANCH and snapshot_id is None and metadata.current_snapshot() is None:
                return RefChange(name, None, kind, retention, (MAIN_BRANCH,), begins_empty=True)
            return RefChange(name, _head(metadata, name, snapshot_id), kind, retention)
        if existing is _Existing.REFUSED:
            raise ProcedureError(f"Ref {name} already exists")
        found = ref_of(metadata, name, kind)
        if existing is _Existing.KEPT:
            return RefChange(name, found.snapshot_id, kind, RefRetention.of(found))
        return RefChange(name, _head(metadata, name, snapshot_id), kind, retention.over(RefRetention.of(found)))

    return _change_ref(context, table, decide)


def _replace(
    context: CallContext,
    table: tuple[str, str],
    kind: SnapshotRefType,
    name: str,
    snapshot_id: int | None,
    retention: RefRetention,
    *,
    dry_run: bool,
) -> dict[str, Any]:
    def decide(metadata: TableMetadata) -> RefChange:
        kept = retention.over(RefRetention.of(ref_of(metadata, name, kind)))
        return RefChange(name, _head(metadata, name, snapshot_id), kind, kept)

    return _change_ref(context, table, decide, dry_run=dry_run)


def _drop(
    context: CallContext,
    table: tuple[str, str],
    kind: SnapshotRefType,
    name: str,
    *,
    if_exists: bool,
    dry_run: bool,
) -> Iterable[dict[str, Any]]:
    """Remove the ref. No row if there was none and ``if_exists`` allows it; ProcedureError for the other kind."""

    def decide(metadata: TableMetadata) -> RefChange:
        if name in metadata.refs:
            require_kind(name, metadata.refs[name], kind)
        elif not if_exists:
            raise ProcedureError(f"Ref does not exist: {name}")
        return RefChange(name, None, kind)

    row = _change_ref(context, table, decide, dry_run=dry_run)
    return [row] if row["previous_snapshot_id"] is not None else []


def _change_ref(
    context: CallContext,
    table: tuple[str, str],
    decide: Callable[[TableMetadata], RefChange],
    *,
    dry_run: bool = False,
) -> dict[str, Any]:
    before, change = change_ref(context, context.table(*table), decide, dry_run=dry_run)
    previous = before.refs.get(change.name)
    return {
        "ref": change.name,
        "type": str(change.kind),
        "previous_snapshot_id": previous.snapshot_id if previous else None,
        "snapshot_id": change.head,
    }


def _head(metadata: TableMetadata, name: str, snapshot_id: int | None) -> int:
    """Returns the ID of the given snapshot, or of the current one. Raises ProcedureError if there is none."""
    if snapshot_id is None:
        current = metadata.current_snapshot()
        if current is None:
            raise ProcedureError(f"Cannot set {name}: the table has no snapshot yet; write to the table first")
        return current.snapshot_id
    if metadata.snapshot_by_id(snapshot_id) is None:
        raise ProcedureError(f"Cannot set {name} to unknown snapshot: {snapshot_id}")
    return snapshot_id


def _retention(**given: int | None) -> RefRetention:
    for name, value in given.items():
        if value is not None and value < 1:
            raise InvalidRequestError(f"{name} must be at least 1, not {value}")
    return RefRetention(**given)
