"""Data on an object store in a session of Spark without Hadoop's connectors: the plugin's keys open it."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from services.s3 import S3Server

from metastore.config.settings import Settings
from metastore.session import connect
from metastore.spark import read_table, select
from metastore.spark.engine import SparkEngine
from metastore.spark.locations import spark_location

pytestmark = pytest.mark.spark


def test_executors_read_it(spark: SparkSession, s3_server: S3Server, tmp_path: Path) -> None:
    """ANALYZE, ``read_table`` and ``select`` give the files' rows, by the names of any scheme."""
    name = str(tmp_path.name).replace("_", "-").lower()[:50].strip("-")
    store = s3_server.create(name)
    for day in range(3):
        content = BytesIO()
        pq.write_table(pa.table({"x": [day * 10 + number for number in range(10)]}), content)
        store.put(f"sales/day={day}/a.parquet", content.getvalue())
    keys = {f'"{key}"': value for key, value in s3_server.hadoop(s3_server.endpoint).items()}
    plugin = {"type": "file", "connection": f"s3a://{name}", "workspaces.lake.location": "/", "config": keys}
    base = {"iceberg.location.base_path": str(tmp_path / "m"), "storage.s3": plugin}
    with connect(Settings.from_mapping({"drill.metastore": base}, environ={}), SparkEngine(spark)) as ms:
        ms.analyze(f"s3n://{name}/sales")
        frame = read_table(spark, ms, "s3.lake.sales", "x >= 15")
        assert sorted(map(tuple, frame.select("x", "day").collect())) == [(x, x // 10) for x in range(15, 30)]
        found = select(spark, ms, "SELECT count(*) AS n FROM s3.lake.sales WHERE day = 1").collect()
        assert [row.n for row in found] == [10]


def test_locations_are_spelled_as_the_session_can_open_them(spark: SparkSession) -> None:
    """Its own scheme if the session has a file system for it, else ``s3a``, else none."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    local = "org.apache.hadoop.fs.LocalFileSystem"
    assert spark_location(spark, "/tmp/x") == "/tmp/x"
    assert spark_location(spark, "hdfs://n:8020/x") == "hdfs://n:8020/x"
    assert spark_location(spark, "gs://b/x") is None
    try:
        hadoop.set("fs.s3a.impl", local)
        assert spark_location(spark, "s3://b/a b") == "s3a://b/a b"
        assert spark_location(spark, "s3n://b/x") == "s3a://b/x"
        hadoop.set("fs.s3.impl", local)
        assert spark_location(spark, "s3://b/x") == "s3://b/x"
    finally:
        hadoop.unset("fs.s3a.impl")
        hadoop.unset("fs.s3.impl")
    assert spark_location(spark, "s3://b/x") is None
