"""Procedures that make, move and remove branches and tags.

A branch goes on with writes, a tag stays where it is; both keep their snapshots from expiring, as long as their own
retention says. What a ref is never changes: a tag becomes no branch, and ``main`` is not removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow as pa
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

from metastore.errors import InvalidRequestError, ProcedureError
from metastore.procedures.framework.arguments import Argument
from metastore.procedures.framework.model import CallContext, Procedure, Rows, columns
from metastore.procedures.refs.refs import RefChange, Retention, change_ref, ref_of, require_kind
from metastore.procedures.refs.snapshots import DRY_RUN, TABLE

_CHANGED: Final = columns(ref=pa.string(), type=pa.string(), previous_snapshot_id=pa.int64(), snapshot_id=pa.int64())
_BRANCH: Final = SnapshotRefType.BRANCH
_TAG: Final = SnapshotRefType.TAG
_SNAPSHOT: Final = Argument("snapshot_id", "BIGINT", required=False)
_IF_EXISTS: Final = Argument("if_exists", "BOOLEAN", required=False, default=False)
_RETENTION: Final = {
    _BRANCH: (
        Argument("min_snapshots_to_keep", "INTEGER", required=False),
        Argument("max_snapshot_age_ms", "BIGINT", required=False),
        Argument("max_ref_age_ms", "BIGINT", required=False),
    ),
    _TAG: (Argument("max_ref_age_ms", "BIGINT", required=False),),
}


def create_branch() -> Procedure:
    """The procedure ``system.create_branch``."""
    return _creating(_BRANCH, "Makes a branch at a snapshot, by default the current one.")


def create_tag() -> Procedure:
    """The procedure ``system.create_tag``."""
    return _creating(_TAG, "Makes a tag at a snapshot, by default the current one.")


def replace_branch() -> Procedure:
    """The procedure ``system.replace_branch``."""
    return _replacing(
        _BRANCH, "Moves a branch to any snapshot, by default the current one; sets what is given of its retention."
    )


def replace_tag() -> Procedure:
    """The procedure ``system.replace_tag``."""
    return _replacing(
        _TAG, "Moves a tag to any snapshot, by default the current one; sets its retention if it is given."
    )


def drop_branch() -> Procedure:
    """The procedure ``system.drop_branch``."""
    return _dropping(_BRANCH, "Removes a branch; its snapshots stay until they expire. main stays.")


def drop_tag() -> Procedure:
    """The procedure ``system.drop_tag``."""
    return _dropping(_TAG, "Removes a tag; its snapshot stays until it expires.")


def _creating(kind: SnapshotRefType, description: str) -> Procedure:
    def create(  # noqa: PLR0913 - the arguments of the call
        context: CallContext,
        *,
        schema: str,
        table_name: str,
        snapshot_id: int | None,
        branch: str = "",
        tag: str = "",
        min_snapshots_to_keep: int | None = None,
        max_snapshot_age_ms: int | None = None,
        max_ref_age_ms: int | None,
    ) -> dict[str, Any]:
        name = branch or tag
        retention = _retention(
            min_snapshots_to_keep=min_snapshots_to_keep,
            max_snapshot_age_ms=max_snapshot_age_ms,
            max_ref_age_ms=max_ref_age_ms,
        )
        if not name:
            raise InvalidRequestError(f"{kind} is empty")

        def decide(metadata: TableMetadata) -> RefChange:
            if name in metadata.refs:
                raise ProcedureError(f"Ref {name} already exists")
            return RefChange(name, _head(metadata, name, snapshot_id), kind, retention)

        return _changed(context, (schema, table_name), decide)

    return _procedure("create", kind, (_SNAPSHOT, *_RETENTION[kind]), create, description)


def _replacing(kind: SnapshotRefType, description: str) -> Procedure:
    def replace(  # noqa: PLR0913 - the arguments of the call
        context: CallContext,
        *,
        schema: str,
        table_name: str,
        snapshot_id: int | None,
        branch: str = "",
        tag: str = "",
        min_snapshots_to_keep: int | None = None,
        max_snapshot_age_ms: int | None = None,
        max_ref_age_ms: int | None,
        dry_run: bool,
    ) -> dict[str, Any]:
        name = branch or tag
        retention = _retention(
            min_snapshots_to_keep=min_snapshots_to_keep,
            max_snapshot_age_ms=max_snapshot_age_ms,
            max_ref_age_ms=max_ref_age_ms,
        )

        def decide(metadata: TableMetadata) -> RefChange:
            kept = retention.over(Retention.of(ref_of(metadata, name, kind)))
            return RefChange(name, _head(metadata, name, snapshot_id), kind, kept)

        return _changed(context, (schema, table_name), decide, dry_run=dry_run)

    return _procedure("replace", kind, (_SNAPSHOT, *_RETENTION[kind], DRY_RUN), replace, description)


def _dropping(kind: SnapshotRefType, description: str) -> Procedure:
    def drop(
        context: CallContext,
        *,
        schema: str,
        table_name: str,
        if_exists: bool,
        dry_run: bool,
        branch: str = "",
        tag: str = "",
    ) -> Iterable[dict[str, Any]]:
        name = branch or tag
        if name == MAIN_BRANCH and kind is _BRANCH:
            raise ProcedureError("Cannot remove main branch")

        def decide(metadata: TableMetadata) -> RefChange:
            if name in metadata.refs:
                require_kind(name, metadata.refs[name], kind)
            elif not if_exists:
                raise ProcedureError(f"Ref does not exist: {name}")
            return RefChange(name, None, kind)

        row = _changed(context, (schema, table_name), decide, dry_run=dry_run)
        return [row] if row["previous_snapshot_id"] is not None else []

    return _procedure("drop", kind, (_IF_EXISTS, DRY_RUN), drop, description)


def _procedure(
    verb: str, kind: SnapshotRefType, arguments: tuple[Argument, ...], function: Callable[..., Rows], description: str
) -> Procedure:
    """The procedure ``verb_kind``, which takes the ref's name as an argument that is named like its kind."""
    return Procedure(
        "system",
        f"{verb}_{kind}",
        (*TABLE, Argument(str(kind)), *arguments),
        result=_CHANGED,
        function=function,
        description=description,
    )


def _changed(
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
    """The snapshot that was asked for, else the current one."""
    if snapshot_id is None:
        current = metadata.current_snapshot()
        if current is None:
            raise ProcedureError(f"Cannot set {name}: the table has no current snapshot")
        return current.snapshot_id
    if metadata.snapshot_by_id(snapshot_id) is None:
        raise ProcedureError(f"Cannot set {name} to unknown snapshot: {snapshot_id}")
    return snapshot_id


def _retention(**given: int | None) -> Retention:
    for name, value in given.items():
        if value is not None and value < 1:
            raise InvalidRequestError(f"{name} must be at least 1, not {value}")
    return Retention(**given)
