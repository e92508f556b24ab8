"""Answers statements by Iceberg for Java on Spark. Each is a line of JSON: its number, the text, and a target or null.

Arguments are a folder, Iceberg's jar and the URI of a Hive Metastore.

It runs in an environment of its own, with PySpark of another version than the tests have. Rows leave it as Parquet
files, written without Iceberg.
"""

import json
import os
import sys

from pyspark.sql import SparkSession

folder, jar, uri = sys.argv[1:]
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
settings = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder} -Dderby.system.home={folder}",
    "spark.driver.extraClassPath": jar,
    "spark.local.dir": f"{folder}/spark",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.warehouse.dir": f"{folder}/warehouse",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hive",
    "spark.sql.catalog.lake.uri": uri,
    "spark.sql.catalog.lake.cache-enabled": "false",
}
builder = SparkSession.builder
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
print("READY", file=out, flush=True)
for line in sys.stdin:
    number, text, target = json.loads(line)
    try:
        frame = spark.sql(text)
        if target:
            frame.write.parquet(target)
        answer = {}
    except Exception as error:  # noqa: BLE001 - whatever Spark says is the answer
        answer = {"error": f"{type(error).__name__}: {error}"[:3000]}
    print(json.dumps(answer | {"number": number}), file=out, flush=True)
