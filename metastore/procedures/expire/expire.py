"""``expire_snapshots`` removes old snapshots, and deletes the files that only they reach.

The steps are mark, commit, sweep. A file is marked if only expiring snapshots reach it and nothing else in the
configuration needs it (:mod:`proof`). The marked files are listed on the store (:mod:`quarantine`). Then one commit
removes the snapshots; it requires that all branches, tags and snapshots are unchanged. Files are deleted only after it.

If the outcome of the commit is unknown, nothing is deleted. If a run dies after the commit, its list stays: the next
run finds it by the table's property, and deletes the files that are still unneeded. The list also stays if it cannot be
determined whether other tables need the files.

With ``drill.metastore.procedures.deletion.delay`` the files are put on the list of deletions instead. A later call
deletes those that are due (:mod:`metastore.procedures.files.due_deletions`).

If snapshot IDs are given, exactly these snapshots expire.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, cast

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertTableUUID,
    RemovePartitionSpecsUpdate,
    RemovePartitionStatisticsUpdate,
    RemovePropertiesUpdate,
    RemoveSchemasUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)

from metastore.engines.engine import EngineFor
from metastore.errors import InvalidRequestError, MetastoreError, StorageError
from metastore.ground.clock import Clock
from metastore.ground.epoch import millis_since_epoch
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.columns.schemas import schema_of
from metastore.lake.iceberg.snapshots.contention import until_won
from metastore.lake.iceberg.snapshots.sweep import (
    MANIFESTS,
    FileKind,
    Mark,
    TableFile,
    mark,
    snapshot_ids,
    statistics_files,
    sweep,
    unchanged_history,
    without,
)
from metastore.lake.stores.containment import Roots
from metastore.lake.stores.deletion import Deletion, require_concurrency
from metastore.lake.stores.deletion_list import DeletionList, PutOff
from metastore.lake.stores.listed_files import identities
from metastore.procedures.expire.retention import Expiring, Retention, expiring
from metastore.procedures.files.deletion_roots import deletion_roots, said_of_kept
from metastore.procedures.files.due_deletions import EXPIRE_SNAPSHOTS, delete_due
from metastore.procedures.files.guards import require_gc
from metastore.procedures.files.inventory import FILE_ROW, Inventory
from metastore.procedures.files.proof import Proof
from metastore.procedures.files.quarantine import (
    UNSWEPT,
    AssertUnswept,
    FileToDelete,
    Quarantine,
    lift,
    quarantine,
    standing,
    unswept,
)
from metastore.procedures.framework.declaration import Integer, procedure
from metastore.procedures.framework.model import CallContext, columns

_COUNTS: Final = {
    "deleted_data_files_count": (FileKind.DATA,),
    "deleted_position_delete_files_count": (FileKind.POSITION_DELETES,),
    "deleted_equality_delete_files_count": (FileKind.EQUALITY_DELETES,),
    "deleted_manifest_files_count": (FileKind.MANIFEST, FileKind.DELETE_MANIFEST),
    "deleted_manifest_lists_count": (FileKind.MANIFEST_LIST,),
    "deleted_statistics_files_count": (FileKind.STATISTICS,),
}

_SNAPSHOTS_AN_UPDATE: Final = 100
"""PyIceberg looks for each snapshot of an update from the first one on: ten thousand in one update take 15 s.

