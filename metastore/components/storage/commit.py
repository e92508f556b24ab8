"""The commit: any number of overwrites and deletes become one snapshot, or nothing.

Safety depends on the order. First, data files and manifests are written under new names and made durable. Then the
catalog publishes the new version, on condition that the snapshot it was planned on is still current. After a lost race
the change is planned again on the new snapshot (data files are kept), with back-off and jitter until the timeout. Each
snapshot has a commit id, so after an error of unknown outcome the current metadata shows whether the commit landed.
Files are removed only when the commit certainly failed.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, ManifestEntry
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary, ancestors_of
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, AssertTableUUID, SetSnapshotRefUpdate

from metastore.components.storage.clustering import Change, rewrite
from metastore.components.storage.table import ComponentTable, TableState
from metastore.errors import DamageError, InvalidRequestError, OutcomeUnknownError, StorageError
from metastore.ground.clock import Clock
from metastore.lake.iceberg.manifests.manifest_writer import ListedManifest, write_manifest_file
from metastore.lake.iceberg.manifests.manifests import DecodedManifest, added_entry, deleted_entry, existing, write_list
from metastore.lake.iceberg.snapshots.contention import kept_losing
from metastore.lake.iceberg.snapshots.summaries import summarize
from metastore.lake.stores.files import discard, flush
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.new_files import GatheredFiles, NewFiles

COMMIT_ID: Final = "metastore.commit-id"
"""Key of the commit id in the snapshot summary."""

_FIRST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 1.0
_LOOKS: Final = 5
_FEW_FILES: Final = 16
"""Up to this number of data files, one flush serves them and the manifests. More are flushed before other writers have
to wait for this commit."""


@dataclass(frozen=True)
class Committer:
    """Commits changes to one component's table; ``timeout`` limits the retries after lost races."""

    table: ComponentTable
    timeout: timedelta
    clock: Clock = field(default_factory=Clock)

    def commit(
        self,
        plan: Callable[[TableState], Change],
        data_files: Sequence[DataFile],
        io: FileIO,
        looked: Table | None = None,
    ) -> int:
        """Publish the change that ``plan`` returns for the current state; returns the version that is current then.

        Each retry calls ``plan`` on the state that is current then. A change without effect creates no snapshot. The
        first attempt is planned on ``looked``, the newest version as the caller has just found it by
        :meth:`ComponentTable.looked_up_beside`, unless this process knows a newer one.
        ``data_files`` are the files that the change adds, written through ``io``: they are removed if, and only if, the
        commit certainly failed.

        Raises ConflictError (nothing changed), OutcomeUnknownError (nothing removed), StorageError (nothing changed).
        """
        deadline = self.clock.monotonic() + self.timeout.total_seconds()
        paths = [data_file.file_path for data_file in data_files]
        pause = _FIRST_PAUSE_S
        # From the call to the catalog until the outcome of the attempt is certain, nothing may be removed,
        # whatever interrupts it: even after a KeyboardInterrupt the commit may have landed.
        unsettled = False
        try:
            unflushed = paths
            if len(paths) > _FEW_FILES:
                flush(paths)
                unflushed = []
            while True:
                with self.table.turn(self.clock.monotonic, self.clock.pause, deadline):
                    table, looked = self._newest(looked), None
                    state = self.table.state_of(table)
                    try:
                        attempt = _Attempt.write(self.table, table, state, plan(state), self.clock.now_ms(), unflushed)
                    except FileNotFoundError as error:
                        if self._is_kept(state):
                            raise
                        # Others expired the version that this was planned on: a lost race.
                        lost: Exception | None = error
                    else:
                        if attempt is None:
                            discard(io, paths)
                            return state.version
                        unsettled = True
                        lost = self._publish(attempt)
                        unsettled = False
                        if lost is None:
                            return attempt.snapshot.snapshot_id
                        discard(table.io, attempt.paths)
                self._wait(pause, deadline, lost)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
        except BaseException as error:
            if not unsettled:
                discard(io, paths)
            if isinstance(error, OSError):
                raise StorageError(f"cannot write to {self.table.name}: {error}; nothing was changed") from error
            raise

    def _newest(self, looked: Table | None) -> Table:
        known = looked is not None and self.table.entry.is_newest_known(looked)
        return looked if looked is not None and known else self.table.writable()

    def _wait(self, pause: float, deadline: float, lost: Exception | None) -> None:
        if self.clock.monotonic() >= deadline:
            raise kept_losing(self.table.name, self.timeout, lost) from lost
        self.clock.pause(random.uniform(pause / 2, pause))  # noqa: S311 - jitter, not a secret

    def _is_kept(self, state: TableState) -> bool:
        fresh = self.table.state(anew=True)
        return fresh is not None and fresh.metadata.snapshot_by_id(state.version) is not None

    def _publish(self, attempt: _Attempt) -> Exception | None:
        """Return None if the snapshot landed, the cause if it certainly did not. Raises OutcomeUnknownError."""
        state = attempt.state
        requirements = (
            AssertTableUUID(uuid=state.metadata.table_uuid),
            AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=state.snapshot.snapshot_id if state.snapshot else None),
        )
        main = state.metadata.refs.get(MAIN_BRANCH)
        head = SetSnapshotRefUpdate(
            ref_name=MAIN_BRANCH,
            type=SnapshotRefType.BRANCH,
            snapshot_id=attempt.snapshot.snapshot_id,
            max_ref_age_ms=main.max_ref_age_ms if main else None,
            max_snapshot_age_ms=main.max_snapshot_age_ms if main else None,
            min_snapshots_to_keep=main.min_snapshots_to_keep if main else None,
        )
        updates = (AddSnapshotUpdate(snapshot=attempt.snapshot), head)
        try:
            self.table.entry.commit(attempt.table, requirements, updates)
        except CommitFailedException as error:
            return error
        except (StorageError, DamageError, InvalidRequestError):
            # Raised only if the table is certainly unchanged.
            discard(attempt.table.io, [*attempt.paths, *(data_file.file_path for data_file in attempt.added)])
            raise
        except Exception as error:  # noqa: BLE001 - whatever a catalog raises, the metadata shows the outcome
            return None if self._has_landed(attempt, error) else error
        attempt.remember(self.table)
        return None

    def _has_landed(self, attempt: _Attempt, cause: Exception) -> bool:
        commit_id = attempt.commit_id
        for look in range(_LOOKS):
            # The store may be unavailable for a moment; then the next look decides.
            with suppress(Exception):
                state = self.table.state(anew=True)
                fate = attempt.fate(state.metadata) if state is not None else None
                if fate is not None:
                    return fate
            self.clock.pause(_FIRST_PAUSE_S * 2**look)
        raise OutcomeUnknownError(
            f"the commit {commit_id} to {self.table.name} failed, and it is unknown whether it landed: {cause!r}. "
            f"No file was removed. Look for {COMMIT_ID}={commit_id} in the history before trying again"
        ) from cause


