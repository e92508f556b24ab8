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
from metastore.spark import connect as connect_spark
from metastore.spark import read_table, select
from metastore.spark.engine import SparkEngine
from metastore.spark.locations import spark_location
from metastore.spark.session_keys import session_conf, store_keys, with_keys_of_session

pytestmark = pytest.mark.spark

OWN = {"drill.metastore.storage.s3.properties": {'"s3.region"': "eu-central-1"}}


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


def test_keys_of_the_session_open_data_and_metastore(spark: SparkSession, s3_server: S3Server, tmp_path: Path) -> None:
    """If the configuration has none for the kind of store; its own keys are not mixed with the session's."""
    name = f"keys-{tmp_path.name}".replace("_", "-").lower()[:50].strip("-")
    store = s3_server.create(name)
    content = BytesIO()
    pq.write_table(pa.table({"x": [1, 2, 3]}), content)
    store.put("sales/a.parquet", content.getvalue())
    plugin = {"type": "file", "connection": f"s3a://{name}", "workspaces.lake.location": "/"}
    base = {"iceberg.location.base_path": f"s3a://{name}/metastore", "storage.s3": plugin}
    settings = Settings.from_mapping({"drill.metastore": base}, environ={})
    keys = {f"spark.hadoop.{key}": value for key, value in s3_server.hadoop(s3_server.endpoint).items()}
    for key, value in keys.items():
        spark.conf.set(key, value)
    try:
        with connect_spark(spark, settings) as ms:
            assert ms.analyze("s3.lake.sales").files == 1
            assert [row.x for row in read_table(spark, ms, "s3.lake.sales", "x > 1").collect()] == [2, 3]
            assert ms.sql("SELECT sum(x) AS n FROM s3.lake.sales").to_pylist() == [{"n": 6}]
    finally:
        for key in keys:
            spark.conf.unset(key)
    own = with_keys_of_session(Settings.from_mapping({"drill.metastore": base, **OWN}, environ={}), keys)
    assert dict(own.storage["s3"].properties) == {"s3.region": "eu-central-1"}
    assert own.iceberg.config_properties["fs.s3a.access.key"] == keys["spark.hadoop.fs.s3a.access.key"]


def test_keys_of_hadoops_files_are_keys_of_the_session(
    spark: SparkSession, s3_server: S3Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """``core-site.xml`` alone opens a bucket. Hadoop's defaults are no keys, and Spark's own configuration wins."""
    keys = s3_server.hadoop(s3_server.endpoint)
    texts = "".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in keys.items())
    (tmp_path / "core-site.xml").write_text(f"<configuration>{texts}</configuration>")
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    assert spark._jvm is not None
    assert not store_keys(session_conf(spark)).keys() & {"fs.s3a.connection.maximum", "fs.s3a.path.style.access"}
    hadoop.addResource(spark._jvm.org.apache.hadoop.fs.Path(f"file://{tmp_path}/core-site.xml"))
    try:
        assert {key: value for key, value in store_keys(session_conf(spark)).items() if key in keys} == keys
        spark.conf.set("spark.hadoop.fs.s3a.access.key", "of the session")
        assert store_keys(session_conf(spark))["fs.s3a.access.key"] == "of the session"
        hadoop.set("hadoop.security.credential.provider.path", "jceks://file/secrets")
        assert "jceks" not in caplog.text
        session_conf(spark)
        assert "secrets in Hadoop's credential provider jceks://file/secrets" in caplog.text
    finally:
        spark.conf.unset("spark.hadoop.fs.s3a.access.key")
        hadoop.unset("hadoop.security.credential.provider.path")
        (tmp_path / "core-site.xml").write_text("<configuration></configuration>")
        hadoop.reloadConfiguration()


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
