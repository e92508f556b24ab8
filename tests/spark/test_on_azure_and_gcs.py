"""Data and metastore on Azure's and Google's stores, with Spark as the engine: executors read and write by their keys.

Spark's own readers need Hadoop's connectors, which neither emulator serves: ABFS asks for Azure's second endpoint, and
Google's connector for its JSON API. What runs in tasks of the metastore needs none.
"""

from __future__ import annotations

import uuid
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from metastore.config import Settings
from metastore.session import connect
from metastore.spark import read_table
from metastore.spark.engine import SparkEngine

pytestmark = [pytest.mark.spark, pytest.mark.integration]


@pytest.mark.parametrize(
    "kind", [pytest.param("azure", marks=pytest.mark.azure), pytest.param("gcs", marks=pytest.mark.gcs)]
)
def test_tasks_work_on_the_store(spark: SparkSession, request: pytest.FixtureRequest, kind: str) -> None:
    """ANALYZE, rows with ids, a changed file, statements and rewriting of an Iceberg table in the same bucket."""
    server: Any = request.getfixturevalue(f"{kind}_server")
    name = f"job-{uuid.uuid4()}"
    bucket, root = server.create(name), server.root(name)
    for day in range(3):
        content = BytesIO()
        pq.write_table(pa.table({"x": [day * 10 + number for number in range(10)]}), content)
        bucket.put(f"lake/sales/day={day}/a.parquet", content.getvalue())
    keys = {f'"{key}"': value for key, value in server.hadoop(server.endpoint).items()}
    settings = {
        "iceberg": {"location.base_path": f"{root}/metastore", "config.properties": keys},
        "storage.s": {"connection": root, "config": keys, "workspaces.lake.location": "/lake"},
        "engine.spark_threshold": 1,
    }
    with connect(Settings.from_mapping({"drill.metastore": settings}, environ={}), SparkEngine(spark)) as ms:
        done = ms.analyze("s.lake.sales")
        assert (done.engine, done.files) == ("spark", 3)
        assert [path.rpartition("/")[2] for path in ms.prune("s.lake.sales", "x >= 20").paths] == ["a.parquet"]
        rows = read_table(spark, ms, "s.lake.sales", "x >= 15", row_id=True).collect()
        assert sorted(row.x for row in rows) == list(range(15, 30))
        assert len({row["$row_id"] for row in rows}) == 15
        content = BytesIO()
        pq.write_table(pa.table({"x": [100]}), content)
        bucket.put("lake/sales/day=2/b.parquet", content.getvalue())
        assert ms.analyze("s.lake.sales").files == 4
        assert ms.sql("SELECT max(x) AS top FROM s.lake.sales WHERE day = 2").to_pylist() == [{"top": 100}]