@dataclass(frozen=True)
class _Attempt:
    """One attempt: the snapshot with its list and manifests, written and durable, not yet published."""

    table: Table
    state: TableState
    snapshot: Snapshot
    commit_id: str
    added: Sequence[DataFile]
    listed: Sequence[ListedManifest]
    written: Sequence[DecodedManifest]

    @property
    def paths(self) -> list[str]:
        """Files that this attempt wrote, except data files."""
        return [self.snapshot.manifest_list, *(decoded.file.manifest_path for decoded in self.written)]

    def fate(self, metadata: TableMetadata) -> bool | None:
        """Return True if ``metadata`` shows that the attempt landed, False if it never can, None while that is open.

        The attempt can no longer land only if another snapshot has its place: its parent's successor, or its sequence
        number. Otherwise it may have landed and expired since, so its files may be in use. A change of anything but
        snapshots leaves its place free.
        """
        ours = self.snapshot
        if metadata.snapshot_by_id(ours.snapshot_id) is not None:
            return True
        for other in ancestors_of(metadata.current_snapshot(), metadata):
            if ours.parent_snapshot_id is not None and other.parent_snapshot_id == ours.parent_snapshot_id:
                return False
            # Format version 1 has no sequence numbers: all are 0.
            if ours.sequence_number and other.sequence_number == ours.sequence_number:
                return False
        return None

    @classmethod
    def write(
        cls,
        component: ComponentTable,
        table: Table,
        state: TableState,
        change: Change,
        now_ms: int,
        unflushed: Sequence[str],
    ) -> _Attempt | None:
        """Write the attempt; None when the change has no effect. On failure, what was written is removed.

        The data files ``unflushed`` are made durable together with what is written.
        """
        manifests = component.manifests(table.io)
        result = rewrite(manifests.of(state.snapshot), change, component.unit_type.cluster, manifests.decode)
        if result is None:
            return None
        commit_id = str(uuid.uuid4())
        folder = f"{state.metadata.location.rstrip('/')}/metadata"
        snapshot = _snapshot(state, change, result.removed_entries, commit_id, folder, now_ms)
        written: list[DecodedManifest] = []
        places = [f"{folder}/{commit_id}-m{number}.avro" for number in range(len(result.new))]
        # On the local disk, a thread costs more than it saves.
        files = NewFiles(table.io) if is_local(folder) else GatheredFiles(table.io)
        try:
            for location, new in zip(places, result.new, strict=True):
                live = tuple(_entry(one, snapshot.snapshot_id) for _, one in new.live)
                entries = [*live, *(deleted_entry(entry, snapshot.snapshot_id) for entry in new.removed)]
                version = state.metadata.format_version
                file = write_manifest_file(
                    files, location, version, state.spec, state.schema, snapshot.snapshot_id, entries
                )
                written.append(DecodedManifest(file, live, tuple(key for key, _ in new.live)))
            manifests_now = [*(decoded.file for decoded in written), *result.untouched]
            listed = write_list(files, snapshot, state.metadata.format_version, manifests_now)
            if isinstance(files, GatheredFiles):
                files.create()
            flush([*unflushed, *files.created_files])
        except BaseException:
            files.discard()
            raise
        return cls(table, state, snapshot, commit_id, list(change.added.values()), listed, written)

    def remember(self, component: ComponentTable) -> None:
        """Cache the published manifests for the next reader and writer of this process."""
        component.manifests(self.table.io).remember(self.snapshot, self.listed, self.written)


