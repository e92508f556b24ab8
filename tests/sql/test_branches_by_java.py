"""Branches that statements write, and publish, as Iceberg for Java reads them; and a branch of Java's, written here."""

from __future__ import annotations

from pathlib import Path

import pytest
from services.iceberg_java import IcebergJava

from metastore.config.settings import Settings
from metastore.session import connect

pytestmark = [pytest.mark.iceberg, pytest.mark.integration, pytest.mark.slow]


def test_java_reads_what_statements_write_into_branches(tmp_path: Path, iceberg_java: IcebergJava) -> None:
    """INSERT, UPDATE, DELETE and MERGE change the branch alone, as a session's branch does; fast_forward publishes."""
    for key, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hadoop",
        ".warehouse": f"file://{tmp_path}/wh",
    }.items():
        iceberg_java.run(f"SET spark.sql.catalog.branches{key}={value}")
    iceberg_java.run(
        "CREATE TABLE branches.db.t (id BIGINT, name STRING) USING iceberg TBLPROPERTIES ('format-version'='2')"
    )
    iceberg_java.run("INSERT INTO branches.db.t SELECT id, concat('n', id) FROM range(10)")
    iceberg_java.run("ALTER TABLE branches.db.t CREATE BRANCH theirs")
    settings = {
        "drill.metastore.iceberg.location.base_path": str(tmp_path / "m"),
        "drill.metastore.catalogs.branches": {"type": "filesystem", "warehouse": f"{tmp_path}/wh"},
    }

    def theirs(version: str = "") -> list[tuple[int, str]]:
        iceberg_java.run("REFRESH TABLE branches.db.t")
        rows = iceberg_java.rows(f"SELECT id, name FROM branches.db.t {version} ORDER BY id").to_pylist()
        return [(row["id"], row["name"]) for row in rows]

    before = [(number, f"n{number}") for number in range(10)]
    with connect(Settings.from_mapping(settings, environ={})) as session:
        session.sql("INSERT INTO branches.db.t.branch_theirs VALUES (10, 'new')")
        session.sql("UPDATE branches.db.\"t@theirs\" SET name = 'changed' WHERE id = 1")
        session.sql("DELETE FROM branches.db.t.branch_theirs WHERE id = 2")
        session.sql(
            "MERGE INTO branches.db.t.branch_theirs AS t USING (VALUES (3), (11)) AS s(k) ON t.id = s.k "
            "WHEN MATCHED THEN UPDATE SET name = 'merged' WHEN NOT MATCHED THEN INSERT (id, name) "
            "VALUES (s.k, 'merged')"
        )
        changed = {1: "changed", 3: "merged", 10: "new", 11: "merged"}
        expected = [(number, changed.get(number, f"n{number}")) for number in range(12) if number != 2]
        assert theirs() == before
        assert theirs("VERSION AS OF 'theirs'") == expected
        session.sql("ALTER TABLE branches.db.t SET PROPERTIES write.wap.enabled = 'true'")
        session.sql("SET spark.wap.branch = audit")
        session.sql("DELETE FROM branches.db.t WHERE id < 5")
        session.sql("RESET spark.wap.branch")
        assert theirs() == before
        assert theirs("VERSION AS OF 'audit'") == before[5:]
        session.sql("CALL branches.system.fast_forward('db.t', 'main', 'theirs')")
        assert theirs() == expected


def test_java_goes_on_with_a_branch_of_an_empty_table(tmp_path: Path, iceberg_java: IcebergJava) -> None:
    """Our CREATE BRANCH makes the snapshot that Java's makes, which Java reads and writes to; main stays empty."""
    for key, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hadoop",
        ".warehouse": f"file://{tmp_path}/wh",
    }.items():
        iceberg_java.run(f"SET spark.sql.catalog.empty_tables{key}={value}")
    for name in ("ours", "theirs"):
        iceberg_java.run(f"CREATE TABLE empty_tables.db.{name} (id BIGINT) USING iceberg")
    iceberg_java.run("ALTER TABLE empty_tables.db.theirs CREATE BRANCH b")
    settings = {
        "drill.metastore.iceberg.location.base_path": str(tmp_path / "m"),
        "drill.metastore.catalogs.empty_tables": {"type": "filesystem", "warehouse": f"{tmp_path}/wh"},
    }
    with connect(Settings.from_mapping(settings, environ={})) as session:
        session.sql("ALTER TABLE empty_tables.db.ours CREATE BRANCH b")
        loaded = [session.catalogs.open("empty_tables").load_table(("db", name)) for name in ("ours", "theirs")]
        made = [[(each.parent_snapshot_id, each.summary.operation) for each in one.snapshots()] for one in loaded]  # type: ignore[union-attr]
        assert made[0] == made[1]
    iceberg_java.run("REFRESH TABLE empty_tables.db.ours")
    iceberg_java.run("INSERT INTO empty_tables.db.ours.branch_b VALUES (1)")
    counted = "SELECT count(*) AS n FROM empty_tables.db.ours"
    assert iceberg_java.rows(f"{counted} VERSION AS OF 'b'").to_pylist() == [{"n": 1}]
    assert iceberg_java.rows(counted).to_pylist() == [{"n": 0}]
