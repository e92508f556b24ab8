"""Engines that we did not write open served tables by name: their rows are ours, and what they change is refused."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from pyiceberg.view.metadata import ViewVersion
from services.duckdb_iceberg import Judge
from services.iceberg_java import IcebergJava
from support.served_lake import Lake, MakeLake

from metastore.errors import InvalidRequestError

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))

QUERY = "SELECT id, CAST(day AS VARCHAR) AS day FROM {}.shop.orders ORDER BY id"


def rows(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    """As a session reads them."""
    return [tuple(row.values()) for row in lake.session.sql(query).to_pylist()]


def attach(lake: Lake, warehouse: str) -> str:
    """The statement by which DuckDB opens a served catalog."""
    options = "AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none'"
    return f"ATTACH '{warehouse}' AS served_{warehouse} (TYPE iceberg, ENDPOINT '{lake.server.url}', {options})"


@pytest.mark.iceberg
@pytest.mark.integration
@pytest.mark.slow
class TestDuckDB:
    """Its iceberg extension, which asks for writes whatever the endpoints are."""

    @pytest.mark.parametrize("warehouse", ["lake", "folders"])
    def test_rows_are_ours(self, lake: Lake, duckdb_iceberg: Judge, warehouse: str) -> None:
        """Of tables and components, which it lists too."""
        names = "SELECT schema, name FROM (SHOW ALL TABLES) WHERE database = 'served_{}'"
        asked = [attach(lake, warehouse), QUERY.format(f"served_{warehouse}"), names.format(warehouse)]
        _, found, listed = duckdb_iceberg(asked)
        assert found == rows(lake, QUERY.format(warehouse))
        assert ("shop", "orders") in listed

    def test_components_are_tables(self, lake: Lake, duckdb_iceberg: Judge) -> None:
        """Their columns and rows."""
        query = "SELECT * FROM {}.components.views ORDER BY ALL"
        _, found = duckdb_iceberg([attach(lake, "metastore"), query.format("served_metastore")])
        assert len(found) == 1
        assert len(found[0]) == len(rows(lake, query.format("metastore"))[0])

    def test_a_session_sees_files_that_came_since(self, make_lake: MakeLake, duckdb_iceberg: Judge) -> None:
        """One connection, which once kept what it had loaded first (duckdb-iceberg#247); the server looks each time.

        A statement has no snapshot that is younger than its begin, so the one that makes the server look sees it not.
        """
        own = make_lake(freshness="0 seconds")
        (own.folder / "data" / "t").mkdir(parents=True)
        copy = f"COPY (SELECT {{}} AS id) TO '{own.folder}/data/t/{{}}.parquet'"
        duckdb_iceberg([copy.format(1, "a")])
        own.sql("ANALYZE TABLE dfs.w.t REFRESH METADATA PUBLISH AS lake.shop.t")
        query = "SELECT id FROM served_lake.shop.t ORDER BY id"
        twice = [query, query]
        _, *found = duckdb_iceberg(
            [attach(own, "lake"), query, copy.format(2, "b"), *twice, copy.format(3, "c"), *twice]
        )
        assert [found[place] for place in (0, 3, 6)] == [[(1,)], [(1,), (2,)], [(1,), (2,), (3,)]]

    @pytest.mark.parametrize(
        "statement",
        [
            "INSERT INTO served_lake.shop.orders VALUES (9, NULL)",
            "DELETE FROM served_lake.shop.orders",
            "UPDATE served_lake.shop.orders SET id = 0",
            "DROP TABLE served_lake.shop.orders",
            "DROP SCHEMA served_lake.shop CASCADE",
            "CREATE TABLE served_lake.shop.new AS SELECT 1 AS one",
            "CREATE SCHEMA served_lake.new",
            "ALTER TABLE served_lake.shop.orders RENAME TO others",
        ],
    )
    def test_a_write_is_refused(self, lake: Lake, duckdb_iceberg: Judge, statement: str) -> None:
        """And no file that was there changes or goes."""
        before = lake.files()
        with pytest.raises(AssertionError, match="(?i)read-only|forbidden|not supported|not implemented"):
            duckdb_iceberg([attach(lake, "lake"), statement])
        after = lake.files()
        assert {path: after.get(path) for path in before} == before
        assert rows(lake, "SELECT count(*) FROM lake.shop.orders") == [(2,)]


@pytest.mark.iceberg
@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.slow
class TestIcebergForJava:
    """Its REST client on Spark."""

    @pytest.fixture(autouse=True)
    def served(self, lake: Lake, iceberg_java: IcebergJava) -> None:
        """A catalog of Spark for each that is served."""
        for name in lake.settings.serve.catalogs:
            catalog = f"spark.sql.catalog.served_{name}"
            iceberg_java.run(f"SET {catalog}=org.apache.iceberg.spark.SparkCatalog")
            for key, value in (("type", "rest"), ("uri", lake.server.url), ("warehouse", name)):
                iceberg_java.run(f"SET {catalog}.{key}={value}")

    @pytest.mark.parametrize("warehouse", ["lake", "folders"])
    def test_rows_are_ours(self, lake: Lake, iceberg_java: IcebergJava, warehouse: str) -> None:
        """By SQL, also of an earlier snapshot and of a metadata table, whose names it looks up as namespaces."""
        query = QUERY.replace("VARCHAR", "STRING")
        found = iceberg_java.rows(query.format(f"served_{warehouse}")).to_pylist()
        assert [tuple(row.values()) for row in found] == rows(lake, QUERY.format(warehouse))
        snapshots = iceberg_java.rows(f"SELECT snapshot_id FROM served_{warehouse}.shop.orders.snapshots")
        ours = {row[0] for row in rows(lake, f'SELECT snapshot_id FROM {warehouse}.shop."orders$snapshots"')}
        assert set(snapshots["snapshot_id"].to_pylist()) == ours
        table = lake.session.catalogs.target(warehouse, "shop", "orders").load()
        first = table.history()[0].snapshot_id
        counted = iceberg_java.rows(f"SELECT count(*) AS n FROM served_{warehouse}.shop.orders VERSION AS OF {first}")
        assert counted["n"].to_pylist() == [2]

    def test_components_are_tables(self, lake: Lake, iceberg_java: IcebergJava) -> None:
        """With as many rows and columns."""
        found = iceberg_java.rows("SELECT * FROM served_metastore.components.views")
        ours = lake.session.sql("SELECT * FROM metastore.components.views")
        assert (found.num_rows, found.num_columns) == (ours.num_rows, ours.num_columns)

    def test_its_reports_say_what_it_planned(
        self, make_lake: MakeLake, iceberg_java: IcebergJava, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Files read of all, for a condition that excludes some; kept without the value that was asked for."""
        own = make_lake(metrics_reports="log", catalogs=["folders"])
        own.sql("CREATE SCHEMA folders.a", "CREATE TABLE folders.a.t (id BIGINT)")
        own.sql(*(f"INSERT INTO folders.a.t VALUES ({number})" for number in (70001, 80001, 90001)))
        catalog = "spark.sql.catalog.reporting"
        iceberg_java.run(f"SET {catalog}=org.apache.iceberg.spark.SparkCatalog")
        for key, value in (("type", "rest"), ("uri", own.server.url)):
            iceberg_java.run(f"SET {catalog}.{key}={value}")
        with caplog.at_level("INFO", "metastore.serve.handlers"):
            found = iceberg_java.rows("SELECT id FROM reporting.a.t WHERE id > 80001")
        assert found["id"].to_pylist() == [90001]
        texts = [each.getMessage() for each in caplog.records if each.getMessage().startswith("report ")]
        metrics = [json.loads(text.removeprefix("report "))["metrics"] for text in texts]
        assert [each["result-data-files"]["value"] for each in metrics] == [1]
        assert "80001" not in " ".join(texts)

    def test_orphans_are_left_to_the_owner(self, lake: Lake, iceberg_java: IcebergJava) -> None:
        """Their removal needs no commit, so the catalog cannot refuse it; the property of the table does."""
        table = lake.session.catalogs.target("lake", "shop", "orders").load()
        orphan = Path(table.location().removeprefix("file://")) / "data" / "orphan.parquet"
        orphan.touch()
        os.utime(orphan, (0, 0))
        with pytest.raises(RuntimeError, match="GC is disabled"):
            iceberg_java.run("CALL served_lake.system.remove_orphan_files(table => 'shop.orders')")
        assert orphan.exists()
        orphan.unlink()

    @pytest.mark.parametrize(
        "statement",
        [
            "INSERT INTO served_lake.shop.orders VALUES (9, NULL)",
            "DELETE FROM served_lake.shop.orders",
            "DROP TABLE served_lake.shop.orders",
            "DROP TABLE served_lake.shop.orders PURGE",
            "DROP NAMESPACE served_lake.shop",
            "CREATE TABLE served_lake.shop.new (id BIGINT) USING iceberg",
            "CREATE NAMESPACE served_lake.new",
            "ALTER TABLE served_lake.shop.orders RENAME TO others",
            "ALTER TABLE served_lake.shop.orders ADD COLUMN late INT",
            "CALL served_lake.system.expire_snapshots('shop.orders')",
            "CALL served_lake.system.rewrite_data_files('shop.orders')",
        ],
    )
    def test_a_write_is_refused(self, lake: Lake, iceberg_java: IcebergJava, statement: str) -> None:
        """Or does nothing; no file that was there changes or goes."""
        before = lake.files()
        with contextlib.suppress(RuntimeError):
            iceberg_java.run(statement)
        after = lake.files()
        assert {path: after.get(path) for path in before} == before
        assert rows(lake, "SELECT count(*) FROM lake.shop.orders") == [(2,)]


@pytest.mark.rest
@pytest.mark.integration
class TestAnotherServer:
    """A catalog that is itself a REST server, Iceberg's own, is served on."""

    def test_tables_and_views(self, make_lake: MakeLake, rest_catalog: str) -> None:
        """Rows of tables, and the SQL of views, as the other server has them; what is dropped there is gone here."""
        own = make_lake(own={"far": {"type": "rest", "uri": rest_catalog}}, catalogs=["far"])
        far = own.session.catalogs.open("far")
        space = f"served_{uuid.uuid4().hex[:8]}"
        far.create_namespace(space)
        far.create_table((space, "t"), SCHEMA).append(pa.table({"id": pa.array([1, 2], pa.int64())}))
        query = f"SELECT id FROM {space}.t"
        far.create_view((space, "v"), SCHEMA, view_version(space, query))
        client = own.client("far")
        assert client.list_tables(space) == [(space, "t")]
        assert client.load_table((space, "t")).scan().to_arrow()["id"].to_pylist() == [1, 2]
        assert client.list_views(space) == [(space, "v")]
        assert client.view_exists((space, "v"))
        assert client.load_view((space, "v")).current_version().representations[0].root.sql == query
        assert own.ask(f"/v1/far/namespaces/{space}/views/v").document["metadata-location"]
        with pytest.raises(NotImplementedError):
            client.drop_view((space, "v"))
        assert own.ask(f"/v1/far/namespaces/{space}/views/v", "DELETE").error == (403, "ForbiddenException")
        with pytest.raises(InvalidRequestError, match="has the schemas and views v: drop them first"):
            own.session.sql(f"DROP SCHEMA far.{space} CASCADE")
        assert client.list_tables(space) == [(space, "t")]  # refused before the first table was dropped
        far.drop_view((space, "v"))
        assert not client.view_exists((space, "v"))
        assert own.ask(f"/v1/far/namespaces/{space}/views/t").error == (404, "NoSuchViewException")


def view_version(namespace: str, query: str) -> ViewVersion:
    """The first version of a view."""
    return ViewVersion(
        **{"version-id": 1, "schema-id": 0, "timestamp-ms": 1, "summary": {}, "default-namespace": [namespace]},
        representations=[{"type": "sql", "sql": query, "dialect": "spark"}],
    )
