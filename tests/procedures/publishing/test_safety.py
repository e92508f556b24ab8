"""A published table's files belong to others: what may happen to the table, and what never happens to the files."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from procedures.publishing.conftest import NAME, SOURCE, Shop
from pyiceberg.table.update import AddSnapshotUpdate, SetLocationUpdate

from metastore.components.metastore import Metastore
from metastore.config import Settings
from metastore.errors import InvalidRequestError, MetastoreError, NotFoundError, ProcedureError
from metastore.ground.clock import Clock
from metastore.procedures.publishing.expiration import KEPT, LEAST_AGE_MS
from metastore.session import Session, connect


@pytest.fixture
def published(shop: Shop) -> Shop:
    """Two publications of two directories."""
    shop.write("k=1/a.parquet", {"x": [1, 2]})
    shop.publish()
    shop.write("k=2/b.parquet", {"x": [3]})
    shop.publish()
    return shop


def _files(shop: Shop) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in shop.root.rglob("*") if path.is_file()}


ORPHANS = "CALL published.system.remove_orphan_files(schema => 'shop', table_name => 'sales'"
STATEMENTS = (
    f"DELETE FROM {NAME} WHERE x = 1",
    f"DELETE FROM {NAME} WHERE k = 1",
    f"UPDATE {NAME} SET x = 2",
    f"INSERT INTO {NAME} VALUES (1, 1)",
    f"DROP TABLE {NAME} PURGE",
    "CALL published.system.rewrite_data_files(schema => 'shop', table_name => 'sales')",
    "CALL published.system.rewrite_manifests(schema => 'shop', table_name => 'sales')",
    (
        "CALL published.system.expire_snapshots(schema => 'shop', table_name => 'sales', retain_last => 1,"
        " older_than => TIMESTAMP '2999-01-01 00:00:00 UTC')"
    ),
    f"{ORPHANS}, location => '{{root}}')",
    "CALL published.system.remove_old_metadata(schema => 'shop', table_name => 'sales')",
    "CALL published.system.convert_equality_deletes(schema => 'shop', table_name => 'sales')",
    "CALL published.system.add_files(schema => 'shop', table_name => 'sales', location => '/tmp')",
    f"ALTER TABLE {NAME} ADD COLUMN y BIGINT",
    f"ALTER TABLE {NAME} DROP COLUMN x",
    f"ALTER TABLE {NAME} SET PROPERTIES \"gc.enabled\" = 'true'",
    (
        "CALL published.system.set_table_property(schema => 'shop', table_name => 'sales', key => 'gc.enabled',"
        " value => 'true')"
    ),
)


def test_what_would_touch_files_refuses_the_table_by_name(published: Shop) -> None:
    """Neither the files nor the table change; whatever removes anything says why it does not."""
    before, location = _files(published), published.table.metadata_location
    for statement in STATEMENTS:
        with pytest.raises(MetastoreError, match=r"publish|GC is disabled|is its folder|gc\.enabled"):
            published.session.sql(statement.replace("{root}", str(published.root)))
        assert (_files(published), published.table.metadata_location) == (before, location)


@pytest.mark.parametrize(
    "statement",
    [
        f"DROP TABLE {NAME}",
        "DROP SCHEMA published.shop CASCADE",
        "CALL published.system.remove_old_metadata(schema => 'shop', table_name => 'sales')",
        f"ANALYZE TABLE {SOURCE} DROP METADATA",
    ],
)
def test_what_ends_a_publication_leaves_every_file(published: Shop, statement: str) -> None:
    """Whether a catalog does it or refuses it by name, and whatever is deleted later on."""
    before, rows = _files(published), published.plain()
    with suppress(MetastoreError):
        published.session.sql(statement)
    published.session.delete_due()
    assert _files(published) == before
    assert published.plain() == rows


def test_orphans_of_a_publication_are_metadata_alone(published: Shop) -> None:
    """What a dead publisher left goes; whatever else lies in the table's folder stays, as do the plain files."""
    home = Path(published.table.location().removeprefix("file://"))
    dead, data = home / "metadata/dead-m0.avro", home / "data/plain.parquet"
    data.parent.mkdir(exist_ok=True)
    unanalyzed = published.write("k=9/new.parquet", {"x": [9]})
    for each in (dead, data, unanalyzed):
        each.touch()
        os.utime(each, (0, 0))
    before, rows = _files(published), published.rows()
    [row] = published.session.sql(f"{ORPHANS})").to_pylist()
    assert (row["orphan_file_location"].removeprefix("file://"), row["deleted"]) == (str(dead), True)
    assert (dead.exists(), data.exists(), _files(published), published.rows()) == (False, True, before, rows)


