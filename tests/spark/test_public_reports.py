"""What users of other table formats reported of Spark, tried at our doors: each test names the report."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from metastore.config.settings import Settings
from metastore.session import Session
from metastore.spark import connect, merge, read_table, register_source
from metastore.spark.source_options import SETTINGS, settings_option

pytestmark = pytest.mark.spark


@pytest.fixture
def ms(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    """A session with the empty table ``lake.db.t``, by ``x``, and a workspace that may be written to."""
    (tmp_path / "data").mkdir()
    given = {
        "iceberg.location.base_path": f"{tmp_path}/md",
        "catalogs.lake": {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"{tmp_path}/wh"},
        "storage.dfs": {"type": "file", "workspaces": {"w": {"location": f"{tmp_path}/data", "writable": True}}},
    }
    register_source(spark)
    with connect(spark, Settings.from_mapping({"drill.metastore": given}, environ={})) as opened:
        opened.sql("CREATE SCHEMA lake.db")
        opened.sql("CREATE TABLE lake.db.t (id BIGINT, x VARCHAR) PARTITIONED BY (x)")
        yield opened


def save(ms: Session, frame: DataFrame, mode: str, into: str = "lake.db.t", **options: str) -> None:
    """Write."""
    frame.write.format("metastore").mode(mode).options(**{SETTINGS: settings_option(ms.settings), **options}).save(into)


def rows(ms: Session) -> list[tuple[Any, ...]]:
    """The rows of the table."""
    return sorted((row["id"], row["x"]) for row in ms.sql("SELECT id, x FROM lake.db.t").to_pylist())


def test_partitions_of_null_and_of_an_empty_text_are_replaced_apart(spark: SparkSession, ms: Session) -> None:
    """delta-io/delta 825: there neither could be replaced. A dynamic overwrite tells them apart, too."""
    save(ms, spark.createDataFrame([(1, None), (2, ""), (3, "b")], "id LONG, x STRING"), "append")
    save(ms, spark.createDataFrame([(10, None)], "id LONG, x STRING"), "overwrite", replaceWhere="x IS NULL")
    save(ms, spark.createDataFrame([(20, "")], "id LONG, x STRING"), "overwrite", replaceWhere="x = ''")
    assert sorted(row[0] for row in rows(ms)) == [3, 10, 20]
    new = spark.createDataFrame([(30, None)], "id LONG, x STRING")
    save(ms, new, "overwrite", partitionOverwriteMode="dynamic")
    assert sorted(row[0] for row in rows(ms)) == [3, 20, 30]


@pytest.mark.parametrize("options", [{}, {"partitionOverwriteMode": "dynamic"}])
@pytest.mark.parametrize("into", ["lake.db.t", "dfs.w.t"])
def test_a_table_is_overwritten_by_what_is_read_of_it(
    spark: SparkSession, ms: Session, tmp_path: Path, into: str, options: dict[str, str]
) -> None:
    """apache/spark 30410 and 33986: Spark refuses it. Here the old files go after the new ones are there.

    The session's engine is Spark, and the process that analyzes has none: it reads footers itself.
    """
    by = {"partitionBy": "x"} if into.startswith("dfs") else {}
    frame = spark.range(8).selectExpr("id", "concat('p', id % 2) AS x")
    save(ms, frame, "append", into, analyze="true", **by) if by else save(ms, frame, "append", into)
    old = read_table(spark, ms, into)
    save(ms, old.where("x = 'p1' AND id > 2").selectExpr("id + 100 AS id", "x"), "overwrite", into, **by, **options)
    changed = [103, 105, 107]
    folder = tmp_path / ("data/t" if by else "wh/db/t/data")
    found = ms.sql("SELECT id FROM lake.db.t").to_pylist() if not by else spark.read.parquet(str(folder)).collect()
    assert sorted(row["id"] for row in found) == (changed if not options else [0, 2, 4, 6, *changed])


def test_a_source_that_is_random_is_merged_once(spark: SparkSession, ms: Session) -> None:
    """delta-io/delta 527 and 1418: a source that is computed twice differs, and rows are doubled or lost."""
    save(ms, spark.range(0, 100, 1, 2).selectExpr("id", "'old' AS x"), "append")
    source = spark.range(0, 200, 1, 4).selectExpr("id", "IF(rand() < 0.5, 'a', 'b') AS x").repartition(3)
    clauses = (
        "WHEN MATCHED AND source.x = 'a' THEN DELETE",
        "WHEN MATCHED THEN UPDATE SET *",
        "WHEN NOT MATCHED THEN INSERT *",
    )
    told = merge(ms, source, "lake.db.t", "target.id = source.id", *clauses).to_pylist()[0]
    found = rows(ms)
    assert told["inserted"] == 100
    assert told["updated"] + told["deleted"] == 100
    assert len({row[0] for row in found}) == len(found) == 100 + told["updated"]
    assert {row[1] for row in found if row[0] < 100} <= {"b"}


def test_two_merges_of_a_new_key_insert_it_once(spark: SparkSession, ms: Session) -> None:
    """apache/iceberg 12653 and trinodb/trino 31072: both see no match, and the loser finds the row then."""
    save(ms, spark.createDataFrame([(1, "seed")], "id LONG, x STRING"), "append")
    clauses = ("WHEN MATCHED THEN UPDATE SET x = concat(target.x, '+')", "WHEN NOT MATCHED THEN INSERT *")

    def run(_: int) -> Any:
        source = spark.createDataFrame([(7, "new")], "id LONG, x STRING")
        return merge(ms, source, "lake.db.t", "target.id = source.id", *clauses).to_pylist()[0]["inserted"]

    with ThreadPoolExecutor(2) as both:
        assert sorted(both.map(run, range(2))) == [0, 1]
    assert rows(ms) == [(1, "seed"), (7, "new+")]
