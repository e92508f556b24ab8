"""cherrypick_snapshot and publish_changes: apply the changes of a snapshot outside the history to the current one.

Three kinds of snapshots can be picked. The first is an append. The second is an overwrite of whole partitions, while
these are unchanged since. The third is any snapshot whose parent is the current snapshot: ``main`` then moves to it.
The new snapshot names its source (``source-snapshot-id``), so no changes are picked twice. No data file is written: the
new manifests name those of the picked snapshot. After a lost race, the procedure checks the fresh table again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

from metastore.errors import ProcedureError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.manifests.manifest_reader import read_entries, read_list, read_live_entries
from metastore.lake.iceberg.manifests.partition_key import partition_key
from metastore.lake.iceberg.rows.changed_manifests import changed_manifests
from metastore.lake.iceberg.rows.live_files import Place, live_file
from metastore.lake.iceberg.snapshots.contention import until_won
from metastore.lake.iceberg.snapshots.snapshot import NewSnapshot
from metastore.lake.iceberg.snapshots.summaries import count_changes, summarize
from metastore.procedures.files.guards import require_written_version
from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns
from metastore.procedures.refs.refs import ancestors, head_update

_PICKED: Final = columns(source_snapshot_id=pa.int64(), current_snapshot_id=pa.int64())

SOURCE: Final = "source-snapshot-id"
PUBLISHED_WAP_ID: Final = "published-wap-id"
WAP_ID: Final = "wap.id"
REPLACE_PARTITIONS: Final = "replace-partitions"
"""Keys of snapshot summaries, defined by Iceberg."""


@procedure(result=_PICKED)
def cherrypick_snapshot(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    snapshot_id: int,
) -> dict[str, Any]:
    """Applies the changes of a snapshot to the current snapshot."""

    def find(metadata: TableMetadata) -> Snapshot:
        snapshot = metadata.snapshot_by_id(snapshot_id)
        if snapshot is None:
            raise ProcedureError(f"Cannot cherry-pick unknown snapshot ID: {snapshot_id}")
        return snapshot

    return _pick(context, schema, table_name, find)


@procedure(result=_PICKED)
def publish_changes(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    wap_id: str,
) -> dict[str, Any]:
    """Applies the changes that were staged under a WAP ID to the current snapshot."""

    def find(metadata: TableMetadata) -> Snapshot:
        found = [each for each in metadata.snapshots if _summary(each).get(WAP_ID) == wap_id]
        if not found:
            raise ProcedureError(f"Cannot apply unknown WAP ID '{wap_id}'")
        if len(found) > 1:
            ids = ", ".join(str(each.snapshot_id) for each in found)
            raise ProcedureError(
                f"Cannot apply non-unique WAP ID. Found multiple snapshots with WAP ID '{wap_id}': {ids}"
            )
        return found[0]

    return _pick(context, schema, table_name, find)


def _pick(
    context: CallContext, schema: str, table_name: str, find: Callable[[TableMetadata], Snapshot]
) -> dict[str, Any]:
    target = context.table(schema, table_name)

    def attempt(table: Table) -> dict[str, Any]:
        picked = find(table.metadata)
        current = _Pick(target, table, picked, context.now_ms()).commit()
        return {"source_snapshot_id": picked.snapshot_id, "current_snapshot_id": current}

    return until_won(target, context.settings.iceberg.commit.timeout, attempt)


@dataclass(frozen=True)
class _Pick:
    """One attempt to apply the changes of ``picked`` to the table as loaded."""

    target: TargetTable
    table: Table
    picked: Snapshot
    now_ms: int

    @property
    def _metadata(self) -> TableMetadata:
        return self.table.metadata

    @property
    def _current(self) -> Snapshot | None:
        return self._metadata.current_snapshot()

    def commit(self) -> int:
        """Commit, and return the ID of the new current snapshot. Raises CommitFailedException after a lost race."""
        current = self._current.snapshot_id if self._current else None
        if self.picked.parent_snapshot_id == current:
            same = (
                AssertTableUUID(uuid=self._metadata.table_uuid),
                AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=current),
            )
            head = head_update(self._metadata, MAIN_BRANCH, self.picked.snapshot_id)
            self.target.commit(self.table, same, [head])
            return self.picked.snapshot_id
        self._require_news()
        new = NewSnapshot(self.table, self.now_ms)
        with new.taken_back_unless_published():
            manifests, summary = self._write(new)
            new.publish(self.target, manifests, summary)
        return new.id

    def _require_news(self) -> None:
        """Refuse snapshots in the history or already picked or published, and operations that cannot be picked."""
        snapshot_id, summary = self.picked.snapshot_id, _summary(self.picked)
        origin = self._origin(self.picked)
        for each in ancestors(self._metadata, self._current):
            known = _summary(each)
            if each.snapshot_id == snapshot_id:
                raise ProcedureError(f"Cannot cherrypick snapshot {snapshot_id}: already an ancestor")
            if self._origin(each) == origin:
                raise ProcedureError(
                    f"Cannot cherrypick snapshot {snapshot_id}: already picked to create ancestor {each.snapshot_id}"
                )
            wap_id = summary.get(WAP_ID)
            if wap_id and wap_id in (known.get(PUBLISHED_WAP_ID), known.get(WAP_ID)):
                raise ProcedureError(f"Duplicate request to cherry pick wap id that was published already: {wap_id}")
        if not (self._is_append or self._is_overwrite):
            raise ProcedureError(
                f"Cannot cherry-pick snapshot {snapshot_id}: not append, dynamic overwrite, or fast-forward"
            )
        require_written_version(self.table, self.target)

    def _origin(self, snapshot: Snapshot) -> int:
        """Returns the ID of the snapshot that first made these changes, through any chain of picks."""
        source = _summary(snapshot).get(SOURCE, "")
        if not source.isdigit():
            return snapshot.snapshot_id
        known = self._metadata.snapshot_by_id(int(source))
        return self._origin(known) if known and known is not snapshot else int(source)

    @property
    def _is_append(self) -> bool:
        return self.picked.summary is not None and self.picked.summary.operation == Operation.APPEND

    @property
    def _is_overwrite(self) -> bool:
        """Whether the snapshot replaced whole partitions, as every overwrite of a component does."""
        summary = self.picked.summary
        is_dynamic = _summary(self.picked).get(REPLACE_PARTITIONS, "").lower() == "true"
        overwrites = summary is not None and summary.operation == Operation.OVERWRITE
        return overwrites and (is_dynamic or self.target.is_component)

    def _write(self, new: NewSnapshot) -> tuple[list[ManifestFile], Summary]:
        """Returns all manifests of the new snapshot and its summary. Writes only the manifests that contain changes."""
        manifests = new.parent_manifests()
        adds, removes = self._changes()
        self._require_new_files(adds, manifests)
        if self._is_overwrite or self.target.is_component:
            self._require_partitions_as_they_were(adds, removes, manifests)
        going = self._places(manifests, {entry.data_file.file_path for entry in removes})
        read = partial(read_live_entries, self.table.io)
        listed, _ = changed_manifests(new, manifests, read, [entry.data_file for entry in adds], going)
        return listed, self._summary(adds, removes)

    def _places(self, manifests: Sequence[ManifestFile], gone: set[str]) -> Counter[Place]:
        """Returns the places of the files ``gone``. Raises ProcedureError if one is missing."""
        found = [
            live_file(entry, manifest)
            for manifest in manifests
            if gone and manifest.content == ManifestContent.DATA
            for entry in read_live_entries(self.table.io, manifest)
            if entry.data_file.file_path in gone
        ]
        if missing := gone - {live.path for live in found}:
            raise ProcedureError(f"Missing required files to delete: {', '.join(sorted(missing))}")
        return Counter(live.place for live in found)

    def _changes(self) -> tuple[list[ManifestEntry], list[ManifestEntry]]:
        """Returns the entries of data files that the picked snapshot added and removed."""
        adds, removes = [], []
        for manifest in read_list(self.table.io, self.picked.manifest_list):
            if manifest.added_snapshot_id != self.picked.snapshot_id:
                continue
            if manifest.content != ManifestContent.DATA:
                raise ProcedureError(f"Cannot cherry-pick snapshot {self.picked.snapshot_id}: it adds delete files")
            for entry in read_entries(self.table.io, manifest):
                if entry.snapshot_id != self.picked.snapshot_id:
                    continue
                if entry.status == ManifestEntryStatus.ADDED:
                    adds.append(entry)
                elif entry.status == ManifestEntryStatus.DELETED:
                    removes.append(entry)
        return adds, removes

    def _require_new_files(self, adds: Sequence[ManifestEntry], manifests: Sequence[ManifestFile]) -> None:
        """Refuse files that the picked snapshot or a pick of it already added. Expired picks are not in the history."""
        made = self.picked.sequence_number or 0
        paths = {entry.data_file.file_path for entry in adds}
        for manifest in manifests:
            if manifest.content != ManifestContent.DATA or (manifest.sequence_number or 0) < made:
                continue
            for entry in read_live_entries(self.table.io, manifest):
                if entry.data_file.file_path in paths and (entry.sequence_number or 0) >= made:
                    raise ProcedureError(
                        f"Cannot cherrypick snapshot {self.picked.snapshot_id}: its changes are in the table already, "
                        f"such as {entry.data_file.file_path}"
                    )

    def _require_partitions_as_they_were(
        self,
        adds: Sequence[ManifestEntry],
        removes: Sequence[ManifestEntry],
        manifests: Sequence[ManifestFile],
    ) -> None:
        """Refuse if one of the partitions has been written to since the picked snapshot was made."""
        since = self._snapshots_since()
        found = {entry.data_file.file_path for entry in removes}
        files = [entry.data_file for entry in (*adds, *removes)]
        partitions = {partition_key(file.spec_id, file.partition) for file in files}
        for manifest in manifests:
            if since is not None and manifest.added_snapshot_id not in since:
                continue
            for entry in read_live_entries(self.table.io, manifest):
                if partition_key(manifest.partition_spec_id, entry.data_file.partition) not in partitions:
                    continue
                is_new = entry.data_file.file_path not in found if since is None else entry.snapshot_id in since
                if is_new:
                    raise ProcedureError(
                        f"Cannot cherry-pick replace-partitions with changed partition: {entry.data_file.partition}"
                    )

    def _snapshots_since(self) -> set[int] | None:
        """Returns the IDs of the snapshots in the history since the parent of the picked snapshot.

        None stands for all snapshots, also expired ones. It is returned if the picked snapshot has no parent, or an
        expired one, which PyIceberg drops.
        """
        base = self.picked.parent_snapshot_id
        if base is None:
            return None
        since: set[int] = set()
        for each in ancestors(self._metadata, self._current):
            if each.snapshot_id == base:
                return since
            since.add(each.snapshot_id)
        raise ProcedureError(
            f"Cannot cherry-pick overwrite not based on an ancestor of the current state: {self.picked.snapshot_id}"
        )

    def _summary(self, adds: Sequence[ManifestEntry], removes: Sequence[ManifestEntry]) -> Summary:
        counts = count_changes([entry.data_file for entry in adds], [entry.data_file for entry in removes])
        texts = {**counts, SOURCE: str(self.picked.snapshot_id)}
        if wap_id := _summary(self.picked).get(WAP_ID):
            texts[PUBLISHED_WAP_ID] = wap_id
        if self._is_overwrite:
            texts[REPLACE_PARTITIONS] = "true"
        operation = Operation.OVERWRITE if self._is_overwrite else Operation.APPEND
        return summarize(operation, texts, self._current)


def _summary(snapshot: Snapshot) -> dict[str, str]:
    """Returns the properties of the snapshot's summary."""
    return snapshot.summary.additional_properties if snapshot.summary else {}
