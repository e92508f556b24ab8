"""Tables are read by Spark's own reader only where that finds every row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect
from metastore.spark import read_table

pytestmark = pytest.mark.spark

TABLE = "dfs.tmp.t"
NAN = float("nan")


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[Session]:
    """A session whose workspace is ``tmp_path``."""
    known = {
        "drill.metastore.iceberg.location.base_path": f"{tmp_path}/metastore",
        "drill.metastore.storage.dfs.workspaces.tmp.location": str(tmp_path),
    }
    with connect(Settings.from_mapping(known, environ={})) as opened:
        yield opened


def write(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """The Parquet files of the table."""
    for name, columns in files.items():
        path = folder / "t" / f"{name}.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table(dict(columns)), path)


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("f > 2", [0]),
        ("st.d > 2", [0]),
        ("abs(f) > 2", [0]),
        ("CAST(f AS DOUBLE) >= 2e0", [0]),
        ("f IN (1, double('NaN'))", [0, 1]),
    ],
)
def test_a_nan_is_found_though_footers_pass_over_it(
    spark: SparkSession, ms: Session, tmp_path: Path, where: str, ids: list[int]
) -> None:
    """It is above all numbers; questions that name no column of floats are left to Spark's reader."""
    nan = pa.array([NAN, 1.0], pa.float32())
    write(tmp_path, {"r=0.5/a": {"id": [0, 1], "f": nan, "st": [{"d": NAN}, {"d": 1.0}]}})
    ms.analyze(TABLE)
    assert sorted(row.id for row in read_table(spark, ms, TABLE, where).collect()) == ids
    plain = read_table(spark, ms, TABLE, "id >= 0 AND r = 0.5")
    assert "FileScan parquet" in plain._jdf.queryExecution().executedPlan().toString()


@pytest.mark.parametrize("folder", ["k=", "=v", "k=1/k=2", "k=1/K=2"])
def test_directories_that_spark_refuses_are_read(spark: SparkSession, ms: Session, tmp_path: Path, folder: str) -> None:
    """By tasks, with the values that a scan gives."""
    write(tmp_path, {f"{folder}/a": {"id": [0]}, "k=3/b": {"id": [1]}})
    ms.analyze(TABLE)
    for where in (None, "id = 0"):
        scan = ms.tables.scan(TABLE, where, ["id", "k"])
        frame = read_table(spark, ms, TABLE, where, ["id", "k"])
        assert sorted(map(tuple, frame.collect())) == sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist())


def test_moments_as_spark_writes_them_are_of_any_year(spark: SparkSession, ms: Session, tmp_path: Path) -> None:
    """By default that is INT96. Spark's reader and tasks give the same ones, beyond Arrow's nanoseconds, too."""
    spark.sql(
        "SELECT id, make_timestamp(y, 12, 31, 23, 59, 59.123456, 'UTC') at "
        "FROM VALUES (0, 9999), (1, 2), (2, 2024) t(id, y)"
    ).write.parquet(f"{tmp_path}/t")
    ms.analyze(TABLE)
    frame = read_table(spark, ms, TABLE, "at > TIMESTAMP_NTZ '2025-01-01 00:00:00'")
    assert "FileScan parquet" in frame._jdf.queryExecution().executedPlan().toString()
    by_tasks = read_table(spark, ms, TABLE, "at > TIMESTAMP_NTZ '2025-01-01 00:00:00'", row_id=True)
    assert frame.collect() == by_tasks.drop("$row_id").collect() == [(0, datetime(9999, 12, 31, 23, 59, 59, 123456))]
    found = read_table(spark, ms, TABLE)
    assert sorted(found.collect()) == sorted(read_table(spark, ms, TABLE, row_id=True).drop("$row_id").collect())
    assert sorted(row.at.year for row in found.collect()) == [2, 2024, 9999]


