"""The data source where the package is not installed: on a cluster's executors, and on a Connect server."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from metastore.session import connect

pytestmark = [pytest.mark.clusters, pytest.mark.spark, pytest.mark.integration]

Driver = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with one analyzed table of five rows."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "data" / "sales").mkdir(parents=True)
    pq.write_table(pa.table({"id": range(5)}), folder / "data" / "sales" / "part.parquet")
    file = folder / "site.conf"
    file.write_text(
        f'drill.metastore.iceberg.location {{ base_path = "{folder}", relative_path = "metastore" }}\n'
        f'drill.metastore.storage.dfs.workspaces.shop.location = "{folder}/data"\n'
    )
    with connect(file) as session:
        session.analyze("dfs.shop.sales")
    return file


SCRIPT = """
import metastore
from metastore.spark import SparkEngine, register, register_source
engine = SparkEngine(settings={settings})
spark = engine.spark
register_source(spark)
load = lambda name: spark.read.format("metastore").option("conf", {conf!r}).load(name)
answer["files"] = [row.PATH for row in load("information_schema.files").collect()]
answer["units"] = load("metastore.components.tables").count()
answer["rows"] = sorted(row.id for row in load("dfs.shop.sales").where("id > 2").collect())
with metastore.connect({conf!r}) as ms:
    answer["views"] = register(spark, ms)
    answer["viewed"] = spark.table("information_schema_tables").where("TABLE_NAME = 'sales'").count()
engine.close()
"""


@pytest.fixture(scope="module", params=["cluster", "connect"])
def said(
    request: pytest.FixtureRequest,
    run_driver: Driver,
    bare_python: Path,
    conf: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Any]]:
    """What a driver said whose Spark runs a Python with every library but this one."""
    if request.param == "connect":
        script = SCRIPT.format(settings={"spark.remote": "local[2]"}, conf=str(conf))
        yield run_driver(script, PYSPARK_PYTHON=str(bare_python), SPARK_CONNECT_MODE_ENABLED="1")
        return
    home = tmp_path_factory.mktemp("spark-home")  # executors write to SPARK_HOME/work: not into the installed PySpark
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    (home / "work").mkdir()
    script = SCRIPT.format(settings={"spark.master": "local-cluster[2,1,1024]"}, conf=str(conf))
    yield run_driver(script, PYSPARK_PYTHON=str(bare_python), SPARK_HOME=str(home))
    shutil.rmtree(home / "work")


def test_the_source_works_where_the_package_is_sent(said: dict[str, Any], conf: Path) -> None:
    """INFORMATION_SCHEMA, a component, an analyzed table, and views."""
    assert said["files"] == [str(conf.parent / "data" / "sales" / "part.parquet")]
    assert said["units"] > 3
    assert said["rows"] == [3, 4]
    assert "components_tables" in said["views"]
    assert said["viewed"] == 1