def test_unpublishing_leaves_every_file(published: Shop) -> None:
    """The entry goes; where a table is its folder, that is said."""
    before = _files(published)
    call = f"CALL published.system.unpublish_table(table => '{NAME}')"
    if published.session.settings.catalogs["published"].type == "filesystem":
        with pytest.raises(InvalidRequestError, match="holds metadata alone"):
            published.session.sql(call)
    else:
        [row] = published.session.sql(call).to_pylist()
        assert (row["table"], Path(row["metadata_location"]).exists()) == (SOURCE, True)
        with pytest.raises(NotFoundError):
            published.session.catalogs.table("published", "shop", "sales")
        assert published.publish()["outcome"] == "created"
    assert _files(published) == before


def test_a_table_of_others_is_not_unpublished(published: Shop) -> None:
    """Only a publication can be ended."""
    published.session.sql("CREATE TABLE published.shop.other (x BIGINT)")
    with pytest.raises(ProcedureError, match="no published table"):
        published.session.sql("CALL published.system.unpublish_table(table => 'published.shop.other')")
    with pytest.raises(ProcedureError, match="no published table"):
        published.publish_stored(to="published.shop.other")


def test_one_name_publishes_one_table(published: Shop) -> None:
    """Another folder is not published over it."""
    other = Shop(published.session, published.root.parent / "other")
    other.write("a.parquet", {"x": [1]})
    published.session.analyze("dfs.shop.other")
    with pytest.raises(ProcedureError, match="publishes dfs.shop.sales"):
        published.publish_stored(table="dfs.shop.other")


@pytest.mark.parametrize("below", ["", "shop", "shop/sales", "shop/sales/k=1"])
def test_the_table_is_never_at_above_or_below_its_data(tmp_path: Path, below: str) -> None:
    """An engine that drops it sweeps its folder, and a folder inside the data is data to whoever lists it."""
    warehouse, root = (tmp_path / below, tmp_path / "shop" / "sales")
    for schema in ("shop", "x"):
        settings = {
            "drill.metastore.iceberg.location.base_path": f"{tmp_path}/own",
            "drill.metastore.storage.dfs.workspaces.w.location": str(tmp_path),
            "drill.metastore.catalogs.c": {"type": "filesystem", "warehouse": str(warehouse)},
        }
        with connect(Settings.from_mapping(settings, environ={})) as session:
            Shop(session, root).write("k=1/a.parquet", {"x": [1]})
            session.analyze("dfs.w.`shop/sales`")
            before = sorted(path for path in root.rglob("*"))
            names = [schema, "sales"]
            target = warehouse.joinpath(*names)
            is_apart = os.path.commonpath([target, root]) not in (str(target), str(root))
            call = f"CALL c.system.publish_table(table => 'dfs.w.`shop/sales`', to => 'c.{schema}.sales')"
            if is_apart:
                session.sql(call)
            else:
                with pytest.raises(InvalidRequestError, match="would lie at"):
                    session.sql(call)
            assert sorted(path for path in root.rglob("*")) == before


def _by_pyiceberg(change: Callable[[object], object]) -> Callable[[Shop], object]:
    return lambda shop: change(shop.session.catalogs.open("published").load_table(("shop", "sales")))


FOREIGN = {
    "rows": _by_pyiceberg(lambda table: table.append(pa.table({"x": [9], "k": pa.array([9], pa.int32())}))),  # type: ignore[attr-defined] # a table
    "a deletion": _by_pyiceberg(lambda table: table.delete("x = 1")),  # type: ignore[attr-defined] # a table
}


