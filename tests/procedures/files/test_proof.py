"""What procedures on one table may delete: nothing that anything else known to the configuration needs."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table import Table
from pyiceberg.table.statistics import StatisticsFile
from support.catalog_lake import Lake

from metastore.components.catalogs import Catalogs
from metastore.components.metastore import Metastore
from metastore.config.plugins import StoragePluginSettings, WorkspaceSettings
from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.errors import ProcedureError
from metastore.lake.iceberg.snapshots.sweep import FileKind, TableFile
from metastore.lake.stores.spelling import Spelling
from metastore.model.table_unit import TableMetadataUnit
from metastore.procedures.expire.expire import expire_snapshots
from metastore.procedures.files.candidates import Candidates
from metastore.procedures.files.proof import Proof, reached_in
from metastore.procedures.files.quarantine import UNSWEPT, FileToDelete, quarantine
from metastore.procedures.orphans.old_metadata import remove_old_metadata
from metastore.procedures.orphans.remove_orphans import remove_orphan_files
from metastore.procedures.tables.drop_stats import drop_stats
from metastore.session import Session

OLD_DAYS = 10


@pytest.fixture
def written(lake: Lake, rows: Callable[..., pa.Table]) -> Callable[..., Table]:
    """Make a table with one row, its id, whose files are ten days old for the procedures."""

    def make(name: str, id_: int, **create: Any) -> Table:
        table: Table = lake.table(name, **create)
        table.append(rows(id_))
        lake.later(days=OLD_DAYS)
        return table.refresh()

    return make


def ids(table: Table) -> list[int]:
    """The ids in the table, as PyIceberg reads it."""
    found: list[Any] = table.refresh().scan().to_arrow()["id"].to_pylist()
    return sorted(found)


def root(table: Table) -> Path:
    """The table's folder on the disk."""
    return Path(table.metadata.location.removeprefix("file://"))


def stray(folder: Path, name: str = "stray.parquet") -> Path:
    """A data file in ``folder`` that no table reaches yet, with the row 7."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    pq.write_table(pa.table({"id": pa.array([7], pa.int64()), "city": ["x"]}), path)
    return path


def removed(found: list[dict[str, Any]]) -> set[str]:
    """Locations that the procedure says it deleted."""
    return {row["orphan_file_location"] for row in found if row["deleted"]}


def reasons(found: list[dict[str, Any]]) -> set[str]:
    """Why files were kept."""
    return {row["error"] for row in found if row["error"]}


def with_catalog(lake: Lake, name: str, **properties: str) -> None:
    """Configure one more catalog beside the lake."""
    catalogs = {
        "lake": {"type": "sql", "uri": f"sqlite:///{lake.folder}/lake.db", "warehouse": f"file://{lake.folder}/lake"},
        name: properties,
    }
    location = {"base_path": str(lake.folder), "relative_path": "metastore"}
    given = {"drill.metastore.iceberg.location": location, "drill.metastore.catalogs": catalogs}
    settings = Settings.from_mapping(given, environ={})
    lake.catalogs = Catalogs(Metastore.open(settings))
    lake.context = replace(lake.context, catalogs=lake.catalogs, settings=settings)


# -- tables of the same catalog


@pytest.mark.parametrize("place", ["inside", "around", "beside"])
def test_a_file_that_another_table_took_in_stays(
    lake: Lake, written: Callable[..., Table], tmp_path: Path, place: str
) -> None:
    """Wherever the table lies that took a file of this one's folder in by add_files, the file stays."""
    own = written("own", 1, location=f"file://{tmp_path}/o/dfs")
    other_place = {"inside": "o/dfs/deep", "around": "o", "beside": "p"}[place]
    other = written("other", 2, location=f"file://{tmp_path}/{other_place}")
    taken, orphan = stray(root(own) / "data", "taken.parquet"), stray(root(own) / "data", "orphan.parquet")
    other.add_files([f"file://{taken}"])
    assert removed(lake.call(remove_orphan_files, table="own")) == {str(orphan)}
    assert ids(other) == [2, 7]


