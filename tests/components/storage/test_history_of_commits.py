"""A commit that only adds to the history is applied without it; the outcome is PyIceberg's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.types import NestedField, StringType

from metastore.components.metastore import Metastore
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.lake.iceberg.catalogs.next_metadata import apply_updates
from metastore.model.table_unit import TableMetadataUnit

PLACE = "/t/metadata/v1.metadata.json"


def added(metadata: TableMetadata, number: int) -> tuple[TableUpdate, ...]:
    """Updates of a commit: snapshot ``number``, which becomes the head of main."""
    snapshot = Snapshot(
        snapshot_id=number,
        sequence_number=metadata.next_sequence_number(),
        timestamp_ms=metadata.last_updated_ms + 1,
        manifest_list=f"/t/{number}.avro",
        summary=Summary(Operation.APPEND),
    )
    return AddSnapshotUpdate(snapshot=snapshot), head(MAIN_BRANCH, number)


def head(name: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    """``name`` set to a snapshot."""
    return SetSnapshotRefUpdate(
        ref_name=name,
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot_id,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )


def test_the_outcome_is_that_of_the_whole_history(tmp_path: Path) -> None:
    """New snapshots, and a branch at an old one, whose commit needs the history."""
    catalog = FileSystemCatalog("test", str(tmp_path))
    ours = theirs = catalog.create_table("t", Schema(NestedField(1, "a", StringType(), required=False))).metadata
    steps = [added(ours, 1), added(ours, 2), (head("old", 1),), added(ours, 3)]
    for step in steps:
        updates = added(ours, step[0].snapshot.snapshot_id) if isinstance(step[0], AddSnapshotUpdate) else step
        ours = apply_updates(ours, updates, PLACE)
        theirs = update_table_metadata(theirs, updates, metadata_location=PLACE)
        # PyIceberg reads the clock where no snapshot brings its time.
        theirs = theirs.model_copy(update={"last_updated_ms": ours.last_updated_ms})
        assert ours == theirs
    assert [snapshot.snapshot_id for snapshot in ours.snapshots] == [1, 2, 3]
    assert ours.refs["old"].snapshot_id == 1


def test_what_is_kept_in_memory_is_what_stands_on_disk(tmp_path: Path) -> None:
    """The catalog that committed and one that reads afresh see the same metadata."""
    catalog = FileSystemCatalog("test", str(tmp_path))
    table = catalog.create_table("t", Schema(NestedField(1, "a", StringType(), required=False)))
    for number in (1, 2, 3):
        catalog.commit_table(table, (), added(catalog.load_table("t").metadata, number))
    kept = catalog.load_table("t")
    assert kept.metadata == StaticTable.from_metadata(kept.metadata_location).metadata


def test_a_clock_that_is_behind_keeps_the_order_of_the_logs(tmp_path: Path) -> None:
    """A commit without a snapshot, after one of a machine whose clock is ahead: Java reads the table all the same."""
    catalog = FileSystemCatalog("test", str(tmp_path))
    table = catalog.create_table("t", Schema(NestedField(1, "a", StringType(), required=False)))
    hour = 3_600_000
    ahead = table.metadata.model_copy(update={"last_updated_ms": table.metadata.last_updated_ms + hour})
    catalog.commit_table(table, (), added(ahead, 1))
    written = catalog.load_table("t").metadata
    response = catalog.commit_table(table, (), (SetPropertiesUpdate(updates={"a": "b"}),))
    assert response.metadata.last_updated_ms == written.last_updated_ms == written.snapshot_log[-1].timestamp_ms
    assert response.metadata.last_updated_ms >= response.metadata.metadata_log[-1].timestamp_ms


def test_an_empty_table_says_that_it_has_no_snapshot(tmp_path: Path) -> None:
    """In the word that Drill's Iceberg insists on; readers that know better read it as none."""
    catalog = FileSystemCatalog("test", str(tmp_path))
    table = catalog.create_table("t", Schema(NestedField(1, "a", StringType(), required=False)))
    assert json.loads(Path(table.metadata_location).read_text())["current-snapshot-id"] == -1
    assert StaticTable.from_metadata(table.metadata_location).current_snapshot() is None


def test_what_other_threads_read_is_not_copied(metastore: Metastore, unit: Callable[..., TableMetadataUnit]) -> None:
    """Schemas and specs keep what they are asked beside them: a copy made at that moment would fail the commit."""
    for number in range(3):
        metastore.tables.modify().overwrite([unit(owner=str(number))]).execute()
    before = metastore.tables.table.load()
    assert before is not None
    metastore.tables.expiration.expire()
    after = metastore.tables.table.load()
    assert after is not None
    assert len(after.metadata.snapshots) < len(before.metadata.snapshots)
    assert all(one is other for one, other in zip(before.metadata.schemas, after.metadata.schemas, strict=True))
    specs = zip(before.metadata.partition_specs, after.metadata.partition_specs, strict=True)
    assert all(one is other for one, other in specs)
