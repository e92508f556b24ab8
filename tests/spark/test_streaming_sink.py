"""Tables that a stream of Spark's writes: what counts as theirs is what Spark reads."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from pyspark.sql import SparkSession

from metastore.model.identity import TableInfo
from metastore.sources.listing import list_files
from metastore.sources.source_table import SourceTable

pytestmark = pytest.mark.spark


def test_the_files_of_a_streaming_sink_are_those_that_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    """After several batches, a compaction among them, and with a file that no batch has in its log."""
    root = tmp_path / "my sink"
    for batch in range(5):
        spark.range(batch, batch + 3).selectExpr("id", f"'a/{batch} #' AS k").coalesce(1).write.mode("append").json(
            str(tmp_path / "input")
        )
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "3")
    source = spark.readStream.schema("id BIGINT, k STRING").option("maxFilesPerTrigger", "1")
    sink = source.json(str(tmp_path / "input")).writeStream.partitionBy("k").trigger(availableNow=True)
    sink.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(root)).awaitTermination()
    assert (root / "_spark_metadata" / "2.compact").exists()
    [stray, *_] = root.rglob("*.parquet")
    shutil.copy(stray, stray.with_name("part-of-a-failed-batch.parquet"))
    expected = {unquote(urlsplit(uri).path) for uri in spark.read.parquet(str(root)).inputFiles()}
    table = SourceTable(TableInfo("dfs", "tmp", "t"), str(root))
    assert {file.path for file in table.files()} == expected
    assert len(expected) == 5
    assert len(list_files(str(root)).files) == 6