def test_a_file_taken_in_through_a_link_stays(lake: Lake, written: Callable[..., Table], tmp_path: Path) -> None:
    """A table that names a link to the file needs the file."""
    own, other = written("own", 1), written("other", 2)
    taken = stray(root(own), "taken.parquet")
    (tmp_path / "link.parquet").symlink_to(taken)
    other.add_files([f"file://{tmp_path}/link.parquet"])
    assert removed(lake.call(remove_orphan_files, table="own")) == set()
    assert ids(other) == [2, 7]


@pytest.mark.parametrize("procedure", ["orphans", "expire"])
def test_a_file_that_the_table_itself_names_through_a_link_stays(
    lake: Lake, written: Callable[..., Table], rows: Callable[..., pa.Table], tmp_path: Path, procedure: str
) -> None:
    """What a link leads to is needed as much as the link, also if only an expired snapshot named it directly."""
    own = written("own", 1)
    taken = stray(root(own) / "data", "taken.parquet")
    link = tmp_path / "link.parquet"
    link.symlink_to(taken)
    if procedure == "expire":
        own.add_files([f"file://{taken}"])
        own.overwrite(rows(2))
    own.add_files([f"file://{link}"])
    before = ids(own)
    lake.later(days=OLD_DAYS)
    if procedure == "orphans":
        lake.call(remove_orphan_files, table="own")
    else:
        lake.call(expire_snapshots, table="own", older_than=lake.now + timedelta(days=1))
    assert ids(own) == before


@pytest.mark.parametrize("moved", ["folder", "folder above", "file"])
def test_a_link_that_came_after_an_earlier_run_is_followed(
    lake: Lake, written: Callable[..., Table], tmp_path: Path, moved: str
) -> None:
    """Files that another table names were moved, and a link leads there: what an earlier run read is asked anew."""
    own, other = written("own", 1), written("other", 2)
    taken = stray(tmp_path / "theirs/day")
    other.add_files([f"file://{taken}"])
    gone = stray(root(own) / "data", "gone.parquet")
    assert removed(lake.call(remove_orphan_files, table="own")) == {str(gone)}
    before = {"folder": taken.parent, "folder above": taken.parent.parent, "file": taken}[moved]
    after = root(own) / "data" / before.name
    before.rename(after)
    before.symlink_to(after)
    lake.later(days=OLD_DAYS)
    assert removed(lake.call(remove_orphan_files, table="own")) == set()
    assert ids(other) == [2, 7]


def test_a_table_created_in_the_folder_of_a_renamed_one(lake: Lake, written: Callable[..., Table]) -> None:
    """A renamed table keeps its folder; who gets the old name, and with it the folder, deletes nothing of it."""
    first = written("t", 1)
    lake.catalog.rename_table("default.t", "default.renamed")
    second = written("t", 2, location=first.metadata.location)
    assert lake.call(remove_orphan_files, table="t") == []
    assert lake.call(remove_orphan_files, table="renamed") == []
    assert [ids(lake.table("renamed")), ids(second)] == [[1], [2]]


def test_each_of_two_nested_tables_is_tidied(lake: Lake, written: Callable[..., Table]) -> None:
    """A table inside another has its location for itself, and the outer one the rest."""
    outer = written("outer", 1)
    inner = written("inner", 2, location=f"{outer.metadata.location}/inner")
    of_outer, of_inner = stray(root(outer) / "x"), stray(root(inner) / "x")
    assert removed(lake.call(remove_orphan_files, table="inner")) == {str(of_inner)}
    of_inner = stray(root(inner) / "x")
    assert removed(lake.call(remove_orphan_files, table="outer")) == {str(of_outer)}
    assert of_inner.exists()
    assert [ids(outer), ids(inner)] == [[1], [2]]


def test_a_folder_that_two_tables_share(lake: Lake, written: Callable[..., Table], tmp_path: Path) -> None:
    """Where the operator allows a shared folder to be listed, only what neither table reaches goes."""
    places = {"write.data.path": f"file://{tmp_path}/shared"}
    tables = [written("one", 1, properties=places), written("two", 2, properties=places)]
    orphan = stray(tmp_path / "shared")
    found = lake.call(remove_orphan_files, table="one", allowed_locations=[f"file://{tmp_path}/shared"])
    assert removed(found) == {str(orphan)}
    assert [ids(table) for table in tables] == [[1], [2]]


