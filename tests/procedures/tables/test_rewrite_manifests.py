"""rewrite_manifests: entries stay what they are, and stand together by partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import ManifestContent, ManifestEntry
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import SetSnapshotRefUpdate
from support.catalog_lake import Lake
from support.snapshots import current, ints, summary_of

from metastore.errors import InvalidRequestError, ProcedureError
from metastore.model.table_unit import TableMetadataUnit
from metastore.procedures.expire.expire import expire_snapshots
from metastore.procedures.imports.add_files import add_files
from metastore.procedures.tables.rewrite_manifests import rewrite_manifests

CITIES = ("a", "b", "c")


@pytest.fixture
def written(lake: Lake, rows: Callable[..., pa.Table]) -> Table:
    """Six appends, each with a file in each of three partitions, and so six manifests of which none can be skipped."""
    table: Table = lake.table()
    with table.update_spec() as spec:
        spec.add_identity("city")
    for each in range(6):
        batch = rows(*range(each * 3, each * 3 + 3))
        table.append(batch.set_column(1, "city", [list(CITIES)]))
    return table.refresh()


def head(table: Table) -> Snapshot:
    """The table's current snapshot, which it must have."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot


def ids(table: Table) -> list[int]:
    """The ids in the table, as PyIceberg reads it."""
    found: list[Any] = table.scan().to_arrow()["id"].to_pylist()
    return sorted(found)


def entries(table: Table) -> dict[str, tuple[Any, ...]]:
    """What each live entry says of its file, by path: sequence numbers, the snapshot it came with, its partition."""
    found: dict[str, ManifestEntry] = {}
    for manifest in head(table).manifests(table.io):
        found |= {entry.data_file.file_path: entry for entry in manifest.fetch_manifest_entry(table.io)}
    return {
        path: (
            e.sequence_number,
            e.file_sequence_number,
            e.snapshot_id,
            e.data_file.partition,
            e.data_file.record_count,
        )
        for path, e in found.items()
    }


def test_dry_run_tells_what_a_run_does_and_lists_the_manifests(lake: Lake, written: Table) -> None:
    """The same counts; which manifests are replaced, with their bytes; no file and no version is made."""
    before = lake.files()
    [dry] = lake.call(rewrite_manifests, dry_run=True)
    assert lake.files() == before
    assert lake.table().metadata_location == written.metadata_location
    listed = {file["location"]: file["bytes"] for file in dry["files"]}
    assert listed == {m.manifest_path: m.manifest_length for m in head(written).manifests(written.io)}
    [done] = lake.call(rewrite_manifests)
    assert {**dry, "message": "", "files": None} == done
    assert lake.call(rewrite_manifests, dry_run=True) == lake.call(rewrite_manifests)


def test_entries_are_kept(lake: Lake, written: Table) -> None:
    """One manifest holds what six held, every entry with its numbers, in a snapshot of operation replace."""
    before = entries(written)
    expected = ids(written)
    [row] = lake.call(rewrite_manifests)
    assert row == {
        "rewritten_manifests_count": 6,
        "added_manifests_count": 1,
        "kept_manifests_count": 0,
        "processed_entries_count": 18,
        "message": "",
        "files": None,
    }
    table = lake.table()
    assert entries(table) == before
    snapshot, summary = current(table), summary_of(table)
    assert summary.operation.value == "replace"
    assert summary["total-data-files"] == "18"
    assert snapshot.parent_snapshot_id == head(written).snapshot_id
    assert ids(table) == expected


def test_clustered_and_bounded(lake: Lake, written: Table) -> None:
    """Small targets make several manifests, each of which holds one partition's files."""
    written.transaction().set_properties({"commit.manifest.target-size-bytes": "1200"}).commit_transaction()
    [row] = lake.call(rewrite_manifests)
    manifests = current(lake.table()).manifests(written.io)
    assert row["added_manifests_count"] == len(manifests) > 2
    ranges = [(m.partitions[0].lower_bound, m.partitions[0].upper_bound) for m in manifests if m.partitions]
    assert ranges == sorted(ranges)
    assert sum(low != high for low, high in ranges) <= 2