def _entry(one: ManifestEntry | DataFile, snapshot_id: int) -> ManifestEntry:
    return existing(one) if isinstance(one, ManifestEntry) else added_entry(one, snapshot_id)


def _snapshot(
    state: TableState, change: Change, removed: Sequence[ManifestEntry], commit_id: str, folder: str, now_ms: int
) -> Snapshot:
    parent = state.snapshot
    snapshot_id = state.metadata.new_snapshot_id()
    return Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=state.metadata.next_sequence_number(),
        # Strictly after the parent, so that a time identifies one version even if the clock does not advance.
        timestamp_ms=max(now_ms, parent.timestamp_ms + 1 if parent else 0),
        manifest_list=f"{folder}/snap-{snapshot_id}-{commit_id}.avro",
        summary=_summary(change.added, removed, parent, commit_id),
        schema_id=state.metadata.current_schema_id,
    )


def _summary(
    adds: Mapping[tuple[str, ...], DataFile], removed: Sequence[ManifestEntry], parent: Snapshot | None, commit_id: str
) -> Summary:
    operation = Operation.DELETE if not adds else Operation.OVERWRITE if removed else Operation.APPEND
    gone = [entry.data_file for entry in removed]
    counts = {
        "added-data-files": len(adds),
        "added-records": sum(data_file.record_count for data_file in adds.values()),
        "added-files-size": sum(data_file.file_size_in_bytes for data_file in adds.values()),
        "deleted-data-files": len(gone),
        "deleted-records": sum(data_file.record_count for data_file in gone),
        "removed-files-size": sum(data_file.file_size_in_bytes for data_file in gone),
    }
    texts = {name: str(count) for name, count in counts.items() if count}
    return summarize(operation, {COMMIT_ID: commit_id, **texts}, parent)