def test_data_of_another_inside_the_own_folder(lake: Lake, written: Callable[..., Table]) -> None:
    """A folder below the table's own that another table writes to is left to the other; the rest is tidied."""
    one = written("one", 1)
    two = written("two", 2, properties={"write.data.path": f"{one.metadata.location}/theirs"})
    path = stray(root(one) / "data")
    theirs = stray(root(one) / "theirs")
    assert removed(lake.call(remove_orphan_files, table="one")) == {str(path)}
    assert theirs.exists()
    assert ids(two) == [2]


def test_where_nothing_is_found_no_other_table_is_asked(lake: Lake, written: Callable[..., Table]) -> None:
    """A run that deletes nothing costs nothing for the size of the catalog, and needs nothing of its tables."""
    written("one", 1)
    shutil.rmtree(root(written("broken", 2)))
    assert lake.call(remove_orphan_files, table="one") == []


# -- what cannot be known


def test_a_table_without_metadata(lake: Lake, written: Callable[..., Table]) -> None:
    """Nobody knows what it needs: nothing is deleted, each row says why, and owned or dropping it is the way on."""
    one, broken = written("one", 1), written("broken", 2)
    path = stray(root(one) / "data")
    shutil.rmtree(root(broken))
    for dry_run in (True, False):
        found = lake.call(remove_orphan_files, table="one", dry_run=dry_run)
        assert [row["orphan_file_location"] for row in found] == [str(path)]
        [why] = reasons(found)
        assert "lake.default.broken" in why
        assert "is missing" in why
        assert removed(found) == set()
    assert removed(lake.call(remove_orphan_files, table="one", owned=[one.metadata.location])) == {str(path)}
    path = stray(root(one) / "data")
    lake.catalog.drop_table("default.broken")
    assert removed(lake.call(remove_orphan_files, table="one")) == {str(path)}


@pytest.mark.parametrize("kind", ["variant", "from the future"])
def test_a_table_that_cannot_be_parsed(lake: Lake, written: Callable[..., Table], kind: str) -> None:
    """Its location and snapshots are in its JSON: others are tidied, and what it took in stays."""
    one, strange = written("one", 1), written("strange", 2)
    taken, orphan = stray(root(one), "taken.parquet"), stray(root(one), "orphan.parquet")
    strange.add_files([f"file://{taken}"])
    path = lake.catalog.load_table("default.strange").metadata_location.removeprefix("file://")
    content = json.loads(Path(path).read_text())
    if kind == "variant":
        content["schemas"][-1]["fields"].append({"id": 99, "name": "v", "required": False, "type": "variant"})
    else:
        content |= {"format-version": 9, "snapshots": [{**each, "new": 1} for each in content["snapshots"]]}
    Path(path).write_text(json.dumps(content))
    assert removed(lake.call(remove_orphan_files, table="one")) == {str(orphan)}
    assert taken.exists()


def test_a_catalog_that_does_not_answer(lake: Lake, written: Callable[..., Table], tmp_path: Path) -> None:
    """While one of the catalogs cannot be asked, nothing is deleted, and each row names it."""
    one = written("one", 1)
    path = stray(root(one) / "data")
    with_catalog(lake, "gone", type="sql", uri=f"sqlite:///{tmp_path}/no/such/folder.db", warehouse="file:///x")
    found = lake.call(remove_orphan_files, table="one")
    assert removed(found) == set()
    assert all("catalog gone" in why for why in reasons(found))
    assert path.exists()
    assert removed(lake.call(remove_orphan_files, table="one", owned=[one.metadata.location])) == {str(path)}


def test_expire_leaves_files_to_the_next_run_where_it_cannot_be_known(
    lake: Lake, written: Callable[..., Table]
) -> None:
    """Snapshots go; their files stay while a table cannot be asked, and go with the next run when it can."""
    one, broken = written("one", 1), written("broken", 2)
    one.delete("id = 1")
    aside = root(broken).with_name("aside")
    root(broken).rename(aside)
    soon = lake.now + timedelta(days=1)
    [dry] = lake.call(expire_snapshots, table="one", older_than=soon, dry_run=True)
    assert "lake.default.broken" in dry["message"]
    before = lake.files("one")
    [row] = lake.call(expire_snapshots, table="one", older_than=soon)
    assert (row["expired_snapshots_count"], row["deleted_data_files_count"]) == (1, 0)
    assert "lake.default.broken" in row["message"]
    assert before < lake.files("one")
    aside.rename(root(broken))
    [row] = lake.call(expire_snapshots, table="one", older_than=soon)
    assert row["deleted_data_files_count"] == 1
    assert UNSWEPT not in one.refresh().properties


