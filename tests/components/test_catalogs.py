"""Every Iceberg table of a deployment by one name; what is missing is named with what is near, what fails is ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from metastore.components.catalogs import Catalogs
from metastore.components.metastore import Metastore
from metastore.config import Settings
from metastore.errors import (
    ConfigError,
    FormatError,
    InvalidRequestError,
    MetastoreError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
)
from metastore.lake.iceberg.catalogs.target import TargetTable

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def catalogs(tmp_path: Path) -> Iterator[Catalogs]:
    """``lake`` with the table db.orders and the schema db.raw, ``folder`` with shop.items, and two that are broken."""
    given = {
        "lake": {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"{tmp_path}/lake"},
        "Folder": {"type": "filesystem", "warehouse": f"{tmp_path}/folder"},
        "shut": {"type": "sql", "uri": f"sqlite:///{tmp_path}/no/such/folder.db"},
        "odd": {"type": "sql", "uri": "nothing://"},
    }
    location = {"base_path": str(tmp_path), "relative_path": "metastore"}
    settings = Settings.from_mapping({"drill.metastore": {"iceberg.location": location, "catalogs": given}}, environ={})
    with Metastore.open(settings) as metastore:
        opened = Catalogs(metastore)
        lake, folder = opened.open("lake"), opened.open("folder")
        lake.create_namespace("db")
        lake.create_namespace("db.raw")
        lake.create_table("db.orders", ROWS.schema).append(ROWS)
        folder.create_table(("shop", "items"), lake.load_table("db.orders").schema())
        yield opened
        opened.close()


def test_names(catalogs: Catalogs) -> None:
    """Our own first; each has its schemas and its tables."""
    assert catalogs.names() == ["metastore", "lake", "Folder", "shut", "odd"]
    assert catalogs.schemas("metastore") == ["components"]
    assert catalogs.schemas("LAKE") == ["db", "db.raw"]
    assert catalogs.tables("lake", "db") == ["orders"]
    assert catalogs.tables("lake", "db.raw") == []
    assert catalogs.schemas("folder") == ["shop"]
    assert catalogs.tables("folder", "shop") == ["items"]
    assert catalogs.tables("metastore", "components") == []


def test_a_table_of_each_catalog(catalogs: Catalogs, unit: Callable[..., Any]) -> None:
    """By a name that is spelled as it is configured; its rows are read by PyIceberg."""
    orders, items = catalogs.table("LAKE", "db", "orders"), catalogs.table("folder", "shop", "items")
    assert (str(orders), str(items)) == ("lake.db.orders", "Folder.shop.items")
    assert orders.load().scan().to_arrow() == ROWS
    assert not orders.is_component
    catalogs.metastore.tables.modify().overwrite([unit("nation")]).execute()
    tables = catalogs.table("metastore", "components", "tables")
    assert tables.is_component
    assert tables.load().scan().to_arrow()["tableName"].to_pylist() == ["nation"]
    assert catalogs.tables("metastore", "components") == ["tables"]


def test_a_place_need_not_be_taken(catalogs: Catalogs) -> None:
    """A name that nothing stands at is known as such when it is loaded."""
    target = catalogs.target("lake", "db.raw", "new")
    assert target.identifier == ("db", "raw", "new")
    with pytest.raises(NotFoundError, match=r"^table lake\.db\.raw\.new does not exist$"):
        target.load()


MISSING: dict[tuple[str, str, str], str] = {
    ("lke", "db", "orders"): "catalog lke does not exist; did you mean lake?; catalogs are configured as ",
    ("lake", "dv", "orders"): "schema lake.dv does not exist; did you mean db",
    ("lake", "db", "order"): "table lake.db.order does not exist; did you mean orders?",
    ("lake", "db.raw", "x"): "table lake.db.raw.x does not exist",
    ("folder", "shop", "item"): "table Folder.shop.item does not exist; did you mean items?",
    ("folder", "shp", "items"): "schema Folder.shp does not exist; did you mean shop?",
    ("metastore", "component", "tables"): "schema metastore.component does not exist; ",
    ("metastore", "components", "table"): "the metastore has no component table; did you mean tables?",
    ("metastore", "components", "tables"): "metastore.components.tables does not exist yet: nothing was written",
}


@pytest.mark.parametrize(("name", "said"), MISSING.items())
def test_what_is_missing(catalogs: Catalogs, name: tuple[str, str, str], said: str) -> None:
    """Catalog, schema or table: the one that is missing is said, and what is near it."""
    with pytest.raises(NotFoundError) as raised:
        catalogs.table(*name)
    assert str(raised.value).startswith(said)


def test_names_of_nothing(catalogs: Catalogs) -> None:
    """An empty schema or table is a wrong call, and our own catalog is not handed out."""
    for schema, name in (("", "orders"), ("db", ""), ("db.", "orders")):
        with pytest.raises(InvalidRequestError, match="has an empty name"):
            catalogs.table("lake", schema, name)
    with pytest.raises(InvalidRequestError, match="metastore is the metastore's own"):
        catalogs.open("metastore")


def test_catalogs_that_cannot_be_had(catalogs: Catalogs) -> None:
    """Others go on working; which one it is, and under which key it stands, is said."""
    with pytest.raises(
        StorageError, match="no/such/folder.db, the database of drill.metastore.catalogs.shut.uri, is not there"
    ):
        catalogs.table("shut", "db", "orders")
    with pytest.raises((ConfigError, StorageError), match="odd"):
        catalogs.table("odd", "db", "orders")
    assert catalogs.table("lake", "db", "orders").load().name() == ("db", "orders")


def test_a_warehouse_that_is_no_folder_yet_is_empty(tmp_path: Path) -> None:
    """Until the first table makes it; a schema or table in it is one that does not exist."""
    given = {"iceberg.location.base_path": str(tmp_path), "catalogs.new": {"type": "filesystem", "warehouse": "/no/w"}}
    settings = Settings.from_mapping({"drill.metastore": given}, environ={})
    with Metastore.open(settings) as metastore:
        opened = Catalogs(metastore)
        assert opened.schemas("new") == []
        with pytest.raises(NotFoundError, match="schema new.db does not exist"):
            opened.tables("new", "db")
        with pytest.raises(NotFoundError, match="schema new.db does not exist"):
            opened.table("new", "db", "t")


def test_metadata_that_is_gone(catalogs: Catalogs, tmp_path: Path) -> None:
    """A table whose files somebody removed is an error of the store, with its name."""
    for path in (tmp_path / "lake").rglob("*.metadata.json"):
        path.unlink()
    with pytest.raises(StorageError, match=r"the metadata of db.orders in .*sql catalog lake is missing"):
        catalogs.load("lake", "db", "orders")
    assert str(catalogs.table("lake", "db", "orders")) == "lake.db.orders"  # which asks the catalog alone


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"{", b"null", b"[1]"], ids=repr)
def test_metadata_that_is_damaged(catalogs: Catalogs, tmp_path: Path, content: bytes) -> None:
    """The table is named, and nobody takes it for the catalog's failure."""
    for path in (tmp_path / "lake").rglob("*.metadata.json"):
        path.write_bytes(content)
    with pytest.raises(FormatError, match=r"for db.orders cannot be read as the metadata of an Iceberg table"):
        catalogs.load("lake", "db", "orders")


