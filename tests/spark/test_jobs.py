"""The job of the guide as its users run it: on a cluster of separate workers, and over Spark Connect."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = re.findall(r"```python\n(.*?)```", (ROOT / "docs/guide/spark-jobs.md").read_text(), re.DOTALL)[0]

pytestmark = [pytest.mark.spark, pytest.mark.integration]

Driver = Callable[..., dict[str, Any]]

LOOK = """
import io, contextlib
from metastore.spark.session import start_session
def run(settings):
    spark = start_session(settings)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(EXAMPLE, {})
    return spark, said.getvalue()
"""


@pytest.fixture
def conf(tmp_path: Path) -> str:
    """Trips of two months, ten each, of which one in each month came before it left; and a configuration."""
    for month in (5, 6):
        folder = tmp_path / "lake" / "trips" / f"month={month}"
        folder.mkdir(parents=True)
        delays = [-1, *range(50, 68, 2)]
        for half in (0, 1):
            pq.write_table(pa.table({"delay": delays[half * 5 : half * 5 + 5]}), folder / f"{half}.parquet")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "drill-metastore-override.conf").write_text(
        f'drill.metastore.iceberg.location.base_path = "{tmp_path}/metastore"\n'
        f'drill.metastore.storage.dfs.workspaces.tmp.location = "{tmp_path}/lake"\n'
    )
    return str(tmp_path / "conf")


@pytest.mark.clusters
def test_the_job_runs_on_separate_workers(
    run_driver: Driver, bare_python: Path, conf: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two executors, each a JVM of its own, whose Python lacks the package: it analyzes, reads, modifies and calls."""
    home = tmp_path_factory.mktemp("spark-home")  # executors write to SPARK_HOME/work: not into the installed PySpark
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    (home / "work").mkdir()
    said = run_driver(
        f"EXAMPLE = {EXAMPLE!r}\n"
        + LOOK
        + """
spark, answer["said"] = run({"spark.master": "local-cluster[2,1,1024]"})
spark.stop()
""",
        METASTORE_CONF_DIR=conf,
        PYSPARK_PYTHON=str(bare_python),
        SPARK_HOME=str(home),
    )["said"]
    shutil.rmtree(home / "work")
    assert "|    6|    3|" in said
    assert "18 rows are right" in said
    assert "engine='spark'" in said
    assert "deleted_data_files_count" in said


@pytest.mark.clusters
def test_the_job_runs_over_connect(run_driver: Driver, bare_python: Path, conf: str) -> None:
    """The same, through a server whose Python lacks the package."""
    said = run_driver(
        f"EXAMPLE = {EXAMPLE!r}\n"
        + LOOK
        + """
spark, answer["said"] = run({"spark.remote": "local[2]"})
answer["session"] = type(spark).__module__
spark.stop()
""",
        METASTORE_CONF_DIR=conf,
        PYSPARK_PYTHON=str(bare_python),
        SPARK_CONNECT_MODE_ENABLED="1",
    )
    assert said["session"].startswith("pyspark.sql.connect")
    assert "|    6|    3|" in said["said"]
    assert "18 rows are right" in said["said"]