# -- other catalogs, and the metastore's own


def test_a_table_of_another_catalog(lake: Lake, written: Callable[..., Table], tmp_path: Path) -> None:
    """What a table of another configured catalog took in stays, wherever that table lies."""
    one = written("one", 1)
    taken, orphan = stray(root(one), "taken.parquet"), stray(root(one), "orphan.parquet")
    uri = f"sqlite:///{tmp_path}/side.db"
    with_catalog(lake, "side", type="sql", uri=uri, warehouse=f"file://{tmp_path}/side")
    side = lake.catalogs.open("side")
    side.create_namespace("s")
    other = side.create_table("s.other", one.schema().as_arrow())
    other.add_files([f"file://{taken}"])
    assert removed(lake.call(remove_orphan_files, table="one")) == {str(orphan)}
    assert ids(other) == [7]


def test_a_table_that_was_made_anew_under_the_names_of_the_old_one(
    lake: Lake, written: Callable[..., Table], tmp_path: Path
) -> None:
    """In a file-system catalog the new metadata files have the old names: what the old table reached proves nothing."""
    one = written("one", 1)
    with_catalog(lake, "plain", type="filesystem", warehouse=f"file://{tmp_path}/plain")
    plain = lake.catalogs.open("plain")

    def made(*files: Path) -> Table:
        table = plain.create_table("s.other", one.schema())
        table.add_files([f"file://{file}" for file in files])
        return table.refresh()

    before = made(stray(tmp_path / "elsewhere")).metadata_location
    orphan = stray(root(one))
    assert removed(lake.call(remove_orphan_files, table="one")) == {str(orphan)}
    taken = stray(root(one), "taken.parquet")
    shutil.rmtree(tmp_path / "plain")
    other = made(taken)
    assert other.metadata_location == before
    assert removed(lake.call(remove_orphan_files, table="one")) == set()
    assert ids(other) == [7]


def test_a_second_entry_that_points_to_an_earlier_version(
    lake: Lake, written: Callable[..., Table], rows: Callable[..., pa.Table], tmp_path: Path
) -> None:
    """Snapshots and metadata files that only another entry still needs stay, whichever procedure runs."""
    one = written("one", 1)
    uri = f"sqlite:///{tmp_path}/side.db"
    with_catalog(lake, "side", type="sql", uri=uri, warehouse=f"file://{tmp_path}/side")
    side = lake.catalogs.open("side")
    side.create_namespace("s")
    side.register_table("s.earlier", one.metadata_location)
    one.transaction().set_properties({"write.metadata.previous-versions-max": "1"}).commit_transaction()
    for id_ in (2, 3):
        one.overwrite(rows(id_))
    lake.later(days=OLD_DAYS)
    lake.call(expire_snapshots, table="one", older_than=lake.now)
    lake.call(remove_old_metadata, table="one", older_than=lake.now - timedelta(days=2))
    lake.call(remove_orphan_files, table="one", older_than=lake.now - timedelta(days=2))
    assert ids(side.load_table("s.earlier")) == [1]
    assert ids(one) == [3]


def session_of(lake: Lake) -> Session:
    """A session on the lake's metastore with a workspace ``dfs.w``, which is the test's folder."""
    workspace = WorkspaceSettings("w", str(lake.folder), writable=True)
    plugin = StoragePluginSettings("dfs", "file:///", workspaces={"w": workspace})
    settings = replace(lake.metastore.settings, storage={"dfs": plugin})
    session = Session(Metastore.open(settings), LocalEngine(1))
    lake.catalogs = session.catalogs
    lake.context = replace(lake.context, catalogs=session.catalogs, settings=settings)
    return session