def test_an_entry_that_is_no_table(catalogs: Catalogs, tmp_path: Path) -> None:
    """Metadata that is something else is named as such."""
    for path in (tmp_path / "folder").rglob("*.metadata.json"):
        path.write_text("{}")
    with pytest.raises(FormatError, match="not the metadata of an Iceberg table"):
        Catalogs(catalogs.metastore).load("folder", "shop", "items")


def branch(name: str, snapshot_id: int) -> TableUpdate:
    """An update that makes a branch."""
    return SetSnapshotRefUpdate(ref_name=name, type=SnapshotRefType.BRANCH, snapshot_id=snapshot_id)


def test_a_commit_gives_the_new_version(catalogs: Catalogs) -> None:
    """It is what the next one loads; a requirement that does not hold is a lost race."""
    target = catalogs.table("lake", "db", "orders")
    table = target.load()
    head = table.current_snapshot()
    assert head is not None
    absent = AssertRefSnapshotId(ref="b", snapshot_id=None)
    done = target.commit(table, [absent], [branch("b", head.snapshot_id)])
    assert done.metadata_location == target.load().metadata_location
    assert set(done.metadata.refs) == {"main", "b"}
    with pytest.raises(CommitFailedException):
        target.commit(table, [absent], [branch("b", head.snapshot_id)])


def test_a_format_version_that_pyiceberg_does_not_write(catalogs: Catalogs, tmp_path: Path) -> None:
    """Its metadata is written here; a snapshot that does not continue the table is a lost race, and leaves no file."""
    lake = catalogs.open("lake")
    metadata = json.loads(lake.load_table("db.orders").metadata.model_dump_json())
    path = tmp_path / "lake" / "db" / "orders" / "metadata" / f"00009-{uuid4()}.metadata.json"
    path.write_text(json.dumps({**metadata, "format-version": 3, "next-row-id": 0}))
    lake.register_table("db.third", str(path))
    target = catalogs.table("lake", "db", "third")
    done = target.commit(target.load(), [], [SetPropertiesUpdate(updates={"a": "b"})])
    assert target.load().properties["a"] == "b"
    before = sorted(tmp_path.rglob("*"))
    snapshot = done.metadata.snapshots[-1].model_copy(
        update={"snapshot_id": 5, "sequence_number": 99, "first_row_id": 7, "added_rows": 1}
    )
    with pytest.raises(CommitFailedException, match="does not continue sequence number"):
        target.commit(done, [], [AddSnapshotUpdate(snapshot=snapshot)])
    assert sorted(tmp_path.rglob("*")) == before


class _Broken:
    """A catalog whose answer is lost: after the commit, or before it."""

    def __init__(self, catalog: Any, *, landed: bool) -> None:
        self._catalog = catalog
        self._landed = landed

    def commit_table(self, *arguments: Any) -> None:
        if self._landed:
            self._catalog.commit_table(*arguments)
        raise ConnectionResetError("the connection was reset")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)


def _commit(target: TargetTable, update: TableUpdate, *, landed: bool) -> Table | MetastoreError:
    table = target.load()
    working = target.source.catalog
    try:
        vars(target.source)["_catalog"] = _Broken(working, landed=landed)
        return target.commit(table, [], [update])
    except MetastoreError as error:
        return error
    finally:
        vars(target.source)["_catalog"] = working


def test_an_answer_that_is_lost(catalogs: Catalogs) -> None:
    """Where the fresh metadata shows what was to be done it is done; else it is open, and said so."""
    target = catalogs.table("lake", "db", "orders")
    head = target.load().current_snapshot()
    assert head is not None
    made = branch("b", head.snapshot_id)
    for update, name in ((made, "b"), (RemoveSnapshotRefUpdate(ref_name="b"), None)):
        assert isinstance(_commit(target, update, landed=False), OutcomeUnknownError)
        done = _commit(target, update, landed=True)
        assert isinstance(done, Table)
        assert set(done.metadata.refs) == {"main", name} - {None}
    property_update = SetPropertiesUpdate(updates={"a": "b"})
    assert isinstance(_commit(target, property_update, landed=True), OutcomeUnknownError)
