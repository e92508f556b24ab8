"""Picked changes: made on top of the current snapshot, and readable by others; never twice, never over others'."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId
from support import delete_files
from support.procedures_site import Site
from support.snapshots import current, summary_of, there
from support.snapshots import current as head_of

from metastore.errors import ProcedureError
from metastore.lake.iceberg.manifests.manifest_writer import write_manifest_file
from metastore.lake.iceberg.manifests.manifests import added_entry, deleted_entry, existing, write_list
from metastore.lake.stores.new_files import NewFiles
from metastore.model.vocabulary import MetadataType
from metastore.procedures.framework.model import CallContext
from metastore.session import Session


def stage(site: Site, *ids: int, **summary: str) -> int:
    """Append beside the history, as a writer does who has yet to be audited; the id of the snapshot."""
    return int(site.append(*ids, branch=None, snapshot_properties=summary))


def files(site: Site) -> set[str]:
    """Every file below the table's folder."""
    root = Path(site.table.metadata.location.removeprefix("file://"))
    return {str(path) for path in root.rglob("*") if path.is_file()}


def rows_by_duckdb(site: Site) -> list[tuple[int, str]]:
    """The rows of the newest version, as DuckDB reads the data files that the manifests say are live."""
    paths = [task.file.file_path.removeprefix("file://") for task in site.table.scan().plan_files()]
    with duckdb.connect() as connection:
        found: list[tuple[int, str]] = connection.execute(
            f"SELECT id, city FROM read_parquet({paths}) ORDER BY id"
        ).fetchall()
    return found


def test_a_staged_append(site: Site) -> None:
    """Its rows come on top of what others wrote meanwhile; the new snapshot says where they are from."""
    site.append(1)
    staged = stage(site, 2)
    third = site.append(3)
    assert site.ids() == [1, 3]
    [row] = site.call("cherrypick_snapshot", snapshot_id=staged)
    assert site.ids() == [1, 2, 3]
    assert rows_by_duckdb(site) == [(1, "c1"), (2, "c2"), (3, "c0")]
    current, summary = head_of(site.table), summary_of(site.table)
    assert row == {"source_snapshot_id": staged, "current_snapshot_id": current.snapshot_id}
    assert current.parent_snapshot_id == third
    assert summary.operation == Operation.APPEND
    assert summary["source-snapshot-id"] == str(staged)
    assert (summary["added-records"], summary["total-records"]) == ("1", "3")
    assert (summary["added-data-files"], summary["total-data-files"]) == ("1", "3")


def test_writers_go_on_after_a_pick(site: Site) -> None:
    """PyIceberg deletes from and appends to what was committed here."""
    site.append(1)
    staged = stage(site, 2)
    site.append(3)
    site.call("cherrypick_snapshot", snapshot_id=staged)
    site.table.delete("id = 2")
    site.append(4)
    assert site.ids() == [1, 3, 4]


def test_no_data_file_is_written(site: Site) -> None:
    """The picked snapshot's file is the one that the new manifest names."""
    site.append(1)
    staged = stage(site, 2)
    site.append(3)
    before = {path for path in files(site) if path.endswith(".parquet")}
    site.call("cherrypick_snapshot", snapshot_id=staged)
    assert {path for path in files(site) if path.endswith(".parquet")} == before


def test_one_that_follows_the_current_snapshot_is_just_moved_to(site: Site) -> None:
    """Then whatever it did, it is picked by moving ``main``; also onto an empty table."""
    first = stage(site, 1)
    assert site.call("cherrypick_snapshot", snapshot_id=first) == [
        {"source_snapshot_id": first, "current_snapshot_id": first}
    ]
    site.call("create_branch", branch="b")
    site.append(2, branch="b")
    site.table.delete("id = 1", branch="b")
    head = site.table.metadata.refs["b"].snapshot_id
    parent = there(site.table.metadata.snapshot_by_id(head)).parent_snapshot_id
    for picked in (parent, head):
        site.call("cherrypick_snapshot", snapshot_id=picked)
    assert site.ids() == [2]
    assert head_of(site.table).snapshot_id == head


def test_a_rollback_is_taken_back_by_picking(site: Site) -> None:
    """An append that was rolled back, with others' work since, comes back without undoing theirs."""
    first, second = site.append(1), site.append(2)
    site.call("rollback_to_snapshot", snapshot_id=first)
    site.append(3)
    site.call("cherrypick_snapshot", snapshot_id=second)
    assert site.ids() == [1, 2, 3]


