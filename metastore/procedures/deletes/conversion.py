"""Replaces delete files by others that delete the same rows: plans on the newest version, writes, commits.

The commit requires that the branch still has the snapshot that was read. After a lost race it plans again, and reads
only data files whose deletes have changed. New files that no commit has added are removed.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation

from metastore.errors import MetastoreError, OutcomeUnknownError, ProcedureError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.columns.version_3_fields import content_offset, referenced_data_file
from metastore.lake.iceberg.manifests.manifest_reader import read_live_entries
from metastore.lake.iceberg.rows.changed_manifests import changed_manifests
from metastore.lake.iceberg.rows.live_files import LiveFile, LiveFiles, live_files
from metastore.lake.iceberg.rows.row_lineage import VERSION_OF_LINEAGE
from metastore.lake.iceberg.snapshots.contention import until_won
from metastore.lake.iceberg.snapshots.snapshot import NewSnapshot
from metastore.lake.iceberg.snapshots.summaries import count_changes, summarize
from metastore.lake.iceberg.snapshots.valid_updates import require_known_transforms
from metastore.lake.stores.files import discard
from metastore.lake.writes.delete_writing import WRITTEN, DeleteChunk, write_deletes
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.pieces import Slice
from metastore.procedures.files.guards import require_foreign, require_written_version
from metastore.procedures.framework.model import CallContext

_FILES_A_CHUNK: Final = 64
"""Data files that one task reads."""
_UNREAD_FILES_A_CHUNK: Final = 4_096
"""Data files per task if the task reads none of them. A large number makes few new files."""


@dataclass(frozen=True)
class ConversionPlan:
    """The planned conversion of one snapshot.

    ``groups`` are data files whose new deletes belong in one file, each with the deletes to merge. A large group
    becomes several files. In format version 2 a group is of one partition. ``gone`` are the delete files to remove.
    ``at_once`` limits the tasks that run at the same time.
    """

    groups: tuple[tuple[Slice, ...], ...] = ()
    gone: tuple[LiveFile, ...] = ()
    message: str = ""
    at_once: int | None = None


@dataclass(frozen=True)
class Conversion:
    """The result of a call or dry run: removed and added delete files, and the rows that equality deletes removed."""

    gone: Sequence[DataFile] = ()
    added: Sequence[DataFile] = ()
    rows: int = 0
    message: str = ""


Planner = Callable[[LiveFiles, TableMetadata], ConversionPlan]


def convert(context: CallContext, target: TargetTable, planner: Planner, *, dry_run: bool) -> Conversion:
    """Run a conversion on the branch ``main``.

    Raises ProcedureError if the table is not supported, errors of reading files, ConflictError if other writers keep
    winning, StorageError (nothing was changed), and OutcomeUnknownError (nothing was removed).
    """
    require_foreign(target, "it has no delete files")
    conversion = _Conversion(context, target, planner, dry_run)
    try:
        done = until_won(target, context.settings.iceberg.commit.timeout, conversion.attempt)
    except OutcomeUnknownError:
        raise
    except MetastoreError:
        conversion.remove_but(())
        raise
    conversion.remove_but(done.added)
    return done


def is_vector(live: LiveFile) -> bool:
    """Returns whether an entry is a deletion vector."""
    return content_offset(live.file) is not None


@dataclass
class _Conversion:
    """The attempts of one call. ``_written`` keeps written deletes by their data files, for later attempts."""

    context: CallContext
    target: TargetTable
    planner: Planner
    dry_run: bool
    _written: dict[tuple[Slice, ...], tuple[dict[str, DataFile], int]] = field(default_factory=dict)
    _io: FileIO | None = None

    def attempt(self, table: Table) -> Conversion:
        """Plan on ``table``, write what no earlier attempt wrote, commit. CommitFailedException if a race was lost."""
        require_written_version(table, self.target)
        self._io = table.io
        metadata = table.metadata
        snapshot = metadata.current_snapshot()
        if snapshot is None:
            return Conversion(message="nothing to change: the table is empty")
        files = live_files(metadata, table.io, snapshot)
        plan = self.planner(files, metadata)
        if not plan.gone:
            return Conversion(message=plan.message)
        concerned = {live.file.spec_id for live in (*files.data, *files.deletes)}
        require_known_transforms(str(self.target), metadata, concerned)
        self._require_single(files, {cut.path for group in plan.groups for cut in group})
        if self.dry_run:
            return Conversion([live.file for live in plan.gone], message="dry run: nothing was changed")
        vectors = metadata.format_version >= VERSION_OF_LINEAGE
        chunks = [chunk for group in plan.groups for chunk in _chunks(group)]
        missing = [chunk for chunk in chunks if chunk not in self._written]
        most = plan.at_once or max(1, len(missing))
        for first in range(0, len(missing), most):
            self._write(table, missing[first : first + most], vectors)
        new = [(path, file) for chunk in chunks for path, file in self._written[chunk][0].items()]
        renewed = {path for path, _ in new}
        replaced = [live for live in files.deletes if is_vector(live) and referenced_data_file(live.file) in renewed]
        gone = {live.place: live for live in (*plan.gone, *replaced)}
        added = list({id(file): file for _, file in new}.values())
        self._commit(table, added, list(gone.values()))
        rows = sum(self._written[chunk][1] for chunk in chunks)
        return Conversion([live.file for live in gone.values()], added, rows)

    def remove_but(self, kept: Iterable[DataFile]) -> None:
        """Delete the written files, except those ``kept``."""
        paths = {file.file_path for files, _ in self._written.values() for file in files.values()}
        if paths and self._io is not None:
            discard(self._io, paths - {file.file_path for file in kept})

    def _require_single(self, files: LiveFiles, paths: Collection[str]) -> None:
        for path, times in Counter(live.path for live in files.data).items():
            if times > 1 and path in paths:
                raise ProcedureError(
                    f"{path} is in {self.target} {times} times, and its deletes may apply to one only; "
                    "nothing was changed. Rewrite the file by rewrite_data_files first"
                )

    def _write(self, table: Table, chunks: Sequence[tuple[Slice, ...]], vectors: bool) -> None:
        job = RewriteJob.of(str(self.target), table.metadata, table.io)
        work = [DeleteChunk(number, job, chunk, vectors) for number, chunk in enumerate(chunks)]
        for chunk in chunks:
            self._written[chunk] = ({}, 0)
        engine = self.context.engine(sum(map(len, chunks)))
        for batch in engine.run(work, write_deletes, WRITTEN) if work else ():
            shared: dict[bytes, DataFile] = {}
            for row in batch.to_pylist():
                chunk = chunks[row["chunk"]]
                files, rows = self._written[chunk]
                entry = row["delete_file"]
                made: DataFile = shared.setdefault(entry, pickle.loads(entry))  # noqa: S301 - our own task wrote it
                files[row["data_file"]] = made
                self._written[chunk] = files, rows + row["found"]

    def _commit(self, table: Table, added: Sequence[DataFile], gone: Sequence[LiveFile]) -> None:
        snapshot = NewSnapshot(table, self.context.now_ms())
        summary = summarize(Operation.REPLACE, count_changes(added, [live.file for live in gone]), snapshot.parent)
        with snapshot.taken_back_unless_published():
            try:
                manifests, _ = changed_manifests(
                    snapshot,
                    snapshot.parent_manifests(),
                    partial(read_live_entries, table.io),
                    added,
                    Counter(live.place for live in gone),
                )
            except FileNotFoundError as error:
                raise CommitFailedException("the version that this run was planned on has expired meanwhile") from error
            snapshot.publish(self.target, manifests, summary)


def _chunks(group: Sequence[Slice]) -> Iterable[tuple[Slice, ...]]:
    """Split a group by its data files alone, so the chunks are the same when the plan is made again."""
    ordered = sorted(group, key=lambda cut: cut.path)
    reads = any(delete.equality_ids for cut in group for delete in cut.deletes)
    most = _FILES_A_CHUNK if reads else _UNREAD_FILES_A_CHUNK
    for first in range(0, len(ordered), most):
        yield tuple(ordered[first : first + most])


def result_row(done: Conversion, names: Mapping[str, int]) -> Mapping[str, object]:
    """Returns the row of a call. ``names`` has further counts."""
    new_paths = {file.file_path: file.file_size_in_bytes for file in done.added}
    old_paths = {file.file_path: file.file_size_in_bytes for file in done.gone}
    return {
        "rewritten_delete_files_count": len(done.gone),
        "added_delete_files_count": len(done.added),
        "rewritten_bytes_count": sum(old_paths.values()),
        "added_bytes_count": sum(new_paths.values()),
        **names,
        "message": done.message,
    }