def test_days_of_the_old_calendar_are_found(spark: SparkSession, ms: Session, tmp_path: Path) -> None:
    """Spark writes other numbers for them than it reads, and footers have those that it writes."""
    settings = {"datetimeRebaseModeInWrite": "LEGACY", "outputTimestampType": "TIMESTAMP_MICROS"}
    days = "FROM VALUES (0, DATE '0001-01-01'), (1, DATE '1400-01-01'), (2, DATE '2020-01-01') t(id, day)"
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.parquet.{key}", value)
    try:
        rows = spark.sql(f"SELECT *, CAST(day AS TIMESTAMP) at {days}").repartitionByRange(3, "id")
        rows.write.parquet(f"{tmp_path}/t")
    finally:
        for key in settings:
            spark.conf.unset(f"spark.sql.parquet.{key}")
    ms.analyze(TABLE)
    for column in ("day", "at"):
        for number, day in enumerate(("0001-01-01", "1400-01-01", "2020-01-01")):
            found = read_table(spark, ms, TABLE, f"{column} = DATE '{day}'", ["id"])
            assert [row.id for row in found.collect()] == [number]
    assert ms.prune(TABLE, "day > DATE '2021-01-01'").files_count.kept == 2


def test_a_text_beside_a_uuid_means_the_uuid(spark: SparkSession, ms: Session, tmp_path: Path) -> None:
    """Also where Spark's own reader reads the bytes, inside structs, and in what Arrow has no words for."""
    values = [UUID(int=1), UUID("61f0c404-5cb3-11e7-907b-a6006ad3dba0"), UUID(int=2**127)]
    held = pa.array([value.bytes for value in values], pa.uuid())
    inside = pa.StructArray.from_arrays([held], fields=[pa.field("u", held.type)])
    write(tmp_path, {"a": {"id": [0, 1, 2], "u": held, "s": inside, "t": ["x", "y", "z"]}})
    ms.analyze(TABLE)
    for where, ids in {
        f"u = '{values[1]}'": [1],
        f"'{str(values[1]).upper()}' < u": [2],
        f"u NOT IN ('{values[0]}', '{values[1]}')": [2],
        f"s.u <= '{values[1]}' AND length(t) = 1": [0, 1],
    }.items():
        frame = read_table(spark, ms, TABLE, where)
        assert "FileScan parquet" in frame._jdf.queryExecution().executedPlan().toString()
        assert sorted(row.id for row in frame.collect()) == ids
    with pytest.raises(InvalidRequestError, match="column u is of type UUID: no value of it is 'y'"):
        read_table(spark, ms, TABLE, "u = 'y'")


@pytest.mark.parametrize(
    ("where", "columns", "builds"),
    [
        (None, ["id"], False),
        ("k = '1'", ["id"], False),
        ("id >= 0 AND k != 2", ["id", "k"], False),
        ("DIR1 = 'x'", ["id"], True),
        (None, ["id", "Dir0"], True),
        ("id >= 0", ["dir1"], True),
    ],
)
def test_spark_builds_its_metadata_only_for_levels_that_are_named(
    spark: SparkSession, ms: Session, tmp_path: Path, where: str | None, columns: list[str], builds: bool
) -> None:
    """Spark builds ``_metadata`` for every row as soon as a plan has it, whether a level is used afterwards or not."""
    write(tmp_path, {f"k={k}/{below}/a": {"id": [k]} for below in ("x", "y") for k in (1, 2)})
    ms.analyze(TABLE)
    frame = read_table(spark, ms, TABLE, where, columns)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert ("file_path" in plan or "row_index" in plan) == builds
    right = ms.tables.scan(TABLE, where, columns).to_arrow().to_pylist()
    assert sorted(map(tuple, frame.collect())) == sorted(tuple(row.values()) for row in right)


def test_directories_with_names_below_several_others_are_read(spark: SparkSession, ms: Session, tmp_path: Path) -> None:
    """Spark refuses them as several tables."""
    write(tmp_path, {f"{top}/k={k}/a": {"id": [k]} for top in ("x", "y") for k in (1, 2)})
    ms.analyze(TABLE)
    for where in (None, "dir0 = 'x'"):
        scan = ms.tables.scan(TABLE, where, ["id", "k"])
        frame = read_table(spark, ms, TABLE, where, ["id", "k"])
        assert sorted(map(tuple, frame.collect())) == sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist())
