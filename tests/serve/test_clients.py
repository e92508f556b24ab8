"""PyIceberg as the client: what it reads is what we read, and whatever it tries to change stays as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    UnauthorizedError,
)
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from support.served_lake import Lake, MakeLake

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))


@pytest.mark.parametrize("warehouse", ["lake", "folders"])
def test_rows_are_ours(lake: Lake, warehouse: str, as_rows: Callable[[pa.Table], list[str]]) -> None:
    """Of a table with deleted rows, by the newest snapshot and by each earlier one."""
    table = lake.client(warehouse).load_table("shop.orders")
    ours = lake.session.sql(f"SELECT * FROM {warehouse}.shop.orders")
    assert ours.num_rows == 2
    assert as_rows(table.scan().to_arrow()) == as_rows(ours)
    counts = [table.scan(snapshot_id=each.snapshot_id).count() for each in table.history()]
    assert counts[:2] == [2, 3]


def test_component_tables_are_tables(lake: Lake, as_rows: Callable[[pa.Table], list[str]]) -> None:
    """Those that have something in them; their rows are those of SQL."""
    client = lake.client("metastore")
    assert client.list_namespaces() == [("components",)]
    assert client.list_tables("components") == [("components", "views")]
    theirs = client.load_table("components.views").scan().to_arrow()
    assert theirs.num_rows == 1
    assert as_rows(theirs) == as_rows(lake.session.sql("SELECT * FROM metastore.components.views"))


def test_what_is_there_is_found_and_nothing_else(lake: Lake) -> None:
    """Namespaces with their properties, tables, and none of what does not exist."""
    client = lake.client("lake")
    assert client.list_namespaces() == [("shop",)]
    assert client.list_namespaces("shop") == [("shop", "old")]
    assert client.load_namespace_properties(("shop", "old"))["owner"] == "ann"
    assert client.list_tables(("shop", "old")) == []
    assert client.namespace_exists("shop")
    assert client.table_exists("shop.orders")
    assert not client.namespace_exists("none")
    assert not client.table_exists("shop.none")
    assert not client.view_exists("shop.orders")
    assert client.list_views("shop") == []
    with pytest.raises(NoSuchNamespaceError):
        client.list_tables("none")
    with pytest.raises(NoSuchNamespaceError):
        client.list_namespaces("none")
    with pytest.raises(NoSuchTableError):
        client.load_table("none.orders")


WRITES: dict[str, Callable[[RestCatalog], Any]] = {
    "create a table": lambda client: client.create_table("shop.new", SCHEMA),
    "drop a table": lambda client: client.drop_table("shop.orders"),
    "purge a table": lambda client: client.purge_table("shop.orders"),
    "rename a table": lambda client: client.rename_table("shop.orders", "shop.others"),
    "register a table": lambda client: client.register_table("shop.new", "file:///anywhere/v1.metadata.json"),
    "create a namespace": lambda client: client.create_namespace("new"),
    "drop a namespace": lambda client: client.drop_namespace("shop"),
    "set properties of a namespace": lambda client: client.update_namespace_properties("shop", None, {"a": "b"}),
    "drop a view": lambda client: client.drop_view("shop.orders"),
    "append rows": lambda client: client.load_table("shop.orders").append(
        pa.table({"id": pa.array([9], pa.int64()), "day": pa.array([None], pa.date32())})
    ),
    "delete rows": lambda client: client.load_table("shop.orders").delete("id = 1"),
    "set a property of a table": lambda client: client.load_table("shop.orders").transaction().set_properties(a="b"),
}


class Stubborn(RestCatalog):
    """A client that ignores which endpoints the server has, as DuckDB does."""

    def _check_endpoint(self, endpoint: Any) -> None:
        """Believe that all are there."""


@pytest.fixture
def writers(lake: Lake) -> Iterator[list[RestCatalog]]:
    """One that honours ``endpoints``, and one that does not."""
    given = {"uri": lake.server.url, "warehouse": "lake"}
    clients = [RestCatalog("served", **given), Stubborn("served", **given)]
    yield clients
    for each in clients:
        each.close()


@pytest.mark.parametrize("what", [name for name in WRITES if "rows" not in name and "property of" not in name])
def test_a_write_is_refused(lake: Lake, writers: list[RestCatalog], what: str) -> None:
    """A client that honours ``endpoints`` refuses by itself; others get 403 with the reason. No file changes."""
    before = lake.files()
    honest, stubborn = writers
    with pytest.raises(NotImplementedError, match="does not support"):
        WRITES[what](honest)
    with pytest.raises(ForbiddenError, match="read-only"):
        WRITES[what](stubborn)
    assert lake.files() == before
    assert honest.load_table("shop.orders").scan().count() == 2


@pytest.mark.parametrize("what", ["append rows", "delete rows"])
def test_a_change_of_rows_is_refused(lake: Lake, writers: list[RestCatalog], what: str) -> None:
    """The table stays as it is, and so does each of its files; the client has written its own before it asks."""
    before = lake.files()
    for client, error in zip(writers, (NotImplementedError, ForbiddenError), strict=True):
        with pytest.raises(error):
            WRITES[what](client)
    assert {path: found for path, found in lake.files().items() if path in before} == before
    assert writers[0].load_table("shop.orders").scan().count() == 2


def test_pages_are_followed(lake: Lake) -> None:
    """A client with a small page sees the same names."""
    for number in range(7):
        lake.sql(f'CREATE TABLE lake."shop.old".t{number} (id BIGINT)')
    names = [("shop", "old", f"t{number}") for number in range(7)]
    assert lake.client("lake", **{"rest-page-size": "3"}).list_tables(("shop", "old")) == names
    assert lake.client("lake").list_tables(("shop", "old")) == names


def test_a_token_opens_the_door(make_lake: MakeLake) -> None:
    """As every client passes it on; another one opens nothing."""
    lake = make_lake(token="sesame", catalogs=["metastore"])
    assert lake.client("metastore", token="sesame").list_namespaces() == [("components",)]
    for properties in ({}, {"token": "sesam"}):
        with pytest.raises(UnauthorizedError):
            lake.client("metastore", **properties)


def test_a_published_table_is_not_dropped_or_purged(make_lake: MakeLake) -> None:
    """By a client that ignores the endpoints, and by bare requests; the files that it publishes stay."""
    lake = make_lake(catalogs=["lake"])
    path = lake.folder / "data" / "t" / "a.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), path)
    lake.sql("ANALYZE TABLE dfs.w.t REFRESH METADATA PUBLISH AS lake.shop.t")
    before = lake.files()
    client = Stubborn("served", uri=lake.server.url)
    lake.opened.callback(client.close)
    for refused in (client.drop_table, client.purge_table):
        with pytest.raises(ForbiddenError, match="read-only"):
            refused(("shop", "t"))
    place = "/v1/lake/namespaces/shop"
    for each in (f"{place}/tables/t", f"{place}/tables/t?purgeRequested=true", place):
        assert lake.ask(each, "DELETE").error == (403, "ForbiddenException")
    assert lake.files() == before
    assert client.load_table(("shop", "t")).scan().to_arrow()["id"].to_pylist() == [1, 2]
