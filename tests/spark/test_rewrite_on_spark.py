"""rewrite_data_files with its tasks on Spark: this process's session, and a cluster of two executors."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from metastore.config.settings import Settings
from metastore.session import connect
from metastore.spark import SparkEngine

pytestmark = pytest.mark.spark


def settings_in(folder: Path) -> Settings:
    """A metastore and a catalog ``lake`` in ``folder``."""
    uri = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/lake"}
    location = {"base_path": str(folder), "relative_path": "metastore"}
    return Settings.from_mapping(
        {"drill.metastore.iceberg.location": location, "drill.metastore.catalogs.lake": uri}, environ={}
    )


def test_tasks_of_a_rewrite_run_on_spark(spark: SparkSession, engine: SparkEngine, tmp_path: Path) -> None:
    """Spark reads the same rows from the new files as from the old ones; groups are told as they are done."""
    told: list[tuple[int, int]] = []
    with connect(settings_in(tmp_path), engine=engine) as session:
        catalog = session.catalogs.open("lake")
        catalog.create_namespace("default")
        table = catalog.create_table("default.t", pa.schema([("id", pa.int64()), ("names", pa.list_(pa.string()))]))
        for number in range(12):
            table.append(pa.table({"id": [number, None], "names": [[f"n{number}", None], []]}))

        def by_spark() -> list[str]:
            paths = [task.file.file_path for task in catalog.load_table("default.t").scan().plan_files()]
            return sorted(repr(row.asDict()) for row in spark.read.parquet(*paths).collect())

        before = by_spark()
        options = {"target-file-size-bytes": "6000", "max-file-group-input-files": "6", "min-file-size-bytes": "1"}
        arguments = {"schema": "default", "table_name": "t", "options": {**options, "rewrite-all": "true"}}
        call = session.procedures.call
        [row] = call("lake.system.rewrite_data_files", on_progress=lambda *at: told.append(at), **arguments).to_pylist()
        assert row["rewritten_data_files_count"] == 12
        assert row["added_data_files_count"] == len(told) >= 2
        assert told[-1] == (len(told), len(told))
        assert by_spark() == before
        assert len(before) == 24


ON_CLUSTER = """
import os, signal
import pyarrow as pa
from functools import partial
from metastore.config.settings import Settings
from metastore.session import connect
from metastore.spark import SparkEngine

def dies_once(task, marker, chunk):
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        yield from task(chunk)
    else:
        list(task(chunk))  # its files are written, and nobody will hear of them
        os.kill(os.getpid(), signal.SIGKILL)

class Dies(SparkEngine):
    def run(self, chunks, task, schema):
        return super().run(chunks, partial(dies_once, task, marker), schema)

folder = {folder!r}
marker = folder + "/marker"
settings = Settings.from_mapping({{
    "drill.metastore.iceberg.location": {{"base_path": folder, "relative_path": "metastore"}},
    "drill.metastore.catalogs.lake":
        {{"type": "sql", "uri": f"sqlite:///{{folder}}/lake.db", "warehouse": f"file://{{folder}}/lake"}},
}}, environ={{}})
engine = Dies(settings={{"spark.master": "local-cluster[2,1,1024]"}})
with connect(settings, engine=engine) as session:
    catalog = session.catalogs.open("lake")
    catalog.create_namespace("default")
    table = catalog.create_table("default.t", pa.schema([("id", pa.int64()), ("city", pa.string())]))
    with table.update_spec() as update:
        update.add_identity("city")
    for number in range(5):
        for city in ("Rome", "Oslo", "Bern"):
            table.append(pa.table({{"id": [number], "city": [city]}}))
    [row] = session.procedures.call(
        "lake.system.rewrite_data_files", schema="default", table_name="t",
        options={{"partial-progress.enabled": "true"}}, sorted_by=["id DESC"],
    ).to_pylist()
    answer |= row
    table = catalog.load_table("default.t")
    answer["rows"] = sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())
    answer["live"] = [task.file.file_path for task in table.scan().plan_files()]
engine.close()
"""


@pytest.mark.clusters
@pytest.mark.integration
def test_a_killed_process_of_a_cluster_costs_only_time(
    run_driver: Callable[..., dict[str, Any]], bare_python: Path, tmp_path: Path
) -> None:
    """Executors without the package, in processes of their own; the files of the first attempt are named by nobody."""
    home = tmp_path / "spark-home"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    (home / "work").mkdir()
    lake = tmp_path / "lake"
    lake.mkdir()
    said = run_driver(ON_CLUSTER.format(folder=str(lake)), PYSPARK_PYTHON=str(bare_python), SPARK_HOME=str(home))
    assert (said["rewritten_data_files_count"], said["added_data_files_count"], said["message"]) == (15, 3, None)
    assert said["rows"] == sorted([number, city] for number in range(5) for city in ("Rome", "Oslo", "Bern"))
    written = {str(path) for path in (lake / "lake").rglob("*.parquet")}
    # 15 old ones, 3 new ones, and those of the attempt that was killed.
    assert len(written) > 18
    assert {path.removeprefix("file://") for path in said["live"]} <= written
    shutil.rmtree(home / "work")