def test_published_by_wap_id(site: Site) -> None:
    """Staged under an id, published by it once."""
    site.append(1)
    staged = stage(site, 2, **{"wap.id": "audit-7"})
    site.append(3)
    [row] = site.call("publish_changes", wap_id="audit-7")
    assert row["source_snapshot_id"] == staged
    assert site.ids() == [1, 2, 3]
    assert summary_of(site.table)["published-wap-id"] == "audit-7"
    with pytest.raises(ProcedureError, match=f"Cannot cherrypick snapshot {staged}: already picked to create ancestor"):
        site.call("publish_changes", wap_id="audit-7")
    assert site.ids() == [1, 2, 3]


def test_refused_wap_ids(site: Site) -> None:
    """One that nobody staged, and one that two did."""
    site.append(1)
    stage(site, 2, **{"wap.id": "twice"})
    stage(site, 3, **{"wap.id": "twice"})
    with pytest.raises(ProcedureError, match="Cannot apply unknown WAP ID 'never'"):
        site.call("publish_changes", wap_id="never")
    with pytest.raises(ProcedureError, match="Cannot apply non-unique WAP ID. Found multiple snapshots"):
        site.call("publish_changes", wap_id="twice")


def test_one_wap_id_is_published_once(site: Site) -> None:
    """Also when the second snapshot of that id is picked by its own number."""
    site.append(1)
    first = stage(site, 2, **{"wap.id": "same"})
    second = stage(site, 3, **{"wap.id": "same"})
    site.append(4)
    site.call("cherrypick_snapshot", snapshot_id=first)
    with pytest.raises(
        ProcedureError, match="Duplicate request to cherry pick wap id that was published already: same"
    ):
        site.call("cherrypick_snapshot", snapshot_id=second)
    assert site.ids() == [1, 2, 4]


def test_a_picked_one_is_not_picked_beside_its_source(site: Site) -> None:
    """Its file is there already: picking the pick would put it into the table twice."""
    site.append(1)
    site.call("create_branch", branch="b")
    source = site.append(2, branch="b")
    site.append(3)
    [row] = site.call("cherrypick_snapshot", snapshot_id=source)
    site.call("set_current_snapshot", ref="b")
    site.append(4)
    with pytest.raises(ProcedureError, match=f"already picked to create ancestor {source}"):
        site.call("cherrypick_snapshot", snapshot_id=row["current_snapshot_id"])
    assert site.ids() == [1, 2, 4]


def test_what_cannot_be_picked(site: Site) -> None:
    """An unknown one, an ancestor, one picked before, and a delete that does not follow the current snapshot."""
    first = site.append(1, 2)
    site.table.delete("id = 2")
    removal = head_of(site.table).snapshot_id
    site.call("rollback_to_snapshot", snapshot_id=first)
    staged = stage(site, 3)
    site.append(4)
    site.call("cherrypick_snapshot", snapshot_id=staged)
    version, before = site.table.metadata_location, files(site)
    for snapshot_id, said in {
        1: "Cannot cherry-pick unknown snapshot ID: 1",
        first: f"Cannot cherrypick snapshot {first}: already an ancestor",
        staged: f"Cannot cherrypick snapshot {staged}: already picked to create ancestor",
        removal: f"Cannot cherry-pick snapshot {removal}: not append, dynamic overwrite, or fast-forward",
    }.items():
        with pytest.raises(ProcedureError, match=said):
            site.call("cherrypick_snapshot", snapshot_id=snapshot_id)
    assert site.table.metadata_location == version
    assert files(site) == before


