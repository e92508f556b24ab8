"""A Spark job with Hadoop's ``s3a`` and the keys in its session: data and metastore on S3, no key in the configuration.

Spark's own reader reads the data. The metastore reads and writes the same buckets with the same keys.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from services import hadoop_aws
from services.s3 import S3Server

from metastore.engines.java import find_java

pytestmark = [pytest.mark.s3a, pytest.mark.spark, pytest.mark.timeout(900)]

JOB = """
import json, sys
from pyspark.sql import SparkSession
import metastore.spark
from metastore.spark import read_table, register_source, select

settings, conf = json.loads(sys.argv[1]), sys.argv[2]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
with metastore.spark.connect(spark, conf) as ms:
    assert ms.analyze("s3.lake.sales").engine == "spark"
    frame = read_table(spark, ms, "s3.lake.sales", "x >= 15")
    [path, *_] = frame.inputFiles()
    assert path.startswith("s3a://") and len(frame.inputFiles()) == 2, frame.inputFiles()
    assert sorted(map(tuple, frame.select("x", "day").collect())) == [(x, x // 10) for x in range(15, 30)]
    ids = read_table(spark, ms, "s3.lake.sales", "x = 7", row_id=True).collect()
    again = read_table(spark, ms, "s3.lake.sales", row_id=True).filter("x = 7").collect()
    assert [row["$row_id"] for row in ids] == [row["$row_id"] for row in again]
    assert select(spark, ms, "SELECT count(*) AS n FROM s3.lake.sales WHERE day = 1").collect()[0].n == 10
    ms.sql("CREATE MATERIALIZED VIEW s3.lake.top AS SELECT day, max(x) AS top FROM s3.lake.sales GROUP BY day")
    ms.sql("REFRESH MATERIALIZED VIEW s3.lake.top")
    tops = select(spark, ms, "SELECT top FROM s3.lake.top WHERE day > 0 ORDER BY day").collect()
    assert [row.top for row in tops] == [19, 29]
    ms.sql("CREATE SCHEMA c.db")
    ms.sql("CREATE TABLE c.db.t (id BIGINT)")
    for number in range(6):
        ms.sql(f"INSERT INTO c.db.t VALUES ({number})")
    ms.sql("CALL c.system.rewrite_data_files('db', 't')")
    assert ms.sql('SELECT count(*) AS files, sum(record_count) AS rows FROM c.db."t$files"').to_pylist() == [
        {"files": 1, "rows": 6}
    ]
    register_source(spark)
    assert spark.read.format("metastore").option("conf", conf).load("s3.lake.sales").filter("x < 5").count() == 5
print("WORKS")
"""


def test_a_job_needs_no_other_keys_than_its_sessions(s3_server: S3Server, tmp_path: Path) -> None:
    """ANALYZE on executors, pruned reads, row ids, views, refresh, rewritten Iceberg tables, and the data source."""
    name = f"job-{tmp_path.name}".replace("_", "-").lower()[:50].strip("-")
    store = s3_server.create(name)
    for day in range(3):
        content = BytesIO()
        pq.write_table(pa.table({"x": [day * 10 + number for number in range(10)]}), content)
        store.put(f"lake/sales/day={day}/a.parquet", content.getvalue())
    (tmp_path / "site.conf").write_text(
        f"""drill.metastore {{
          iceberg.location.base_path = "s3a://{name}/metastore"
          storage.s3 {{ connection = "s3a://{name}", workspaces.lake {{ location = "/lake", writable = true }} }}
          catalogs.c {{ type = sql, uri = "sqlite:///{tmp_path}/c.db", warehouse = "s3a://{name}/warehouse" }}
        }}"""
    )
    keys = {f"spark.hadoop.{key}": value for key, value in s3_server.hadoop(s3_server.endpoint).items()}
    settings = {"spark.jars": ",".join(hadoop_aws.jars(tmp_path)), **keys}
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "SPARK", "AWS_"))}
    ran = subprocess.run(
        [sys.executable, "-c", JOB, json.dumps(settings), str(tmp_path / "site.conf")],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env={**own, "JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable},
        text=True,
    )
    assert ran.stdout.endswith("WORKS\n"), ran.stderr[-3000:]