def test_an_analyzed_directory_inside_a_table(lake: Lake, written: Callable[..., Table]) -> None:
    """Its files stay, known to ANALYZE or not, and go when its metadata is dropped."""
    one = written("one", 1)
    raw = root(one) / "raw"
    stray(raw)
    with closing(session_of(lake)) as session:
        session.analyze(f"dfs.w.{raw.relative_to(lake.folder)}")
        later = stray(raw, "later.parquet")
        assert lake.call(remove_orphan_files, table="one") == []
        assert later.exists()
        session.drop_metadata(f"dfs.w.{raw.relative_to(lake.folder)}")
        assert len(removed(lake.call(remove_orphan_files, table="one"))) == 2


def test_expire_keeps_files_of_an_analyzed_directory(lake: Lake, written: Callable[..., Table], tmp_path: Path) -> None:
    """A table took a file of a directory in and gave it up again: the directory needs it still."""
    one = written("one", 1)
    path = stray(tmp_path / "raw/sales")
    one.add_files([f"file://{path}"])
    one.delete("id = 7")
    with closing(session_of(lake)) as session:
        session.analyze("dfs.w.raw/sales")
        lake.call(expire_snapshots, table="one", older_than=lake.now + timedelta(days=1))
        assert path.exists()
        assert session.sql("SELECT id FROM dfs.w.`raw/sales`").to_pylist() == [{"id": 7}]


def test_a_workspace_inside_a_table(lake: Lake, written: Callable[..., Table]) -> None:
    """A workspace that lies below the table's location is somebody's; one that lies around it says nothing."""
    one = written("one", 1)
    inside, orphan = stray(root(one) / "landing"), stray(root(one) / "data")
    workspaces = {
        "all": WorkspaceSettings("all", "/"),
        "landing": WorkspaceSettings("landing", str(root(one) / "landing")),
    }
    plugin = StoragePluginSettings("dfs", "file:///", workspaces=workspaces)
    settings = replace(lake.metastore.settings, storage={"dfs": plugin})
    lake.catalogs = Catalogs(Metastore.open(settings))
    lake.context = replace(lake.context, catalogs=lake.catalogs)
    assert removed(lake.call(remove_orphan_files, table="one")) == {str(orphan)}
    assert inside.exists()


def test_rows_of_a_materialized_view_inside_a_table(lake: Lake, rows: Callable[..., pa.Table]) -> None:
    """A table at the location of a workspace takes no rows of a view, nor those of a refresh that is under way."""
    lake.table(location=f"file://{lake.folder}").append(rows(1))
    orphan = stray(lake.folder / "data")
    stray(lake.folder / "raw")
    with closing(session_of(lake)) as session:
        session.analyze("dfs.w.raw")
        session.sql("CREATE MATERIALIZED VIEW dfs.w.ids AS SELECT id FROM dfs.w.raw")
        session.sql("REFRESH MATERIALIZED VIEW dfs.w.ids")
        under_way = stray(lake.folder / "ids/under-way", "part-0.parquet")
        refreshed = set((lake.folder / "ids").rglob("*.parquet")) - {under_way}
        assert refreshed
        lake.later(days=OLD_DAYS)
        assert removed(lake.call(remove_orphan_files)) == {str(orphan)}
    assert all(path.exists() for path in (*refreshed, under_way))


def test_nothing_is_free_where_the_metastore_cannot_be_read(lake: Lake, written: Callable[..., Table]) -> None:
    """Any file may be one of an analyzed table or of a view; once the metastore is whole again, orphans go."""
    one = written("one", 1)
    with closing(session_of(lake)) as session:
        stray(lake.folder / "raw")
        session.analyze("dfs.w.raw")
    orphan = stray(root(one) / "data")
    lists = list((lake.folder / "metastore/tables/metadata").glob("snap-*.avro"))
    assert lists
    for path in lists:
        path.rename(path.with_suffix(".aside"))
    with closing(session_of(lake)):
        found = lake.call(remove_orphan_files, table="one")
        assert removed(found) == set()
        assert any("the metastore" in reason for reason in reasons(found))
        assert removed(lake.call(remove_orphan_files, table="one", owned=[one.metadata.location])) == set()
    assert orphan.exists()
    for path in lists:
        path.with_suffix(".aside").rename(path)
    with closing(session_of(lake)):
        assert removed(lake.call(remove_orphan_files, table="one")) == {str(orphan)}


