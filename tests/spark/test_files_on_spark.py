"""Procedures on files with Spark as the engine: what tasks list, read and delete is what they do here."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from metastore.config.settings import Settings
from metastore.spark import connect

pytestmark = pytest.mark.spark


def test_files_procedures(spark: SparkSession, tmp_path: Path) -> None:
    """Expiration, orphans, added files and statistics: the tasks run on the executors, and Spark reads what is left."""
    uri = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}/lake"}
    given = {
        "iceberg.location.base_path": str(tmp_path),
        "catalogs.lake": uri,
        "engine.kind": "spark",
        "procedures.min_orphan_age": "0 seconds",
    }
    pq.write_table(pa.table({"id": [7, 8]}), tmp_path / "added.parquet")
    soon = datetime.now(timezone.utc) + timedelta(days=1)
    name: dict[str, Any] = {"schema": "default", "table_name": "t"}
    with connect(spark, Settings.from_mapping({"drill.metastore": given}, environ={})) as session:
        catalog = session.catalogs.open("lake")
        catalog.create_namespace("default")
        table = catalog.create_table("default.t", pa.schema([("id", pa.int64())]))
        table.append(pa.table({"id": [1]}))
        table.overwrite(pa.table({"id": [2]}))
        call = session.procedures.call
        [row] = call("lake.system.add_files", **name, files=[str(tmp_path / "added.parquet")]).to_pylist()
        assert row["added_records_count"] == 2
        [row] = call("lake.system.expire_snapshots", **name, older_than=soon).to_pylist()
        assert (row["deleted_data_files_count"], row["failed_files_count"]) == (1, 0)
        stray = tmp_path / "lake/default/t/data/deep/er/stray.parquet"
        stray.parent.mkdir(parents=True)
        stray.write_bytes(b"x")
        os.utime(stray, (0, 0))
        now = datetime.now(timezone.utc)
        rows = call("lake.system.remove_orphan_files", **name, older_than=now).to_pylist()
        assert [row["orphan_file_location"] for row in rows if row["deleted"]] == [str(stray)]
        [row] = call("lake.system.compute_table_stats", **name).to_pylist()
        assert row["columns"] == [{"column": "id", "ndv": 3}]
        files = [task.file.file_path for task in table.refresh().scan().plan_files()]
        assert sorted(row.id for row in spark.read.parquet(*files).collect()) == [2, 7, 8]
