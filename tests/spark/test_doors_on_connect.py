"""Every door of Spark on a Connect session, as platforms have it: no SparkContext, and workers without the package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.clusters, pytest.mark.spark, pytest.mark.integration]

DOORS = """
import os
import pyarrow as pa
from pyspark.sql import SparkSession
from metastore.spark import connect, merge, read_table, register, register_source, select

root = os.environ["ROOT"]
spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
answer["session"] = type(spark).__module__
register_source(spark)
ms = connect(spark, root + "/site.conf")
conf = {"conf": root + "/site.conf"}

def door(name, call):
    try:
        answer[name] = call()
    except Exception as error:
        answer[name] = f"{type(error).__module__}.{type(error).__name__}: {error}"[:3000]

def save(frame, into, mode="append", **options):
    frame.write.format("metastore").mode(mode).options(**conf, **options).save(into)

def rows(query):
    return sorted(map(list, spark.sql(query).collect()))

def folder():
    save(spark.range(0, 12, 1, 3).selectExpr("id", "id % 2 AS part"), "dfs.w.t", partitionBy="part", analyze="true")
    save(spark.range(100, 104).selectExpr("id", "0 AS part"), "dfs.w.t", "overwrite", partitionOverwriteMode="dynamic",
         analyze="true")
    return sorted(row["id"] for row in ms.tables.scan("dfs.w.t").to_arrow().to_pylist())

def table():
    catalog = ms.catalogs.open("lake")
    catalog.create_namespace("db")
    catalog.create_table("db.t", pa.schema({"id": pa.int64(), "k": pa.string()}))
    save(spark.range(10).selectExpr("id", "concat('k', id % 2) AS k"), "lake.db.t")
    save(spark.range(3).selectExpr("id", "'new' AS k"), "lake.db.t", "overwrite", replaceWhere="id < 3")
    return sorted(row["id"] for row in catalog.load_table("db.t").scan().to_arrow().to_pylist())

def merged():
    source = spark.range(8, 12).selectExpr("id", "'m' AS k")
    told = merge(ms, source, "lake.db.t", "target.id = source.id", "WHEN MATCHED THEN UPDATE SET *",
                 "WHEN NOT MATCHED THEN INSERT *")
    return told.select(["inserted", "updated"]).to_pylist()

def grouped():
    told = ms.sql("INSERT INTO lake.db.t SELECT max(id) + 100, k FROM lake.db.t GROUP BY k", engine="spark")
    return told.to_pylist()[0]["inserted"]

def views():
    names = register(spark, ms, "dfs.w.*") + register(spark, ms, "lake.db.t", prefix="lake_")
    return [names, rows("SELECT count(*), max(t.id) FROM t JOIN lake_t USING (id)")]

def by_name():
    spark.sql(f"CREATE TEMPORARY VIEW named USING metastore OPTIONS (conf '{root}/site.conf', path 'lake.db.t')")
    return rows("SELECT count(*), sum(id) FROM named WHERE id > 5")

def called():
    row = ms.sql("CALL lake.system.rewrite_data_files('db', 't', min_input_files => 2)").to_pylist()[0]
    return row["rewritten_data_files_count"] > row["added_data_files_count"] == 1

def changed():
    ms.sql("DELETE FROM lake.db.t WHERE id = 0")
    return ms.sql("UPDATE lake.db.t SET k = 'u' WHERE id = 1").to_pylist()[0]["updated"]

door("folder", folder)
door("analyze", lambda: ms.analyze("dfs.w.t").status)
door("read_table", lambda: sorted(row.id for row in read_table(spark, ms, "dfs.w.t", "id < 8").collect()))
door("select", lambda: select(spark, ms, "SELECT count(*) AS n FROM dfs.w.t WHERE part = 1").collect()[0].n)
door("table", table)
door("loaded", lambda: spark.read.format("metastore").options(**conf).load("lake.db.t").where("id > 7").count())
door("merged", merged)
door("by Spark", grouped)
door("views", views)
door("by name", by_name)
door("changed", changed)
door("called", called)
ms.close()
spark.stop()
"""


def test_each_door_works(run_driver: Callable[..., dict[str, Any]], bare_python: Path, tmp_path: Path) -> None:
    """Rows are those of the statements, counted by hand. A door that fails answers with its error."""
    (tmp_path / "lake").mkdir()
    (tmp_path / "site.conf").write_text(
        f'drill.metastore {{ iceberg.location.base_path = "{tmp_path}/md"\n'
        f'catalogs.lake {{ type = sql, uri = "sqlite:///{tmp_path}/c.db", warehouse = "file://{tmp_path}/wh" }}\n'
        f'storage.dfs {{ type = file, workspaces.w {{ location = "{tmp_path}/lake", writable = true }} }} }}\n'
    )
    answer = run_driver(DOORS, ROOT=str(tmp_path), SPARK_CONNECT_MODE_ENABLED="1", PYSPARK_PYTHON=str(bare_python))
    assert answer.pop("session").startswith("pyspark.sql.connect")
    del answer["stderr"]
    assert answer == {
        "folder": [1, 3, 5, 7, 9, 11, 100, 101, 102, 103],
        "analyze": "up to date",
        "read_table": [1, 3, 5, 7],
        "select": 6,
        "table": list(range(10)),
        "loaded": 2,
        "merged": [{"inserted": 2, "updated": 2}],
        "by Spark": 4,  # the groups k0, k1, new and m
        "views": [["t", "lake_t"], [[7, 102]]],
        "by name": [[10, 477]],
        "changed": 1,
        "called": True,
    }
