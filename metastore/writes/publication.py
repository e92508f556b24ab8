"""Commits one snapshot that adds data files and removes others, based on the table version that was read.

Place in the flow: the last step of a statement that changes rows. The commit fails if the branch has moved since the
statement read it, so the statement changes exactly the rows that it read. Promises as
:mod:`metastore.iceberg.snapshot`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.table.update import AssertCreate, TableUpdate

from metastore.errors import FormatError
from metastore.iceberg.live_files import LiveFile, live_file
from metastore.iceberg.manifest_reader import read_live_entries
from metastore.iceberg.manifests import added, deleted, existing
from metastore.iceberg.schemas import schema_of
from metastore.iceberg.snapshot import NewSnapshot
from metastore.iceberg.target import TargetTable

_ENTRIES: Final = 10_000
"""The most entries of one manifest."""


def publish_change(
    target: TargetTable, table: Table, now_ms: int, new: Sequence[DataFile], gone: Sequence[LiveFile]
) -> int:
    """Commit ``table`` with the files ``new`` and without ``gone``; returns the id of the snapshot.

    Raises CommitFailedException if another writer was faster and StorageError if the commit was refused, both with
    nothing changed; OutcomeUnknownError if the outcome is unknown.
    """
    made = NewSnapshot(table, now_ms)
    with made.taken_back_unless_published():
        manifests = [*_added(made, new), *_without(made, gone)]
        made.publish(target, manifests, _summary(table, new, gone))
    return made.id


def publish_creation(
    target: TargetTable, staged: Table, updates: Sequence[TableUpdate], now_ms: int, new: Sequence[DataFile]
) -> int:
    """Commit the table ``staged``, which ``updates`` create, with the files ``new``; returns its first snapshot's id.

    Raises as :func:`publish_change`; CommitFailedException when a table of that name exists.
    """
    made = NewSnapshot(staged, now_ms)
    with made.taken_back_unless_published():
        first = made.updates(list(_added(made, new)), _summary(staged, new, ()))
        target.commit(staged, (AssertCreate(),), (*updates, *first))
    return made.id


def _added(made: NewSnapshot, new: Sequence[DataFile]) -> Iterator[ManifestFile]:
    for first in range(0, len(new), _ENTRIES):
        part = new[first : first + _ENTRIES]
        try:
            yield made.write_manifest([added(file, made.id) for file in part], part[0].spec_id)
        except ValueError as error:
            raise FormatError(f"a partition value of {made.table.name()} cannot be written: {error}") from error


def _without(made: NewSnapshot, gone: Sequence[LiveFile]) -> Iterator[ManifestFile]:
    """Returns the parent's manifests; those that hold a removed file are rewritten."""
    io = made.table.io
    left = Counter((live.manifest, live.entry) for live in gone)
    changed = {manifest for manifest, _ in left}
    for manifest in made.parent_manifests():
        if manifest.manifest_path not in changed:
            yield manifest
            continue
        entries: list[ManifestEntry] = []
        for entry in read_live_entries(io, manifest):
            live = live_file(entry, manifest)
            place = live.manifest, live.entry
            entries.append(deleted(entry, made.id) if left[place] else existing(entry))
            left[place] -= bool(left[place])
        yield made.write_manifest(entries, manifest.partition_spec_id, ManifestContent(manifest.content))


def _summary(table: Table, new: Sequence[DataFile], gone: Sequence[LiveFile]) -> Summary:
    metadata = table.metadata
    specs = metadata.specs()
    counted = SnapshotSummaryCollector()
    for file in new:
        counted.add_file(file, schema_of(metadata, specs[file.spec_id]), specs[file.spec_id])
    for live in gone:
        spec = specs[live.file.spec_id]
        counted.remove_file(live.file, schema_of(metadata, spec), spec)
    operation = Operation.OVERWRITE if new and gone else Operation.DELETE if gone else Operation.APPEND
    current = metadata.current_snapshot()
    previous = current.summary.additional_properties if current and current.summary else None
    return update_snapshot_summaries(Summary(operation, **counted.build()), previous)