def test_a_pick_that_others_overtake(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written anew on their snapshot, and what the lost attempt had written is gone."""
    site.append(1)
    staged = stage(site, 2)
    site.append(3)
    target = site.session.catalogs.table(site.catalog, "db", "t")
    commits: list[set[str]] = []

    class Overtaken:
        """A table to which somebody else appends just before the first commit."""

        is_component = False

        def load(self) -> Any:
            return target.load()

        def commit(self, *arguments: Any) -> Any:
            commits.append({update.snapshot.manifest_list for update in arguments[2][:1]})
            if len(commits) == 1:
                site.append(4)
            return target.commit(*arguments)

    monkeypatch.setattr(CallContext, "table", lambda *_: Overtaken())
    site.call("cherrypick_snapshot", snapshot_id=staged)
    assert site.ids() == [1, 2, 3, 4]
    lost, won = commits
    assert not lost & files(site)
    assert won <= files(site)


def expire_all_but(site: Site, snapshot_id: int) -> None:
    """Expire what no branch stands at; ``snapshot_id`` is kept by a tag."""
    site.call("create_tag", tag="kept", snapshot_id=snapshot_id)
    later = datetime.now(timezone.utc) + timedelta(days=1)
    site.call("expire_snapshots", older_than=later, retain_last=1)
    kept = {snapshot_id, head_of(site.table).snapshot_id}
    assert {each.snapshot_id for each in site.table.metadata.snapshots} == kept


def test_a_pick_that_has_expired_is_not_made_twice(site: Site) -> None:
    """The files of the snapshot are in the table, though no snapshot of its history says that they were picked."""
    site.append(1)
    staged = stage(site, 2)
    site.append(3)
    site.call("cherrypick_snapshot", snapshot_id=staged)
    site.append(4)
    expire_all_but(site, staged)
    with pytest.raises(ProcedureError, match="its changes are in the table already"):
        site.call("cherrypick_snapshot", snapshot_id=staged)
    assert site.ids() == [1, 2, 3, 4]


@pytest.mark.parametrize("version", ["1", "2"])
def test_an_ancestor_beyond_a_gap_is_not_picked(session: Session, parted: Site, version: str) -> None:
    """A tag keeps a snapshot of the history, and those between it and the current one have expired."""
    catalog = session.catalogs.open("lake")
    schema = parted.table.schema()
    catalog.drop_table(("db", "t"))
    catalog.create_table(("db", "t"), schema, properties={"format-version": version})
    first = parted.append(1)
    parted.append(2)
    parted.append(3)
    expire_all_but(parted, first)
    with pytest.raises(ProcedureError, match="its changes are in the table already"):
        parted.call("cherrypick_snapshot", snapshot_id=first)
    assert parted.ids() == [1, 2, 3]


class _Overwrite:
    """A dynamic overwrite beside the history, as Spark stages one: the partitions of new rows have these rows only."""

    def __init__(self, site: Site, rows: pa.Table) -> None:
        self.site = site
        before = {each.snapshot_id for each in site.table.metadata.snapshots}
        site.table.append(rows, branch=None)
        fresh = site.table
        [helper] = {each.snapshot_id for each in fresh.metadata.snapshots} - before
        new = [
            entry.data_file
            for manifest in there(fresh.snapshot_by_id(helper)).manifests(fresh.io)
            for entry in manifest.fetch_manifest_entry(fresh.io)
            if entry.snapshot_id == helper
        ]
        self.snapshot_id = self._commit(fresh, new)

    def _commit(self, table: Any, new: Sequence[Any]) -> int:
        parent, metadata = table.current_snapshot(), table.metadata
        snapshot_id = metadata.new_snapshot_id()
        partitions = {file.partition for file in new}
        entries = [added_entry(file, snapshot_id) for file in new]
        for manifest in parent.manifests(table.io):
            for entry in manifest.fetch_manifest_entry(table.io):
                replaced = entry.data_file.partition in partitions
                entries.append(deleted_entry(entry, snapshot_id) if replaced else existing(entry))
        folder = f"{metadata.location}/metadata"
        manifest = write_manifest_file(
            NewFiles(table.io),
            f"{folder}/{snapshot_id}-m0.avro",
            2,
            table.spec(),
            table.schema(),
            snapshot_id,
            entries,
        )
        summary = Summary(Operation.OVERWRITE, **{"replace-partitions": "true"})
        snapshot = Snapshot(
            snapshot_id=snapshot_id,
            parent_snapshot_id=parent.snapshot_id,
            sequence_number=metadata.next_sequence_number(),
            timestamp_ms=metadata.last_updated_ms + 1,
            manifest_list=f"{folder}/snap-{snapshot_id}.avro",
            summary=summary,
            schema_id=metadata.current_schema_id,
        )
        write_list(NewFiles(table.io), snapshot, 2, [manifest])
        requirement = AssertRefSnapshotId(ref="main", snapshot_id=parent.snapshot_id)
        table.catalog.commit_table(table, (requirement,), (AddSnapshotUpdate(snapshot=snapshot),))
        return int(snapshot_id)


def test_a_dynamic_overwrite(parted: Site, rows_of: Callable[..., pa.Table]) -> None:
    """Its partitions get its rows only; what others wrote into other partitions stays."""
    picked = _Overwrite(parted, rows_of(4, 7)).snapshot_id
    parted.append(5)
    assert parted.ids() == [1, 2, 3, 5]
    parted.call("cherrypick_snapshot", snapshot_id=picked)
    assert parted.ids() == [2, 3, 4, 5, 7]
    assert [each for each, _ in rows_by_duckdb(parted)] == [2, 3, 4, 5, 7]
    current, summary = head_of(parted.table), summary_of(parted.table)
    assert (summary.operation, summary["total-records"]) == (Operation.OVERWRITE, "5")
    removed = [
        entry.data_file.record_count
        for manifest in current.manifests(parted.table.io)
        for entry in manifest.fetch_manifest_entry(parted.table.io, discard_deleted=False)
        if entry.status == ManifestEntryStatus.DELETED and entry.snapshot_id == current.snapshot_id
    ]
    assert removed == [1]
    parted.table.delete("city = 'c1'")
    assert parted.ids() == [2, 3, 5]


@pytest.mark.parametrize(
    ("others", "said"),
    {
        "appended": (lambda site, _: site.append(10), "Cannot cherry-pick replace-partitions with changed partition"),
        "deleted": (lambda site, _: site.table.delete("city = 'c1'"), "Missing required files to delete: "),
        "went elsewhere": (
            lambda site, first: (site.call("set_current_snapshot", snapshot_id=first), site.append(5)),
            "Cannot cherry-pick overwrite not based on an ancestor of the current state: ",
        ),
    }.values(),
)
def test_an_overwrite_is_not_picked_over_others(
    parted: Site, rows_of: Callable[..., pa.Table], others: Callable[[Any, int], object], said: str
) -> None:
    """Somebody wrote to its partition, removed what it replaced, or the history it was based on is no longer there."""
    first = current(parted.table).snapshot_id
    parted.append(8)
    picked = _Overwrite(parted, rows_of(4, 7)).snapshot_id
    parted.append(5)
    others(parted, first)
    before, kept = parted.ids(), files(parted)
    with pytest.raises(ProcedureError, match=said):
        parted.call("cherrypick_snapshot", snapshot_id=picked)
    assert parted.ids() == before
    assert files(parted) == kept


def test_an_overwrite_is_not_picked_over_deletes(parted: Site, rows_of: Callable[..., pa.Table]) -> None:
    """Rows of its partition that a delete file has taken away meanwhile are a change of the partition."""
    picked = _Overwrite(parted, rows_of(4, 7)).snapshot_id
    [file] = [task.file for task in parted.table.scan("city = 'c1'").plan_files()]
    delete_files.delete_positions(parted.table, {file.file_path: [0]}, file.partition)
    with pytest.raises(ProcedureError, match="Cannot cherry-pick replace-partitions with changed partition"):
        parted.call("cherrypick_snapshot", snapshot_id=picked)
    assert parted.ids() == [2, 3]


@pytest.mark.parametrize("others", [5, 10])
def test_an_overwrite_whose_base_has_expired(parted: Site, rows_of: Callable[..., pa.Table], others: int) -> None:
    """What its partition holds tells whether it is as it was, where the history does not."""
    picked = _Overwrite(parted, rows_of(4, 7)).snapshot_id
    parted.append(others)
    parted.append(8)
    expire_all_but(parted, picked)
    if others == 5:
        parted.call("cherrypick_snapshot", snapshot_id=picked)
        assert parted.ids() == [2, 3, 4, 5, 7, 8]
        return
    with pytest.raises(ProcedureError, match="Cannot cherry-pick replace-partitions with changed partition"):
        parted.call("cherrypick_snapshot", snapshot_id=picked)
    assert parted.ids() == [1, 2, 3, 8, 10]


def test_a_modification_of_a_component(session: Session, unit: Callable[..., Any]) -> None:
    """What was rolled back comes back over later work on other tables, and is refused over work on the same one."""
    modify = session.tables.modify
    first = modify().overwrite([unit("nation")]).execute()
    second = modify().overwrite([unit("nation", owner="new")]).execute()
    call = "metastore.system.{}"
    where: dict[str, Any] = {"schema": "components", "table_name": "tables"}
    session.call(call.format("rollback_to_snapshot"), **where, snapshot_id=first)
    modify().overwrite([unit("region")]).execute()
    session.call(call.format("cherrypick_snapshot"), **where, snapshot_id=second)
    found = {each.table_name: each.owner for each in session.tables.read().metadata_types(MetadataType.ALL).execute()}
    assert found == {"nation": "new", "region": None}
    session.call(call.format("rollback_to_snapshot"), **where, snapshot_id=first)
    modify().overwrite([unit("nation", owner="other")]).execute()
    with pytest.raises(ProcedureError, match="changed partition|Missing required files"):
        session.call(call.format("cherrypick_snapshot"), **where, snapshot_id=second)