def test_component_folders_inside_a_table(
    lake: Lake, rows: Callable[..., pa.Table], unit: Callable[..., TableMetadataUnit]
) -> None:
    """A table whose location holds the metastore takes nothing of it, nor the lease of its daemon."""
    table = lake.table(location=f"file://{lake.folder}")
    table.append(rows(1))
    lake.metastore.tables.modify().overwrite([unit("one")]).execute()
    lease = lake.folder / "metastore/daemon/lease-1.json"
    aside = lake.folder / "metastore/damaged/2026-11-25/tables/v3.json"
    for path in (lease, aside):
        stray(path.parent, path.name)
    stray(lake.folder / "metastore/tables/dfs")
    lake.later(days=OLD_DAYS)
    orphan = stray(lake.folder / "data")
    os.utime(orphan, (0, 0))
    found = lake.call(remove_orphan_files)
    kept = [row for row in found if "/metastore/" in row["orphan_file_location"]]
    assert kept == []
    assert str(orphan) in removed(found)
    assert lease.exists()
    assert aside.exists()


# -- what a table's writers say


def test_a_forged_list_leads_nowhere(lake: Lake, written: Callable[..., Table], tmp_path: Path) -> None:
    """Whoever may write a table can name files in a list of left-over ones: outside of the table none of them goes."""
    one = written("one", 1)
    theirs, own = stray(tmp_path / "theirs"), stray(root(one) / "data")
    files = [FileToDelete(TableFile(f"file://{path}", FileKind.DATA)) for path in (theirs, own)]
    forged = quarantine(one, "expire", files)
    one.transaction().set_properties({UNSWEPT: forged.location}).commit_transaction()
    lake.call(expire_snapshots, table="one")
    assert theirs.exists()
    assert not own.exists()


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_location_that_was_never_the_tables(
    lake: Lake, written: Callable[..., Table], tmp_path: Path, dry_run: bool
) -> None:
    """Whoever may write a table can set its location: where its metadata file does not stand, nothing is looked for."""
    one = written("one", 1)
    theirs, other = stray(tmp_path / "theirs", "taken.parquet"), stray(tmp_path / "theirs")
    one.add_files([f"file://{theirs}"])
    path = Path(one.metadata_location.removeprefix("file://"))
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"location": f"file://{tmp_path}/theirs"}))
    with pytest.raises(ProcedureError, match="only the table itself says"):
        lake.call(remove_orphan_files, table="one", dry_run=dry_run)
    assert other.exists()


@pytest.mark.parametrize("procedure", ["drop_stats", "expire_snapshots"])
def test_statistics_that_lie_elsewhere(
    lake: Lake, written: Callable[..., Table], rows: Callable[..., pa.Table], tmp_path: Path, procedure: str
) -> None:
    """Any path can be named as statistics: one outside of the table's folders stays, and drop_stats says why."""
    one = written("one", 1)
    theirs = stray(tmp_path / "theirs")
    head = one.current_snapshot()
    assert head is not None
    file = StatisticsFile(
        snapshot_id=head.snapshot_id,
        statistics_path=f"file://{theirs}",
        file_size_in_bytes=1,
        file_footer_size_in_bytes=1,
        blob_metadata=[],
    )
    one.update_statistics().set_statistics(file).commit()
    if procedure == "drop_stats":
        [row] = lake.call(drop_stats, table="one")
        assert (row["deleted"], row["error"][:14]) == (False, "kept: it lies ")
    else:
        one.overwrite(rows(2))
        lake.call(expire_snapshots, table="one", older_than=lake.now + timedelta(days=1))
    assert one.refresh().metadata.statistics == []
    assert theirs.exists()


# -- cost


class CountingEngine(LocalEngine):
    """Counts the manifests of others that are read."""

    def __init__(self) -> None:
        super().__init__(1)
        self.manifests = 0

    def run(self, chunks: Any, task: Any, schema: pa.Schema) -> Any:
        """As the engine does, after counting."""
        if isinstance(task, partial) and task.func is reached_in:
            self.manifests += sum(len(chunk.files) for chunk in chunks)
        return super().run(chunks, task, schema)


