"""Commits rewritten groups: one snapshot with operation ``replace``, validated since the pinned snapshot.

Only manifests that contain a replaced file are written again. A file that is in the table several times is replaced as
often as the groups contain it. New files have the sequence number of the pinned snapshot. Delete files that no longer
apply to anything are removed with their data files. If a race is lost for another reason than the groups' own files,
the commit is planned again on the fresh table, until the timeout.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, ancestors_of

from metastore.errors import ConflictError, StorageError
from metastore.ground.clock import Clock
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.manifests.manifest_reader import read_live_entries
from metastore.lake.iceberg.rows.changed_manifests import changed_manifests
from metastore.lake.iceberg.rows.delete_index import Deletes, unpartitioned_specs
from metastore.lake.iceberg.rows.live_files import EntryKey, LiveFile, Place, live_file
from metastore.lake.iceberg.snapshots.contention import until_won
from metastore.lake.iceberg.snapshots.snapshot import NewSnapshot
from metastore.lake.iceberg.snapshots.summaries import count_changes, summarize
from metastore.procedures.rewrite.conflicts import Rewritten, conflicts


@dataclass(frozen=True)
class CommitResult:
    """The result of a commit: its groups, the reasons why others failed, and the number of removed delete files."""

    snapshot_id: int | None
    groups: tuple[int, ...]
    failed: dict[int, str]
    removed_deletes: int


@dataclass(frozen=True)
class RewriteBasis:
    """The basis of the rewrite: the branch, its snapshot, and the manifests and delete files of that snapshot."""

    branch: str
    snapshot: Snapshot
    uuid: uuid.UUID
    manifests: frozenset[str]
    deletes: frozenset[str]


@dataclass(frozen=True)
class ReplaceCommit:
    """Commits groups that were rewritten from ``pinned``.

    ``keep_sequence``: new files have the pinned sequence number, even 0, which tables have before an upgrade.
    ``all_deletes``: removes every position delete file that applies to nothing, not only those of the groups.
    """

    target: TargetTable
    pinned: RewriteBasis
    output_spec_id: int
    keep_sequence: bool
    all_deletes: bool
    timeout: timedelta
    clock: Clock = field(default_factory=Clock)

    def commit(self, groups: Sequence[Rewritten], *, keep_going: bool) -> CommitResult:
        """Publish the groups in one snapshot; no snapshot if nothing changes.

        With ``keep_going``, conflicting groups are left out and named; otherwise one conflict fails the commit. Raises
        ConflictError and StorageError (nothing was changed), OutcomeUnknownError (nothing may be removed).
        """

        def attempt(table: Table) -> CommitResult:
            return self._attempt(table, groups, keep_going=keep_going)

        return until_won(self.target, self.timeout, attempt, self.clock)

    def _attempt(self, table: Table, groups: Sequence[Rewritten], *, keep_going: bool) -> CommitResult:
        """Publish the groups on ``table``, or raise. Written files are removed if the commit certainly failed."""
        self._require_pinned(table.metadata)
        snapshot = NewSnapshot(table, self.clock.now_ms(), self.pinned.branch)
        read = _Manifests(table.io)
        try:
            manifests = snapshot.parent_manifests()
            now = _Head.read(table, manifests, self.pinned, groups, read)
            applies = _StillApplies(self.keep_sequence, self.output_spec_id, unpartitioned_specs(table.metadata))
            failed = conflicts(groups, now.inputs, now.new_deletes, applies)
            if failed and not keep_going:
                reasons = "; ".join(sorted(set(failed.values()))[:3])
                raise ConflictError(f"{self.target} was changed while it was rewritten: {reasons}. Nothing was changed")
            kept = [group for group in groups if group.group not in failed]
            removed = now.entries_of(kept)
            dropped = self._needless(table, manifests, kept, removed, read)
        except FileNotFoundError as error:
            raise CommitFailedException("the version that this run was planned on has expired meanwhile") from error
        except OSError as error:
            raise StorageError(f"cannot plan the commit to {self.target}: {error}; nothing was changed") from error
        done = tuple(group.group for group in kept)
        if not removed and not dropped:
            return CommitResult(None, done, failed, 0)
        new = [file for group in kept for file in group.added]
        going = Counter([*removed, *(live.place for live in dropped)])
        with snapshot.taken_back_unless_published():
            number = self.pinned.snapshot.sequence_number
            keeps = self.keep_sequence and table.metadata.format_version > 1
            data_number = number if keeps else None
            listed, gone = changed_manifests(snapshot, manifests, read.entries, new, going, data_number)
            snapshot.publish(
                self.target, listed, summarize(Operation.REPLACE, count_changes(new, gone), snapshot.parent)
            )
        return CommitResult(snapshot.id, done, failed, len(dropped))

    def _require_pinned(self, metadata: TableMetadata) -> None:
        """Raise ConflictError if the pinned snapshot is not an ancestor of the branch."""
        ref = metadata.refs.get(self.pinned.branch)
        is_branch = ref is not None and ref.snapshot_ref_type == SnapshotRefType.BRANCH
        head = metadata.snapshot_by_id(ref.snapshot_id) if ref is not None and is_branch else None
        if metadata.table_uuid != self.pinned.uuid or head is None:
            raise ConflictError(
                f"branch {self.pinned.branch} of {self.target} was removed while it was rewritten; nothing was changed"
            )
        wanted = self.pinned.snapshot.snapshot_id
        if not any(snapshot.snapshot_id == wanted for snapshot in ancestors_of(head, metadata)):
            raise ConflictError(
                f"branch {self.pinned.branch} of {self.target} no longer goes back to snapshot {wanted}, on which the "
                "rewrite was planned: it was rolled back, or that snapshot has expired. Nothing was changed"
            )

    def _needless(
        self,
        table: Table,
        manifests: Sequence[ManifestFile],
        groups: Sequence[Rewritten],
        removed: Sequence[Place],
        read: _Manifests,
    ) -> list[LiveFile]:
        """Returns the delete files of the pinned snapshot that apply to no file after ``removed`` are gone.

        Later delete files stay, because equality deletes among them apply to the new files.
        """
        used = {delete.path for group in groups for candidate in group.inputs for delete in candidate.deletes}
        if not used and not self.all_deletes:
            return []
        meant = self.pinned.deletes if self.all_deletes else used
        pinned = self.pinned.snapshot.sequence_number or 0
        deletes: list[LiveFile] = []
        data_manifests: list[ManifestFile] = []
        for manifest in manifests:
            if manifest.content == ManifestContent.DATA:
                data_manifests.append(manifest)
            else:
                found = read.live(manifest)
                deletes += [live for live in found if live.path in meant and live.sequence_number <= pinned]
        wanted = {live.place: live for live in deletes}
        unpartitioned = unpartitioned_specs(table.metadata)
        index = Deletes(deletes, unpartitioned)
        specs = {live.file.spec_id for live in deletes}
        everywhere = bool(specs & unpartitioned)
        left = Counter(removed)
        for manifest in data_manifests:
            if not wanted or not (everywhere or manifest.partition_spec_id in specs):
                continue
            for data in _Manifests(table.io).live(manifest):
                if left[data.place]:
                    left[data.place] -= 1
                    continue
                for delete in index.of(data):
                    wanted.pop(delete.place, None)
        return list(wanted.values())


@dataclass(frozen=True)
class _StillApplies:
    """Whether an equality delete from after the pinned snapshot applies to the new files as it does to the old ones."""

    keep_sequence: bool
    output_spec_id: int
    unpartitioned: frozenset[int]

    def __call__(self, delete: LiveFile, data: LiveFile) -> bool:
        everywhere = delete.file.spec_id in self.unpartitioned
        return self.keep_sequence and (everywhere or data.file.spec_id == self.output_spec_id)


@dataclass(frozen=True)
class _Head:
    """The groups' input files in the newest snapshot, and the delete files added since the pinned one."""

    inputs: dict[EntryKey, list[LiveFile]]
    new_deletes: Deletes

    @classmethod
    def read(
        cls,
        table: Table,
        manifests: Sequence[ManifestFile],
        pinned: RewriteBasis,
        groups: Iterable[Rewritten],
        read: _Manifests,
    ) -> _Head:
        """Read only the manifests that contained inputs, and the new ones."""
        wanted = Counter(candidate.live.entry for group in groups for candidate in group.inputs)
        sources = {candidate.live.manifest for group in groups for candidate in group.inputs}
        inputs: dict[EntryKey, list[LiveFile]] = {}
        for manifest in manifests:
            if manifest.content == ManifestContent.DATA and manifest.manifest_path in sources:
                for live in read.live(manifest):
                    if live.entry in wanted:
                        inputs.setdefault(live.entry, []).append(live)
        missing = wanted - Counter({entry: len(found) for entry, found in inputs.items()})
        new = [manifest for manifest in manifests if manifest.manifest_path not in pinned.manifests]
        deletes: list[LiveFile] = []
        for manifest in new:
            if manifest.content == ManifestContent.DELETES:
                deletes += [live for live in read.live(manifest) if live.path not in pinned.deletes]
            elif missing:
                for live in read.live(manifest):
                    if live.entry in missing:
                        inputs.setdefault(live.entry, []).append(live)
        return cls(inputs, Deletes(deletes, unpartitioned_specs(table.metadata)))

    def entries_of(self, groups: Iterable[Rewritten]) -> list[Place]:
        """Returns the places of the inputs of ``groups`` without conflicts, a different entry for each."""
        standing = {entry: iter(found) for entry, found in self.inputs.items()}
        return [next(standing[each.live.entry]).place for group in groups for each in group.inputs]


class _Manifests:
    """The manifests of one attempt, read to check them and to write them again. Each is decoded once."""

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._known: dict[str, tuple[ManifestEntry, ...]] = {}

    def entries(self, manifest: ManifestFile) -> tuple[ManifestEntry, ...]:
        """Returns the live entries."""
        path = manifest.manifest_path
        if path not in self._known:
            self._known[path] = read_live_entries(self._io, manifest)
        return self._known[path]

    def live(self, manifest: ManifestFile) -> list[LiveFile]:
        """Returns the live files."""
        return [live_file(entry, manifest) for entry in self.entries(manifest)]
