"""A short suite on each supported version of Python and of Spark, and the refusal of others (``--services versions``).

Each version gets an environment of its own in the user's cache folder, with this checkout as pip installs it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest
from services.programs import installed

import metastore
from metastore.engines.java import find_java

# What pip installs is made by a fixture, whose time does not count: pip builds PySpark from 400 MB of source.
pytestmark = [pytest.mark.versions, pytest.mark.timeout(1500, func_only=True)]

CHECKOUT: Final = Path(metastore.__file__).parents[1]
SITE: Final = """
drill.metastore.iceberg.location.base_path = "{folder}/metastore"
drill.metastore.storage.dfs.workspaces.w {{ location = "{folder}/lake", writable = true }}
"""
FILES: Final = """
import pathlib
import pyarrow as pa, pyarrow.parquet as pq
import metastore

for month in (1, 2, 3):
    folder = pathlib.Path(f"lake/t/month={month}")
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": [month * 10, month * 10 + 1], "s": ["a", None]}), folder / "a.parquet")
"""
ALONE: Final = (
    FILES
    + """
with metastore.connect("site.conf") as ms:
    assert ms.analyze("dfs.w.t").files == 3
    assert ms.analyze("dfs.w.t").status == "up to date"
    assert ms.prune("dfs.w.t", "id > 25").files_count.kept == 1
    assert ms.tables.scan("dfs.w.t", where="month = 2 AND s IS NULL").to_arrow().to_pylist() == [
        {"id": 21, "s": None, "month": 2}
    ]
    assert ms.sql("SELECT count(*) AS n FROM dfs.w.t WHERE month >= 2").to_pylist() == [{"n": 4}]
    ms.sql("CREATE VIEW dfs.w.v AS SELECT id FROM dfs.w.t WHERE id > 25")
    assert ms.sql("SELECT id FROM dfs.w.v ORDER BY id").to_pylist() == [{"id": 30}, {"id": 31}]
    ms.call("metastore.system.expire_snapshots", schema="components", table_name="tables", dry_run=True)
    assert not [finding for finding in ms.check().findings if finding.severity == "error"]
print("WORKS")
"""
)
ON_SPARK: Final = (
    FILES
    + """
import metastore.spark
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
with metastore.spark.connect(spark, "site.conf") as ms:
    assert ms.analyze("dfs.w.t").engine == "spark"
    rows = metastore.spark.read_table(spark, ms, "dfs.w.t", "id > 25").collect()
    assert sorted(row.id for row in rows) == [30, 31]
    assert metastore.spark.select(spark, ms, "SELECT count(*) AS n FROM dfs.w.t").collect()[0].n == 6
    ms.sql("CREATE MATERIALIZED VIEW dfs.w.m AS SELECT max(id) AS top FROM dfs.w.t")
    ms.sql("REFRESH MATERIALIZED VIEW dfs.w.m")
    assert ms.sql("SELECT top FROM dfs.w.m").to_pylist() == [{"top": 31}]
    metastore.spark.register(spark, ms, "dfs.w.t")
    assert spark.sql("SELECT max(id) AS top FROM t WHERE month < 3").collect()[0].top == 21
    told = ms.sql("SELECT month, count(*) AS n FROM dfs.w.t GROUP BY month ORDER BY month", engine="spark")
    assert told.to_pylist() == [{"month": month, "n": 2} for month in (1, 2, 3)]
"""
)
WITH_SOURCE: Final = (
    ON_SPARK
    + """
    metastore.spark.register_source(spark)
    load = spark.read.format("metastore").option("conf", "site.conf")
    frame = load.load("dfs.w.t")
    assert (frame.where("month = 1").count(), frame.count()) == (2, 6)
    pushed = load.option("pushFilters", "true").load("dfs.w.t")
    # The day this fails, this version can push filters by default: see docs/design/019.
    assert (pushed.where("month = 1").count(), pushed.count()) == (2, 2)
print("WORKS")
"""
)
WITHOUT_SOURCE: Final = (
    ON_SPARK
    + """
    try:
        metastore.spark.register_source(spark)
    except metastore.errors.EngineError as error:
        assert 'the format "metastore" needs Spark 4.1 or later, and this is Spark ' in str(error)
        print("WORKS")
"""
)


@pytest.fixture
def interpreter(request: pytest.FixtureRequest) -> Path:
    """The interpreter of an environment of a Python with the dependencies of the checkout and PySpark: both by name."""
    python, spark = request.param.split()
    pip = "{}/bin/pip install -q"
    make = f'{python} -m venv {{}} && {pip} "{CHECKOUT}[sql,pandas]" && {pip} pyspark=={spark}'
    dependencies = hashlib.sha256(make.encode() + (CHECKOUT / "pyproject.toml").read_bytes()).hexdigest()[:8]
    return installed(f"{python}-{spark}-{dependencies}", ["sh", "-c", make], hint="a shell") / "bin/python"


def run(interpreter: Path, program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run ``program`` in ``folder`` with the code of this checkout."""
    (folder / "site.conf").write_text(SITE.format(folder=folder))
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    return subprocess.run(
        [interpreter, "-c", program],
        capture_output=True,
        check=False,
        cwd=folder,
        env={
            **own,
            "PYTHONPATH": str(CHECKOUT),
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": str(interpreter),
        },
        text=True,
    )


@pytest.mark.parametrize("interpreter", [f"python3.{minor} 4.2.1" for minor in range(10, 15)], indirect=True)
def test_every_version_of_python(tmp_path: Path, interpreter: Path) -> None:
    """Without Spark: ANALYZE, pruning, scans, SQL, views, procedures, and the check."""
    ran = run(interpreter, ALONE, tmp_path)
    assert ran.stdout.endswith("WORKS\n"), ran.stderr[-3000:]


@pytest.mark.spark
@pytest.mark.parametrize(
    "interpreter", [f"python3.11 {x}" for x in ("4.1.4", "4.2.0", "4.2.1", "4.3.0")], indirect=True
)
def test_supported_versions_of_spark(tmp_path: Path, interpreter: Path) -> None:
    """ANALYZE on executors, reads, views by name, Spark's SQL, materialized views, and the data source."""
    ran = run(interpreter, WITH_SOURCE, tmp_path)
    assert ran.stdout.endswith("WORKS\n"), ran.stderr[-3000:]


@pytest.mark.spark
@pytest.mark.parametrize("interpreter", ["python3.11 3.5.7", "python3.11 4.0.1"], indirect=True)
def test_older_versions_of_spark_lack_the_data_source_alone(tmp_path: Path, interpreter: Path) -> None:
    """All else works; the data source is refused by a sentence that names what works."""
    ran = run(interpreter, WITHOUT_SOURCE, tmp_path)
    assert ran.stdout.endswith("WORKS\n"), ran.stderr[-3000:]


@pytest.mark.parametrize("interpreter", ["python3.11 3.4.4"], indirect=True)
def test_other_versions_of_spark_are_refused(tmp_path: Path, interpreter: Path) -> None:
    """When the package meets them, by a sentence that says what to install."""
    ran = run(interpreter, "import metastore.spark", tmp_path)
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("metastore.errors.EngineError: Spark 3.4.4 is not supported; 3.5 or later"), ran.stderr