def test_manifests_of_others_are_read_once(
    lake: Lake, written: Callable[..., Table], rows: Callable[..., pa.Table]
) -> None:
    """What a manifest reaches is remembered: a second proof reads only those that are new."""
    one, other = written("one", 1), written("other", 2)
    for id_ in range(3, 6):
        other.append(rows(id_))
    engine = CountingEngine()
    target = lake.catalogs.table("lake", "default", "one")

    def ask() -> int:
        engine.manifests = 0
        path = f"file://{root(one)}/data/x{engine.manifests}.parquet"
        assert Proof(lake.catalogs, target, lambda _: engine).judge([path]).free == {path}
        return engine.manifests

    assert [ask(), ask()] == [4, 0]
    other.append(rows(9))
    assert [ask(), ask()] == [1, 0]


def test_what_another_table_needs_is_kept_however_often_one_asks(lake: Lake, written: Callable[..., Table]) -> None:
    """A procedure that lost a race plans again, and asks about the same files."""
    one, other = written("one", 1), written("other", 2)
    taken, orphan = (f"file://{stray(root(one), name)}" for name in ("taken.parquet", "orphan.parquet"))
    other.add_files([taken])
    engine = CountingEngine()
    proof = Proof(lake.catalogs, lake.catalogs.table("lake", "default", "one"), lambda _: engine)
    for _ in range(3):
        assert proof.judge([taken, orphan]).free == {orphan}
    engine.manifests = 0
    assert proof.judge([orphan]).free == {orphan}
    assert engine.manifests == 0, "nothing has changed since"
    assert proof.judge([taken]).free == set()


def test_owned_asks_no_other_table(lake: Lake, written: Callable[..., Table]) -> None:
    """The operator's word spares the proof: no manifest of others is read, and no catalog is asked."""
    one = written("one", 1)
    written("other", 2)
    engine = CountingEngine()
    target = lake.catalogs.table("lake", "default", "one")
    path = f"file://{root(one)}/data/x.parquet"
    with sqlite3.connect(lake.folder / "lake.db") as database:
        database.execute("UPDATE iceberg_tables SET metadata_location = 'file:///gone' WHERE table_name = 'other'")
    proof = Proof(lake.catalogs, target, lambda _: engine, owned=[one.metadata.location])
    assert proof.judge([path]).free == {path}
    assert proof.judge([path, "file:///elsewhere/y"]).free == {path}
    assert engine.manifests == 0


# -- spellings


SEGMENTS = st.lists(st.sampled_from(["a", "b c", "b%20c", "ü", "k=1"]), min_size=1, max_size=4)


@given(SEGMENTS, st.sampled_from(["s3", "s3a", "s3n"]), st.sampled_from(["s3", "s3a", "s3n"]), st.booleans())
def test_a_file_is_struck_off_under_any_spelling(segments: list[str], listed: str, named: str, doubled: bool) -> None:
    """Schemes of one store, escapes and doubled slashes make no other file; another bucket does."""
    location = f"{listed}://bucket/{'/'.join(segments)}"
    other = f"{named}://bucket/{('//' if doubled else '/').join(segments)}".replace(" ", "%20")
    candidates = Candidates([location], Spelling())
    assert candidates.strike(other.replace("//bucket", "//another")) == 0
    assert list(candidates) == [location]
    assert candidates.strike(other) == 1
    assert len(candidates) == 0


@given(st.lists(SEGMENTS, min_size=1, max_size=6), SEGMENTS)
def test_folders_strike_off_what_lies_in_them(files: list[list[str]], folder: list[str]) -> None:
    """A folder takes with it the candidates below it, and no other, as comparing steps of paths has it."""
    candidates = Candidates([f"s3://b/{'/'.join(file)}/x" for file in files], Spelling())
    before = set(candidates)
    candidates.strike_below(Spelling().place(f"s3a://b/{'/'.join(folder)}/"))
    steps = [step.replace("%20", " ") for step in folder]
    inside = {f"s3://b/{'/'.join(f)}/x" for f in files if [s.replace("%20", " ") for s in f][: len(steps)] == steps}
    assert before - set(candidates) == inside
