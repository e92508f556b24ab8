"""Commits one snapshot that adds files and removes others, based on the table version that was read.

Place in the flow: the last step of a statement that changes rows. The commit fails if the branch has moved since the
statement read it, so the statement changes exactly the rows that it read. Promises as
:mod:`metastore.lake.iceberg.snapshots.snapshot`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

from pyiceberg.manifest import DataFile, DataFileContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import (
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertRefSnapshotId,
    AssertTableUUID,
    TableRequirement,
    TableUpdate,
)

from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.manifests.manifest_reader import read_live_entries
from metastore.lake.iceberg.rows.changed_manifests import changed_manifests
from metastore.lake.iceberg.rows.live_files import LiveFile
from metastore.lake.iceberg.snapshots.snapshot import NewSnapshot
from metastore.lake.iceberg.snapshots.summaries import count_changes, summarize
from metastore.lake.writes.audit import MAIN, Head


def publish_change(
    target: TargetTable,
    table: Table,
    now_ms: int,
    new: Sequence[DataFile],
    gone: Sequence[LiveFile] = (),
    head: Head = MAIN,
    *,
    updates: Sequence[TableUpdate] = (),
    requirements: Sequence[TableRequirement] = (),
) -> int:
    """Commit ``head`` of ``table`` with the files ``new`` and without ``gone``; returns the id of the snapshot.

    ``updates`` are part of the commit, and ``requirements`` must hold, too.
    Raises CommitFailedException if another writer was faster and StorageError if the commit was refused, both with
    nothing changed; OutcomeUnknownError if the outcome is unknown.
    """
    made = NewSnapshot(table, now_ms, head.branch)
    with made.taken_back_unless_published():
        summary = _summary(made, new, gone, head.notes)
        made.publish(target, _manifests(made, new, gone), summary, updates, requirements)
    return made.id


def publish_creation(
    target: TargetTable,
    staged: Table,
    updates: Sequence[TableUpdate],
    now_ms: int,
    new: Sequence[DataFile],
    replaced: Table | None = None,
) -> int:
    """Commit the table ``staged``, which ``updates`` create, with the files ``new``; returns its first snapshot's id.

    ``updates`` may also be those that make ``staged`` of the table ``replaced``. Raises as :func:`publish_change`;
    CommitFailedException when a table of that name exists, or the replaced one has changed.
    """
    made = NewSnapshot(staged, now_ms)
    with made.taken_back_unless_published():
        first = made.updates(_manifests(made, new, ()), _summary(made, new, ()))
        requirements = (AssertCreate(),) if replaced is None else require_unchanged(replaced)
        target.commit(staged if replaced is None else replaced, requirements, (*updates, *first))
    return made.id


def require_same_columns(metadata: TableMetadata) -> tuple[TableRequirement, ...]:
    """Returns the requirements that columns and partitioning are those of ``metadata``."""
    return (
        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
    )


def require_unchanged(table: Table) -> tuple[TableRequirement, ...]:
    """Returns the requirements that the columns, partitioning, order and rows of ``table`` are as they were loaded."""
    metadata = table.metadata
    snapshot = metadata.current_snapshot_id
    return (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=snapshot),
        AssertLastAssignedFieldId(last_assigned_field_id=metadata.last_column_id),
        *require_same_columns(metadata),
        AssertDefaultSortOrderId(default_sort_order_id=metadata.default_sort_order_id),
    )


def _manifests(made: NewSnapshot, new: Sequence[DataFile], gone: Sequence[LiveFile]) -> list[ManifestFile]:
    going = Counter(live.place for live in gone)
    read = partial(read_live_entries, made.table.io)
    return changed_manifests(made, made.parent_manifests(), read, new, going)[0]


def _summary(
    made: NewSnapshot,
    new: Sequence[DataFile],
    gone: Sequence[LiveFile],
    notes: Mapping[str, str] = MAIN.notes,
) -> Summary:
    counts = count_changes(new, [live.file for live in gone])
    return summarize(_operation(new, gone), {**counts, **notes}, made.parent)


def _operation(new: Sequence[DataFile], gone: Sequence[LiveFile]) -> Operation:
    """Returns the operation as Iceberg names it: new delete files delete rows, as removed data files do."""
    adds = any(file.content == DataFileContent.DATA for file in new)
    removes = bool(gone) or any(file.content != DataFileContent.DATA for file in new)
    return Operation.OVERWRITE if adds and removes else Operation.DELETE if removes else Operation.APPEND
