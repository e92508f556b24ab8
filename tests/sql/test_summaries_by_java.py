"""Summaries of snapshots: the counts and totals of our statements are those of Iceberg for Java for the same ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from services.iceberg_java import IcebergJava

from metastore.config.settings import Settings
from metastore.session import connect

pytestmark = [pytest.mark.iceberg, pytest.mark.integration, pytest.mark.slow]

STATEMENTS: Final = (
    "INSERT INTO {} VALUES (1, 'a'), (2, 'b')",
    "INSERT INTO {} VALUES (3, 'a')",
    "DELETE FROM {} WHERE id = 3",
    "DELETE FROM {}",
)
"""Each is one snapshot, and changes whole files alone: how rows are dealt to files is left to each engine."""


@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (k)"])
def test_counts_and_totals_are_those_of_java(tmp_path: Path, iceberg_java: IcebergJava, partitioned: str) -> None:
    """Sizes of files aside, which are those of the writer. A table without partitions counts as one."""
    catalog = "summaries_by_k" if partitioned else "summaries"
    for key, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hadoop",
        ".warehouse": f"file://{tmp_path}/wh",
    }.items():
        iceberg_java.run(f"SET spark.sql.catalog.{catalog}{key}={value}")
    iceberg_java.run("SET spark.sql.shuffle.partitions=1")
    settings = {
        "drill.metastore.iceberg.location.base_path": str(tmp_path / "m"),
        f"drill.metastore.catalogs.{catalog}": {"type": "filesystem", "warehouse": f"{tmp_path}/wh"},
    }
    for name in ("ours", "theirs"):
        iceberg_java.run(f"CREATE TABLE {catalog}.db.{name} (id BIGINT, k STRING) USING iceberg {partitioned}")
    with connect(Settings.from_mapping(settings, environ={})) as session:
        for statement in STATEMENTS:
            session.sql(statement.format(f"{catalog}.db.ours"))
            in_one_task = statement.replace("VALUES", "SELECT /*+ COALESCE(1) */ * FROM VALUES")
            iceberg_java.run(in_one_task.format(f"{catalog}.db.theirs"))

    def written(name: str) -> list[dict[str, Any]]:
        iceberg_java.run(f"REFRESH TABLE {catalog}.db.{name}")
        rows = iceberg_java.rows(
            f"SELECT operation, map_entries(summary) AS s FROM {catalog}.db.{name}.snapshots ORDER BY committed_at"
        ).to_pylist()
        return [
            {"operation": row["operation"]}
            | {
                each["key"]: each["value"]
                for each in row["s"]
                if each["key"].endswith(("-count", "-files", "-records", "-deletes")) and "manifest" not in each["key"]
            }
            for row in rows
        ]

    assert written("ours") == written("theirs")
