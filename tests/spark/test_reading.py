"""Exactly the named files are read, with their partition columns, however they are called."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from metastore.spark import read_files
from metastore.spark.reading import _listed_by_the_driver

pytestmark = pytest.mark.spark

NAMES = ["plain", "a b", "[1]", "{x,y}", "st*r", "per%20cent", "quest?on", "ha#sh", "back\\slash", "日本", "q'uote"]
SCHEMA = StructType(
    [StructField("year", LongType()), StructField("city", StringType()), StructField("dotted.na`me", LongType())]
)
"""Partition columns first, where Spark would put them last."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """year=…/city=…/<name>.parquet for every odd name, in directories with odd names, one row per file."""
    base = tmp_path_factory.mktemp("base [x] *")
    for number, name in enumerate(NAMES):
        folder = base / f"year={2000 + number % 3}" / f"city=New York {number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"dotted.na`me": pa.array([number], pa.int64())}), folder / f"{name}.parquet")
    return base


def test_every_file_is_read_with_its_partition_columns(spark: SparkSession, table: Path) -> None:
    """Each odd name alone, as a name and not a pattern, in the schema's order of columns."""
    for number, name in enumerate(NAMES):
        file = str(table / f"year={2000 + number % 3}" / f"city=New York {number % 2}" / f"{name}.parquet")
        frame = read_files(spark, str(table), SCHEMA, [file])
        assert frame.columns == SCHEMA.names
        assert [tuple(row) for row in frame.collect()] == [(2000 + number % 3, f"New York {number % 2}", number)]


def test_only_the_named_files_are_read(spark: SparkSession, table: Path) -> None:
    """More files than Spark lists without a job, and not one more; without a schema Spark finds it."""
    many = table.parent / f"{table.name} many"
    many.mkdir()
    for number in range(60):
        pq.write_table(pa.table({"n": [number]}), many / f"part={number}.parquet")
    chosen = [str(many / f"part={number}.parquet") for number in range(10, 55)]
    context = spark.sparkContext
    context.setJobGroup("read_files", "what reading takes before anything is asked of the frame")
    frame = read_files(spark, str(many), StructType([StructField("n", LongType())]), chosen)
    context._jsc.sc().listenerBus().waitUntilEmpty()
    assert list(context.statusTracker().getJobIdsForGroup("read_files")) == []
    context.setJobGroup("tests", "everything after")
    assert sorted(row.n for row in frame.collect()) == list(range(10, 55))
    assert sorted(row.n for row in read_files(spark, str(many), None, chosen).collect()) == list(range(10, 55))


def test_settings_are_as_before(spark: SparkSession, table: Path) -> None:
    """Reading leaves no trace on the caller's session, not even after an error."""
    before = spark.conf.getAll
    with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
        read_files(spark, str(table), SCHEMA, [str(table / f"gone-{number}.parquet") for number in range(50)])
    assert spark.conf.getAll == before


def test_settings_are_as_before_whichever_thread_is_the_last(spark: SparkSession) -> None:
    """Of two that list files at the same time each would else take the other's setting for the owner's."""
    before = spark.conf.getAll
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(_listed_by_the_driver(spark, 1000))
        second.enter_context(_listed_by_the_driver(spark, 2000))
        first.close()
    assert spark.conf.getAll == before


@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_no_files_are_an_empty_table(spark: SparkSession, table: Path, schema: StructType | None) -> None:
    """With all columns of the table, partition columns too."""
    frame = read_files(spark, str(table), schema, [])
    assert sorted(frame.columns) == sorted(SCHEMA.names)
    assert frame.count() == 0