def test_a_second_run_changes_nothing(lake: Lake, written: Table) -> None:
    """What was clustered stays, and the run says so; no snapshot is made."""
    written.transaction().set_properties({"commit.manifest.target-size-bytes": "1200"}).commit_transaction()
    lake.call(rewrite_manifests)
    location = lake.table().metadata_location
    [row] = lake.call(rewrite_manifests)
    assert row["message"] == "nothing was rewritten: the manifests are clustered already"
    assert row["rewritten_manifests_count"] == 0
    assert lake.table().metadata_location == location


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("adds", [1, 2, 3])
def test_a_file_that_is_in_the_table_several_times_stays_so(
    lake: Lake, rows: Callable[..., pa.Table], version: str, adds: int
) -> None:
    """Entries are kept as often as they stand, in one manifest or in several."""
    path = f"{lake.folder}/a.parquet"
    pq.write_table(rows(1, 2), path)
    table = lake.table(properties={"format-version": version})
    for _ in range(adds):
        lake.call(add_files, files=[path, path], duplicate_file="allow")
    before = ids(table.refresh())
    assert before == [1] * 2 * adds + [2] * 2 * adds
    [row] = lake.call(rewrite_manifests)
    assert (row["rewritten_manifests_count"], row["added_manifests_count"]) == ((0, 0) if adds == 1 else (adds, 1))
    assert ids(table.refresh()) == before
    assert len(head(table).manifests(table.io)) == 1
    [row] = lake.call(rewrite_manifests)
    assert row["rewritten_manifests_count"] == 0


def test_equal_manifests_are_both_kept(lake: Lake, rows: Callable[..., pa.Table]) -> None:
    """Where a manifest holds one entry at most, those of one file are as they should be."""
    path = f"{lake.folder}/a.parquet"
    pq.write_table(rows(1), path)
    table = lake.table(properties={"format-version": "1", "commit.manifest.target-size-bytes": "1"})
    for _ in range(2):
        lake.call(add_files, files=[path], duplicate_file="allow")
    [row] = lake.call(rewrite_manifests)
    assert (row["rewritten_manifests_count"], row["kept_manifests_count"]) == (0, 2)
    assert ids(table.refresh()) == [1, 1]


def test_good_manifests_are_kept(lake: Lake, written: Table, rows: Callable[..., pa.Table]) -> None:
    """After an append only what the new entries move is written anew."""
    written.transaction().set_properties({"commit.manifest.target-size-bytes": "1"}).commit_transaction()
    lake.call(rewrite_manifests)
    lake.table().append(rows(99).set_column(1, "city", [["z"]]))
    [row] = lake.call(rewrite_manifests)
    assert row["message"] == "nothing was rewritten: the manifests are clustered already"
    assert row["kept_manifests_count"] == 19


def test_sort_by(lake: Lake, rows: Callable[..., pa.Table]) -> None:
    """Fields that are named come first in the order of entries."""
    table = lake.table()
    with table.update_spec() as spec:
        spec.add_identity("city")
        spec.add_identity("id")
    for each in range(4):
        table.append(rows(each).set_column(1, "city", [[f"city {9 - each}"]]))
    table.transaction().set_properties({"commit.manifest.target-size-bytes": "1"}).commit_transaction()
    lake.call(rewrite_manifests, sort_by=["id"])
    table.transaction().set_properties({"commit.manifest.target-size-bytes": "100000"}).commit_transaction()
    lake.call(rewrite_manifests, sort_by=["id"])
    [manifest] = current(lake.table()).manifests(table.io)
    found = [entry.data_file.partition[1] for entry in manifest.fetch_manifest_entry(table.io)]
    assert found == sorted(found)


