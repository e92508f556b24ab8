"""What each snapshot of a range changed: the data files whose rows it removed, and those whose rows it added.

A file is removed and added if only its delete files changed; the rows that both states have are found when they are
read (:mod:`metastore.lake.iceberg.rows.changed_rows`). Snapshots of operation ``replace`` move rows and change none, so
they are left out, as in Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from metastore.errors import InvalidRequestError, StorageError
from metastore.lake.iceberg.manifests.manifest_reader import read_list
from metastore.lake.iceberg.rows.delete_index import Deletes, unpartitioned_specs
from metastore.lake.iceberg.rows.live_files import EntryKey, LiveFiles, live_files

_State: TypeAlias = tuple[EntryKey, frozenset[EntryKey]]
"""A data file with the deletes that apply to it."""


@dataclass(frozen=True)
class ChangedFiles:
    """The files that one snapshot changed; ``ordinal`` counts the snapshots of a range from 0."""

    ordinal: int
    snapshot_id: int
    removed: tuple[FileScanTask, ...]
    added: tuple[FileScanTask, ...]


def snapshots_between(metadata: TableMetadata, io: FileIO, after: int | None, last: int | None) -> list[Snapshot]:
    """Return the snapshots from the one behind ``after`` to ``last``, oldest first, without ``replace``.

    Without ``after`` they begin with the oldest whose changes are known: the first of the table, or else the oldest one
    whose parent has not expired. Raises InvalidRequestError if ``after`` is not an ancestor of ``last``, StorageError
    if a manifest list cannot be read.
    """
    line: list[Snapshot] = []
    each = None if last is None else metadata.snapshot_by_id(last)
    while each is not None and each.snapshot_id != after:
        parent = each.parent_snapshot_id
        before = None if parent is None else metadata.snapshot_by_id(parent)
        if before is None and not _began_empty(io, each):
            break
        line.append(each)
        each = before
    if after is not None and (each is None or each.snapshot_id != after):
        raise InvalidRequestError(
            f"snapshot {after} is not an ancestor of snapshot {last}, or one between them has expired: choose "
            "an ancestor that the metadata table $snapshots lists"
        )
    return [each for each in reversed(line) if not (each.summary and each.summary.operation is Operation.REPLACE)]


def changed_files(metadata: TableMetadata, io: FileIO, snapshots: Sequence[Snapshot]) -> Iterator[ChangedFiles]:
    """Yield the changes of ``snapshots``, as :func:`snapshots_between` returns them.

    Manifests that a snapshot and its parent share are not read if their delete files are the same. Raises StorageError
    if a manifest cannot be read.
    """
    for ordinal, snapshot in enumerate(snapshots):
        parent = None if snapshot.parent_snapshot_id is None else metadata.snapshot_by_id(snapshot.parent_snapshot_id)
        shared = _shared_manifests(io, parent, snapshot)
        before = {} if parent is None else _states(metadata, live_files(metadata, io, parent, without=shared))
        after = _states(metadata, live_files(metadata, io, snapshot, without=shared))
        yield ChangedFiles(ordinal, snapshot.snapshot_id, _beyond(before, after), _beyond(after, before))


def _began_empty(io: FileIO, snapshot: Snapshot) -> bool:
    """Whether the table was empty before: a parent that has expired may have been removed from the snapshot, too.

    A manifest that an earlier snapshot added shows it, too; an append and a merge-on-read change keep such ones.
    """
    if snapshot.parent_snapshot_id is not None:
        return False
    return all(
        (each.existing_files_count, each.deleted_files_count) == (0, 0)
        and each.added_snapshot_id == snapshot.snapshot_id
        for each in _manifests(io, snapshot)
    )


def _manifests(io: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    try:
        return list(read_list(io, snapshot.manifest_list))
    except OSError as error:
        raise StorageError(f"cannot read the manifests of snapshot {snapshot.snapshot_id}: {error}") from error


def _shared_manifests(io: FileIO, parent: Snapshot | None, snapshot: Snapshot) -> frozenset[str]:
    """Return the paths of data manifests that need not be compared."""
    if parent is None:
        return frozenset()
    lists = [_manifests(io, each) for each in (parent, snapshot)]
    data, deletes = (
        [{each.manifest_path for each in found if (each.content == ManifestContent.DATA) is of_data} for found in lists]
        for of_data in (True, False)
    )
    return frozenset(data[0] & data[1]) if deletes[0] == deletes[1] else frozenset()


def _states(metadata: TableMetadata, files: LiveFiles) -> dict[_State, list[FileScanTask]]:
    index = Deletes(files.deletes, unpartitioned_specs(metadata))
    found: dict[_State, list[FileScanTask]] = {}
    for data in files.data:
        deletes = index.of(data)
        state = (data.entry, frozenset(each.entry for each in deletes))
        found.setdefault(state, []).append(FileScanTask(data.file, {each.file for each in deletes}))
    return found


def _beyond(
    these: dict[_State, list[FileScanTask]], others: dict[_State, list[FileScanTask]]
) -> tuple[FileScanTask, ...]:
    """Return the files of ``these`` that are not in ``others``; a file can be in a table twice."""
    more = Counter({state: len(tasks) for state, tasks in these.items()})
    more.subtract({state: len(others.get(state, ())) for state in these})
    return tuple(task for state, tasks in these.items() for task in tasks[: max(0, more[state])])
