"""Writes a new snapshot on a branch: its manifests and list, then publishes or removes them.

Procedures, rewrites and statements of SQL commit by this. It writes tables of format versions 1, 2 and 3. In version 3
the commit gives ids to the rows of data manifests that have none, and adds their number to the table's next row id.

PyIceberg's producers cannot write the operation ``replace``, and drop the retention of the branch they move.
Guarantees: files are written under new names and are durable before the commit. The branch must not have moved. What
was written is removed if, and only if, the commit certainly did not land.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from metastore.errors import MetastoreError, OutcomeUnknownError, StorageError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.columns.schemas import schema_of
from metastore.lake.iceberg.manifests.manifest_reader import read_list
from metastore.lake.iceberg.manifests.manifest_writer import write_manifest_file
from metastore.lake.iceberg.manifests.manifests import with_row_ids, write_list
from metastore.lake.iceberg.snapshots.valid_updates import require_known_transforms
from metastore.lake.stores.files import flush
from metastore.lake.stores.new_files import NewFiles


class RefIsAt(AssertRefSnapshotId):
    """PyIceberg's requirement, which refuses each branch of a table without snapshots; Iceberg for Java has them."""

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as PyIceberg's own
        """Raises CommitFailedException unless the branch is at the snapshot, or missing if there is none."""
        if base_metadata is None or base_metadata.snapshots or self.snapshot_id is not None:
            super().validate(base_metadata)


class NewSnapshot:
    """The next snapshot of ``table`` on ``branch``, created at ``now_ms``.

    A new branch begins at the current snapshot. None: the snapshot follows the current one, and no branch moves.
    """

    def __init__(self, table: Table, now_ms: int, branch: str | None = MAIN_BRANCH) -> None:
        self.table: Final = table
        self.id: Final = table.metadata.new_snapshot_id()
        head = table.metadata.snapshot_by_name(branch) if branch else None
        self.parent: Final = head or table.metadata.current_snapshot()
        self._branch = branch
        self._now_ms = now_ms
        self._commit_id = uuid.uuid4()
        self._files = NewFiles(table.io)

    def parent_manifests(self) -> Sequence[ManifestFile]:
        """Return the manifests of the parent, none without a parent. Raises OSError when its list cannot be read."""
        return read_list(self.table.io, self.parent.manifest_list) if self.parent else ()

    def write_manifest(
        self,
        entries: Sequence[ManifestEntry],
        spec_id: int,
        content: ManifestContent = ManifestContent.DATA,
        notes: Mapping[str, str] = MappingProxyType({}),
    ) -> ManifestFile:
        """Write ``entries``, at least one and all of one spec; ``content`` is the kind of their files.

        Raises InvalidRequestError for a spec with a transform that is not known.
        """
        metadata = self.table.metadata
        spec = metadata.specs()[spec_id]
        require_known_transforms(".".join(self.table.name()), metadata, [spec_id])
        path = self._path(f"m{len(self._files.created_files)}")
        schema, version = schema_of(metadata, spec), metadata.format_version
        return write_manifest_file(self._files, path, version, spec, schema, self.id, entries, content, notes=notes)

    def publish(
        self,
        target: TargetTable,
        manifests: Sequence[ManifestFile],
        summary: Summary,
        updates: Sequence[TableUpdate] = (),
        requirements: Sequence[TableRequirement] = (),
    ) -> Table:
        """Write the list of ``manifests`` and commit it, with ``updates`` and their ``requirements``.

        Raises CommitFailedException for a lost race, StorageError if the commit was refused, OutcomeUnknownError if
        that is unknown.
        """
        metadata = self.table.metadata
        branch = self._branch or MAIN_BRANCH
        ref = metadata.refs.get(branch)
        same = (
            AssertTableUUID(uuid=metadata.table_uuid),
            RefIsAt(ref=branch, snapshot_id=ref.snapshot_id if ref else None),
        )
        return target.commit(self.table, (*same, *requirements), (*updates, *self.updates(manifests, summary)))

    def updates(self, manifests: Sequence[ManifestFile], summary: Summary) -> tuple[TableUpdate, ...]:
        """Write the list of ``manifests``; returns updates that make this the newest snapshot of the branch, if any."""
        metadata = self.table.metadata
        parent_time = self.parent.timestamp_ms + 1 if self.parent else 0
        next_row_id = taken = None
        if isinstance(metadata, TableMetadataV3):
            next_row_id = metadata.next_row_id or 0
            manifests, taken = with_row_ids(manifests, next_row_id)
        snapshot = Snapshot(
            snapshot_id=self.id,
            parent_snapshot_id=self.parent.snapshot_id if self.parent else None,
            sequence_number=metadata.next_sequence_number(),
            timestamp_ms=max(self._now_ms, parent_time, metadata.last_updated_ms),
            manifest_list=self._path(f"snap-{self.id}"),
            summary=summary,
            schema_id=metadata.current_schema_id,
            first_row_id=next_row_id,
            added_rows=taken,
        )
        write_list(self._files, snapshot, metadata.format_version, manifests)
        flush(self._files.created_files)
        if self._branch is None:
            return (AddSnapshotUpdate(snapshot=snapshot),)
        ref = metadata.refs.get(self._branch)
        head = SetSnapshotRefUpdate(
            ref_name=self._branch,
            type=SnapshotRefType.BRANCH,
            snapshot_id=self.id,
            max_ref_age_ms=ref.max_ref_age_ms if ref else None,
            max_snapshot_age_ms=ref.max_snapshot_age_ms if ref else None,
            min_snapshots_to_keep=ref.min_snapshots_to_keep if ref else None,
        )
        return AddSnapshotUpdate(snapshot=snapshot), head

    @contextmanager
    def taken_back_unless_published(self) -> Iterator[None]:
        """Within, an error that proves that nothing was committed removes what was written.

        An OSError becomes a StorageError, except in the commit itself, whose errors are of three kinds only.
        """
        try:
            yield
        except OutcomeUnknownError:
            raise
        except (CommitFailedException, MetastoreError):
            self._files.discard()
            raise
        except OSError as error:
            self._files.discard()
            raise StorageError(f"cannot write metadata of {self.table.name()}: {error}; nothing was changed") from error

    def _path(self, name: str) -> str:
        """Return a path in the table's metadata folder that no other attempt uses."""
        return self.table.location_provider().new_metadata_location(f"{name}-{self._commit_id}.avro")