def test_delete_manifests_are_carried_over(
    lake: Lake, rows: Callable[..., pa.Table], delete_positions: Callable[[Table, str, list[int]], Table]
) -> None:
    """Deletes apply as before: their manifests stay, and data keeps the sequence numbers that they go by."""
    table = lake.table()
    for each in (1, 2, 3):
        table.append(rows(each, each + 10))
    [path, *_] = [task.file.file_path for task in table.scan().plan_files()]
    delete_positions(table, path, [0])
    before = ints(table.scan().to_arrow()["id"])
    assert len(before) == 5
    [row] = lake.call(rewrite_manifests)
    assert (row["rewritten_manifests_count"], row["kept_manifests_count"]) == (3, 1)
    manifests = current(lake.table()).manifests(table.io)
    assert [m.content for m in manifests] == [ManifestContent.DATA, ManifestContent.DELETES]
    assert ints(lake.table().scan().to_arrow()["id"]) == before


def test_other_specs_stay(lake: Lake, written: Table, rows: Callable[..., pa.Table]) -> None:
    """Manifests of one spec are put together; a spec that there is not is refused."""
    with written.update_spec() as spec:
        spec.remove_field("city")
    for each in (100, 101):
        written.append(rows(each))
    [row] = lake.call(rewrite_manifests)
    assert (row["rewritten_manifests_count"], row["kept_manifests_count"]) == (2, 6)
    [row] = lake.call(rewrite_manifests, spec_id=1)
    assert (row["rewritten_manifests_count"], row["kept_manifests_count"]) == (6, 1)
    with pytest.raises(InvalidRequestError, match="Given spec id does not exist: 9"):
        lake.call(rewrite_manifests, spec_id=9)
    assert len(entries(lake.table())) == 20


def test_refusals(lake: Lake, written: Table, unit: Callable[..., TableMetadataUnit]) -> None:
    """An empty or wrong sort_by, and the metastore's own tables."""
    with pytest.raises(InvalidRequestError, match="sort_by must not be empty when provided"):
        lake.call(rewrite_manifests, sort_by=[])
    with pytest.raises(InvalidRequestError, match=f"no field nope; it has {written.spec().fields[0].name}"):
        lake.call(rewrite_manifests, sort_by=["nope"])
    lake.metastore.tables.modify().overwrite([unit("one")]).execute()
    with pytest.raises(ProcedureError, match="every commit keeps its manifests clustered"):
        lake.call(rewrite_manifests, catalog="metastore", schema="components", table="tables")


def test_an_empty_table(lake: Lake) -> None:
    """A table without a snapshot has nothing to rewrite, and that is no error."""
    lake.table()
    [row] = lake.call(rewrite_manifests)
    assert row["message"] == "nothing was rewritten: the table has no snapshot"


def test_the_branchs_retention_is_kept(lake: Lake, written: Table) -> None:
    """What the main branch says of its retention it says after the rewrite, too."""
    ref = SetSnapshotRefUpdate(
        ref_name="main",
        type=SnapshotRefType.BRANCH,
        snapshot_id=head(written).snapshot_id,
        min_snapshots_to_keep=7,
    )
    lake.catalog.commit_table(written, (), (ref,))
    lake.call(rewrite_manifests)
    assert lake.table().metadata.refs["main"].min_snapshots_to_keep == 7


@pytest.mark.parametrize("version", ["1", "2"])
def test_expire_after_a_rewrite(lake: Lake, rows: Callable[..., pa.Table], version: str) -> None:
    """Old manifests go when the snapshots before the rewrite expire, data stays, in both format versions."""
    table = lake.table(properties={"format-version": version})
    for each in (1, 2, 3):
        table.append(rows(each))
    lake.call(rewrite_manifests)
    [row] = lake.call(expire_snapshots, older_than=lake.now.replace(year=lake.now.year + 1))
    assert (row["deleted_data_files_count"], row["deleted_manifest_files_count"]) == (0, 3)
    assert ints(lake.table().scan().to_arrow()["id"]) == [1, 2, 3]