@pytest.mark.parametrize("shop", ["sql"], indirect=True)
@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_snapshot_stops_publication_and_is_told(published: Shop, kind: str) -> None:
    """The error names the snapshot and the two ways out; both lead back to the rows of the files."""
    before = _files(published)
    FOREIGN[kind](published)
    published.write("k=3/c.parquet", {"x": [4]})
    with pytest.raises(ProcedureError, match=r"another program has written snapshot \d+") as error:
        published.publish()
    back = str(error.value).split("CALL ")[1].split(" takes")[0]
    if kind == "rows":
        published.session.sql(f"CALL {back}")
        assert published.publish_stored()["outcome"] == "changed"
    else:
        assert published.publish_stored(replace=True)["outcome"] == "changed"
    assert published.rows() == published.plain()
    assert {path: time for path, time in _files(published).items() if "k=3" not in path} == before


@pytest.mark.parametrize("shop", ["sql"], indirect=True)
def test_columns_that_another_program_changed_stop_publication(published: Shop) -> None:
    """A column that was renamed in the table has no files; publishing anew takes it back."""
    table = published.session.catalogs.open("published").load_table(("shop", "sales"))
    with table.update_schema() as update:
        update.rename_column("x", "z")
    published.write("k=3/c.parquet", {"x": [4]})
    with pytest.raises(ProcedureError, match="changed the columns"):
        published.publish()
    published.publish_stored(replace=True)
    assert published.rows() == published.plain()


def test_two_publishers_race(shop: Shop) -> None:
    """Whoever loses publishes upon the other, or finds nothing to do; no file is there twice, and none is missing."""
    for number in range(3):
        shop.write(f"k={number}/a.parquet", {"x": [number]})
        shop.session.analyze(SOURCE)
        with ThreadPoolExecutor(3) as threads:
            outcomes = [row["outcome"] for row in threads.map(lambda _: shop.publish_stored(), range(3))]
        assert sorted(outcomes) == [["changed", "created"][number == 0], "unchanged", "unchanged"]
        assert shop.rows() == shop.plain()


def test_old_snapshots_take_no_file_that_another_table_needs(tmp_path: Path) -> None:
    """A program moved the published table to the folder of another one, and slipped that table's list in."""
    now = [1_800_000_000_000]
    settings = {
        "drill.metastore.iceberg.location.base_path": str(tmp_path),
        "drill.metastore.storage.dfs.workspaces.shop.location": f"{tmp_path}/shop",
        "drill.metastore.catalogs.published": {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/lake.db",
            "warehouse": f"file://{tmp_path}/lake",
        },
    }
    metastore = Metastore.open(Settings.from_mapping(settings, environ={}), clock=Clock(now_ms=lambda: now[0]))
    with Session(metastore) as session:
        shop = Shop(session, tmp_path / "shop" / "sales")
        shop.write("k=1/0.parquet", {"x": [0]})
        shop.publish()
        session.sql("CREATE TABLE published.shop.theirs AS SELECT 7 AS id")
        theirs = session.catalogs.table("published", "shop", "theirs").load()
        slipped = theirs.metadata.snapshots[0].model_copy(
            update={"snapshot_id": 1, "parent_snapshot_id": None, "sequence_number": 2, "timestamp_ms": now[0]}
        )
        target = session.catalogs.table("published", "shop", "sales")
        moved = SetLocationUpdate(location=theirs.metadata.location)
        target.commit(target.load(), [], [moved, AddSnapshotUpdate(snapshot=slipped)])
        for number in range(KEPT + 1):
            now[0] += 2 * LEAST_AGE_MS
            shop.write(f"k=1/{number + 1}.parquet", {"x": [number]})
            shop.publish()
        assert 1 not in {each.snapshot_id for each in target.load().metadata.snapshots}
        assert theirs.refresh().scan().to_arrow().to_pylist() == [{"id": 7}]
        assert shop.rows() == shop.plain()