A REST server gets all in one update, since it builds the metadata anew with each.
"""

_RESULT: Final = columns(
    **dict.fromkeys(_COUNTS, pa.int64()),
    deleted_bytes=pa.int64(),
    expired_snapshots_count=pa.int64(),
    failed_files_count=pa.int64(),
    message=pa.string(),
    files=pa.list_(FILE_ROW),
    kept_files=pa.list_(pa.string()),
    put_off_files_count=pa.int64(),
)


@procedure(result=_RESULT)
def expire_snapshots(  # noqa: PLR0913 - the arguments of the call
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    older_than: datetime | None = None,
    retain_last: Integer | None = None,
    snapshot_ids: list[int] | None = None,
    clean_expired_metadata: bool = False,
    max_concurrent_deletes: Integer | None = None,
    dry_run: bool = False,
    owned: list[str] | None = None,
) -> Mapping[str, Any]:
    """Removes old snapshots and deletes the files that only they reach."""
    if snapshot_ids is not None and not snapshot_ids:
        raise InvalidRequestError("snapshot_ids must not be empty when provided")
    older_than_ms = None if older_than is None else millis_since_epoch(older_than)
    retention = Retention(older_than_ms, retain_last, tuple(snapshot_ids or ()))
    target = context.table(schema, table_name)
    run = Expiration(
        target=target,
        retention=retention,
        proof=Proof(context.catalogs, target, context.engine, owned=owned or (), progress=context.progress),
        engine=context.engine,
        now_ms=context.now_ms,
        timeout=context.settings.iceberg.commit.timeout,
        deletions=context.catalogs.metastore.deletions,
        allowed=context.settings.procedures.allowed_locations,
        clean_metadata=clean_expired_metadata,
        max_concurrent_deletes=max_concurrent_deletes,
        progress=context.progress,
    )
    if dry_run:
        return run.dry()
    due = delete_due(context.catalogs, target, context.engine)
    row = run.run()
    return {
        **row,
        "deleted_bytes": row["deleted_bytes"] + sum(each.bytes or 0 for each in due.deleted),
        "message": "; ".join(filter(None, (row["message"], str(due)))),
    }


def is_idle(table: Table, retention: Retention, now_ms: int) -> bool:
    """Returns whether a run on ``table`` as it stands would change nothing, by its metadata alone."""
    return not (expiring(retention, table.metadata, now_ms) or unswept(table))


@dataclass(frozen=True)
class _Attempt:
    """One attempt: what expires, the table's metadata afterwards, and the files that are then unneeded.

    ``doomed`` are files that the table itself no longer needs; whether other tables do is proven right before they are
    deleted. ``outside`` are unneeded files that lie below none of the ``roots``, and stay. ``listed`` are identities of
    files, as they were marked.
    """

    table: Table
    expiring: Expiring
    updates: tuple[TableUpdate, ...]
    kept: TableMetadata
    left_over: tuple[Quarantine, ...]
    roots: Roots
    doomed: Sequence[TableFile] = field(default=())
    outside: Sequence[str] = ()
    listed: Mapping[str, str] = field(default_factory=dict)

    @property
    def changes(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.updates)


@dataclass(frozen=True, kw_only=True)
class Expiration:
    """One run of ``expire_snapshots`` on ``target``. After a lost race it tries again, until ``timeout``.

    ``allowed`` are further roots of the deletion, besides the catalog's.
    """

    target: TargetTable
    retention: Retention
    proof: Proof
    engine: EngineFor
    now_ms: Callable[[], int]
    timeout: timedelta
    deletions: DeletionList
    allowed: Sequence[str] = ()
    clean_metadata: bool = False
    max_concurrent_deletes: int | None = None
    progress: Callable[[int, int], None] | None = None
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        require_concurrency(self.max_concurrent_deletes)

    def dry(self) -> Mapping[str, Any]:
        """Returns the result that :meth:`run` would have now, with every file to delete. Changes nothing."""
        planned = self._plan(self.target.load())
        judgement = self.proof.judge(file.location for file in planned.doomed)
        message = "dry run: nothing was changed"
        doomed = planned.doomed
        if judgement.unknown and not judgement.free:
            message = f"{message}; a run would delete no file: {judgement.why_unknown}"
        else:
            doomed = [file for file in doomed if file.location in judgement.free]
        files = [{"location": file.location, "kind": file.kind.value, "bytes": file.size} for file in doomed]
        message = "; ".join(filter(None, (message, said_of_kept(planned.outside))))
        return {**_row(planned, doomed, 0), "message": message, "files": files, "put_off_files_count": 0}

    def run(self) -> Mapping[str, Any]:
        """Expire snapshots and delete files.

        Raises ConflictError or StorageError (nothing changed), OutcomeUnknownError (nothing deleted), and FormatError
        if the metadata of a kept snapshot cannot be read (nothing changed).
        """
        return until_won(self.target, self.timeout, self._attempt, self.clock)

    def _attempt(self, table: Table) -> Mapping[str, Any]:
        """Write the list of doomed files, commit, then sweep. A commit that certainly failed takes the list back."""
        planned = self._plan(table)
        if not planned.changes:
            return self._sweep(planned, planned.table, planned.doomed, planned.left_over)
        made = quarantine(table, "expire", (FileToDelete(file) for file in planned.doomed)) if planned.doomed else None
        lists = (*planned.left_over, *((made,) if made else ()))
        updates = list(planned.updates)
        if lists:
            updates.append(SetPropertiesUpdate(updates={UNSWEPT: "\n".join(each.location for each in lists)}))
        try:
            done = self.target.commit(table, self._requirements(table.metadata), updates)
        except (CommitFailedException, StorageError, InvalidRequestError):
            # Certainly not committed, so the listed files are in use.
            if made is not None:
                lift(table.io, [made])
            raise
        doomed = planned.doomed
        if snapshot_ids(done.metadata) != snapshot_ids(planned.kept):
            doomed = self._mark(done, done.metadata, (), doomed)
        return self._sweep(planned, done, doomed, lists)

    def _requirements(self, metadata: TableMetadata) -> list[TableRequirement]:
        requirements = unchanged_history(metadata, validates_here=self.target.validates_here)
        if self.clean_metadata:
            # A schema or spec that was unused must not have become the current one meanwhile.
            requirements.append(AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id))
            requirements.append(AssertDefaultSpecId(default_spec_id=metadata.default_spec_id))
        return requirements

    def _plan(self, table: Table) -> _Attempt:
        """What expires, and the files that only it reaches, divided by whether the roots of the deletion hold them."""
        require_gc(table, "expire snapshots")
        metadata = table.metadata
        going = expiring(self.retention, metadata, self.now_ms())
        roots = deletion_roots(self.target, table, self.allowed)
        left_over = tuple(standing(table, [each for each in unswept(table) if roots.hold(each)]))
        updates: tuple[TableUpdate, ...] = tuple(_updates(going, metadata, here=self.target.validates_here))
        kept = without(metadata, going.snapshots, going.refs)
        if self.clean_metadata:
            inventory = Inventory(table.io, self.engine)
            updates = (*updates, *_unused_metadata(kept, inventory))
        planned = _Attempt(table, going, updates, kept, left_over, roots)
        if not (going or left_over):
            return planned
        left = [each.file for made in left_over for each in made.files]
        marked = self._mark(table, kept, going.snapshots, left)
        doomed = [file for file in marked if roots.hold(file.location)]
        outside = [file.location for file in marked if not roots.hold(file.location)]
        listed = identities(file.location for file in doomed)
        return replace(planned, doomed=doomed, outside=outside, listed=listed)

    def _mark(
        self, table: Table, remaining: TableMetadata, gone: Iterable[int], candidates: Sequence[TableFile]
    ) -> Sequence[TableFile]:
        wanted = set(gone)
        expired = [snapshot for snapshot in table.metadata.snapshots if snapshot.snapshot_id in wanted]
        try:
            what = Mark(expired, statistics_files(table.metadata), remaining, candidates)
            return mark(what, Inventory(table.io, self.engine))
        except Exception as error:
            if self.target.load().metadata_location != table.metadata_location:
                # Another expiration removed files while they were being marked.
                raise CommitFailedException("the table changed while files were marked") from error
            raise

    def _sweep(
        self, planned: _Attempt, table: Table, doomed: Sequence[TableFile], lists: Sequence[Quarantine]
    ) -> Mapping[str, Any]:
        """Delete what the proof frees now, and the lists if nothing failed; else the next run goes on from them."""
        # Not earlier: another table may have taken a file in since it was marked.
        judgement = self.proof.judge(file.location for file in doomed)
        free = [file for file in doomed if file.location in judgement.free]
        sizes = {file.location: file.size for file in free}
        put_off = PutOff(self.deletions, str(self.target), EXPIRE_SNAPSHOTS, sizes, renewed=sizes)
        deletion = Deletion(
            table.io, self.engine, planned.roots, put_off, planned.listed, self.max_concurrent_deletes, self.progress
        )
        swept = sweep(free, deletion.run)
        failed = dict(swept.failed)
        if judgement.unknown and not judgement.free:
            failed = dict.fromkeys((file.location for file in doomed), judgement.why_unknown or "")
        if not failed:
            failed = lift(table.io, lists)
            self._forget_lists(table, failed)
        gone = [file for file in swept.gone if file.location not in put_off.held]
        message = "" if planned.changes or lists else "nothing to expire"
        if failed:
            location, error = next(iter(failed.items()))
            message = f"{len(failed)} files are left to the next run, such as {location}: {error}"
        held = len(put_off.held)
        waiting = f"{held} files are put off: metastore deletions lists them" if held else ""
        message = "; ".join(filter(None, (message, waiting, said_of_kept(planned.outside))))
        counted = {**_row(planned, gone, len(failed)), "put_off_files_count": held}
        return {**counted, "message": message, "files": None}

    def _forget_lists(self, table: Table, standing_lists: Collection[str]) -> None:
        """Remove the property that names the lists, once none of them exists. If this fails, the next run does it."""
        named = table.metadata.properties.get(UNSWEPT)
        if named is None or standing_lists:
            return
        requirements: list[TableRequirement] = [AssertTableUUID(uuid=table.metadata.table_uuid)]
        if self.target.validates_here:
            requirements.append(cast("TableRequirement", AssertUnswept(value=named)))
        with suppress(CommitFailedException, MetastoreError):
            self.target.commit(table, requirements, [RemovePropertiesUpdate(removals=[UNSWEPT])])


def _updates(going: Expiring, metadata: TableMetadata, *, here: bool) -> Iterable[TableUpdate]:
    """Yields updates, refs first: a snapshot with a ref cannot be removed. ``here``: PyIceberg applies the updates."""
    most = _SNAPSHOTS_AN_UPDATE if here else max(1, len(going.snapshots))
    for name in going.refs:
        yield RemoveSnapshotRefUpdate(ref_name=name)
    gone = set(going.snapshots)
    for file in metadata.partition_statistics:
        if file.snapshot_id in gone:
            yield RemovePartitionStatisticsUpdate(snapshot_id=file.snapshot_id)
    for start in range(0, len(going.snapshots), most):
        ids = _Ids(going.snapshots[start : start + most])
        yield RemoveSnapshotsUpdate.model_construct(snapshot_ids=ids)  # Validation would make a plain list of it.


class _Ids(list[int]):
    """Ids of an update, which PyIceberg searches once for every snapshot of the table."""

    def __contains__(self, key: object) -> bool:
        return key in self._as_set

    @cached_property
    def _as_set(self) -> frozenset[int]:
        return frozenset(self)


def _row(planned: _Attempt, gone: Iterable[TableFile], failed: int) -> dict[str, Any]:
    files = list(gone)
    kinds = Counter(file.kind for file in files)
    return {
        **{name: sum(kinds[kind] for kind in counted) for name, counted in _COUNTS.items()},
        "deleted_bytes": sum(file.size or 0 for file in files),
        "expired_snapshots_count": len(planned.expiring.snapshots),
        "failed_files_count": failed,
        "kept_files": list(planned.outside),
    }


def _unused_metadata(remaining: TableMetadata, inventory: Inventory) -> Iterator[TableUpdate]:
    """Yields updates that remove the specs without a manifest, and the schemas without a snapshot in ``remaining``.

    The current ones stay. A schema also stays if a spec in use needs it for the type of a dropped column. Old writers
    did not record the schema of a snapshot; if that of any is unknown, all schemas stay. Raises FormatError if a
    manifest list cannot be read.
    """
    listed = inventory.lists(remaining.snapshots, must_stand=True).values()
    used_specs = {remaining.default_spec_id, *(file.spec for file in listed if file.kind in MANIFESTS)}
    specs = [spec.spec_id for spec in remaining.partition_specs if spec.spec_id not in used_specs]
    if specs:
        yield RemovePartitionSpecsUpdate(spec_ids=specs)
    used_schemas = {remaining.current_schema_id, *(snapshot.schema_id for snapshot in remaining.snapshots)}
    # Only older schemas have the type of a dropped column, which is needed to write manifests of its spec.
    used_schemas |= {
        schema_of(remaining, spec).schema_id for spec in remaining.partition_specs if spec.spec_id in used_specs
    }
    schemas = [schema.schema_id for schema in remaining.schemas if schema.schema_id not in used_schemas]
    if schemas and None not in used_schemas:
        yield RemoveSchemasUpdate(schema_ids=schemas)
