"""Runs in an environment of its own: asks DuckDB and Spark of the plain files, and of the published table by its name.

The argument is a JSON object: the URI of the REST catalog, the folder of the files, the name of the table, a condition,
and columns. The answer is a JSON object by engine: for each door its rows, and the number of files that it opened. The
numbers are the engines' own: "Total Files Read" of DuckDB's profile, and the metrics of Spark's scan.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import duckdb
from duckdb_extensions import import_extension  # type: ignore[import-not-found] # in its own environment
from pyspark.sql import SparkSession

Answer = tuple[str, list[Any], int]
"""The door, the rows, and the number of files that were opened."""

SPARK = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
FILES = ("numFiles", "resultDataFiles")
"""Metrics of Spark's own scan of files, and of Iceberg's."""


def ask_duckdb(asked: dict[str, str]) -> Iterator[Answer]:
    """Yields the answers of DuckDB."""
    connection = duckdb.connect()
    for name in ("avro", "httpfs", "iceberg"):
        import_extension(name)
        connection.execute(f"LOAD {name}")
    options = "AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none'"
    connection.execute(f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{asked['uri']}', {options})")
    plain = f"read_parquet('{asked['folder']}/*/*.parquet', hive_partitioning = true)"
    for door, source in (("plain", plain), ("published", f"lake.{asked['table']}")):
        query = f"SELECT {asked['columns']} FROM {source} WHERE {asked['where']}"  # noqa: S608 - the demo asks it
        rows = connection.execute(query).fetchall()
        profile = connection.execute(f"EXPLAIN ANALYZE {query}").fetchall()[0][1]
        [files] = re.findall(r"Total Files Read:\s*(\d+)", profile)
        yield door, rows, int(files)


def ask_spark(asked: dict[str, str]) -> Iterator[Answer]:
    """Yields the answers of Spark."""
    catalog = "spark.sql.catalog.lake"
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.jars.packages": SPARK,
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "rest",
        f"{catalog}.uri": asked["uri"],
        f"{catalog}.warehouse": "lake",
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for door, frame in (
        ("plain", spark.read.parquet(asked["folder"])),
        ("published", spark.table(f"lake.{asked['table']}")),
    ):
        found = frame.where(asked["where"]).select(*asked["columns"].split(", "))
        rows = found.collect()
        metrics = found._jdf.queryExecution().executedPlan().collectLeaves().head().metrics()  # noqa: SLF001 - PySpark shows no counters
        [files] = [metrics.apply(name).value() for name in FILES if metrics.contains(name)]
        yield door, [tuple(row) for row in rows], files
    spark.stop()


out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # What Spark and its Ivy print is no answer.
asked = json.loads(sys.argv[1])
answers = {
    name: {door: [rows, files] for door, rows, files in ask(asked)}
    for name, ask in (("DuckDB", ask_duckdb), ("Spark", ask_spark))
}
print(json.dumps(answers), file=out)
