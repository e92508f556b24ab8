"""Runs statements, one a line in JSON, by Iceberg for Java on Spark. Arguments: a folder, a class path, a warehouse."""

# ruff: noqa: INP001 - a program for another Python

import json
import os
import sys

from pyspark.sql import SparkSession

folder, jars, warehouse = sys.argv[1:]
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
settings = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.driver.extraClassPath": jars,
    "spark.local.dir": f"{folder}/spark",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.catalog.lake.warehouse": warehouse,
    "spark.sql.catalog.lake.cache-enabled": "false",
}
builder = SparkSession.builder
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
print("READY", file=out, flush=True)
for line in sys.stdin:
    try:
        answer: dict[str, object] = {"rows": [row.asDict() for row in spark.sql(json.loads(line)).collect()]}
    except Exception as error:  # noqa: BLE001 - whatever Spark says is the answer
        answer = {"error": f"{type(error).__name__}: {error}"[:3000]}
    print(json.dumps(answer, default=str), file=out, flush=True)
