"""Conditions mean to a scan what they mean to Spark over the same files, and skip files without such rows."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from metastore.config import Settings
from metastore.session import connect
from metastore.spark import read_table, select

pytestmark = pytest.mark.spark

CONDITIONS = [
    "ts < TIMESTAMP_NTZ '2024-02-01 00:00:00'",
    "utc >= TIMESTAMP '2024-03-01 00:00:00'",
    "utc < TIMESTAMP_LTZ '2024-02-01 00:00:00' - INTERVAL 1 HOUR",
    "date(utc) = DATE '2024-02-05'",
    "CAST(ts AS DATE) IN ('2024-01-05', '2024-03-05')",
    "to_date(ts) = '2024-01-05'",
    "year(ts) = 2024 AND month(utc) = 2",
    "date_trunc('MONTH', utc) = TIMESTAMP '2024-03-01 00:00:00'",
    "trunc(ts, 'MM') = DATE '2024-03-01'",
    "quarter(ts) > 1",
    "day BETWEEN DATE '2024-01-01' AND DATE '2024-01-31' + INTERVAL 5 DAYS",
    "d = 3.0000",
    "d > 2.4999999999999999999999999999999999999",
    "d < 99999999999999999999999999999999999999",
    "i = 99999999999",
    "i + 1 = 4",
    "3 - i >= 2",
    "coalesce(i, 7) = 7",
    "left(s, 2) = 'm2'",
    "substring(s, 0, 2) = 'm3'",
    "startswith(s, 'm1')",
    "s LIKE 'm1%' OR NOT (i < 3)",
    "isnotnull(i) AND i <> 1",
    "p.x = 2",
]
ROUNDED = ["d = 2.99999", "d > 2.9999", "d < 1.0001", "d IN (1.00001, 7)"]
"""Where column and literal have more than 38 digits together, Spark rounds the literal to the column's."""


def _settings(folder: Path) -> Settings:
    given: dict[str, Any] = {
        "drill.metastore.iceberg.location.base_path": f"{folder}/metastore",
        "drill.metastore.storage.dfs.workspaces.w.location": str(folder),
    }
    return Settings.from_mapping(given, environ={})


def test_a_scan_answers_as_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Each condition, over three files of a month each; what pruning leaves holds all rows that Spark finds."""
    (tmp_path / "t").mkdir()
    for month in (1, 2, 3):
        moment = datetime(2024, month, 5, 12)
        table: dict[str, Any] = {
            "ts": pa.array([moment, None], pa.timestamp("us")),
            "utc": pa.array([moment.replace(tzinfo=timezone.utc), None], pa.timestamp("us", "UTC")),
            "day": [moment.date(), None],
            "d": pa.array([Decimal(month), None], pa.decimal128(38, 3)),
            "i": pa.array([month, None], pa.int32()),
            "s": [f"m{month}", None],
            "p": [{"x": month}, None],
            "id": [month, month + 10],
        }
        pq.write_table(pa.table(table), tmp_path / "t" / f"{month}.parquet")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        frame = spark.read.parquet(str(tmp_path / "t"))
        with connect(_settings(tmp_path)) as session:
            session.analyze("dfs.w.t")
            for condition in (*CONDITIONS, *ROUNDED):
                right = sorted(row.id for row in frame.where(condition).select("id").collect())
                found: list[Any] = session.tables.scan("dfs.w.t", condition).to_arrow()["id"].to_pylist()
                assert sorted(found) == right or condition in ROUNDED, condition
                kept = {int(Path(path).stem) for path in session.prune("dfs.w.t", condition, time_zone="UTC").paths}
                assert {number % 10 for number in right} <= kept, condition
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))


@pytest.mark.exhaustive
def test_nanoseconds_are_compared_as_spark_shows_them(spark: SparkSession, tmp_path: Path) -> None:
    """Spark holds microseconds: a condition given to read_table, or in select, is one on the whole frame."""
    (tmp_path / "t").mkdir()
    second = 1_704_067_200_000_000_000
    files: list[list[int | None]] = [[123_456_789, 123_456_001], [123_999_000, None]]
    for number, ticks in enumerate(files):
        values = [None if tick is None else second + tick for tick in ticks]
        columns: dict[str, Any] = {
            "t": pa.array(values, pa.timestamp("ns")),
            "utc": pa.array(values, pa.timestamp("ns", "UTC")),
        }
        pq.write_table(pa.table(columns), tmp_path / "t" / f"{number}.parquet")
    found = {}
    with connect(_settings(tmp_path)) as session:
        session.analyze("dfs.w.t")
        whole = read_table(spark, session, "dfs.w.t")
        for sign in ("=", "<", "<=", ">", ">=", "<>"):
            for digits in ("123456", "123456789"):
                for column, type_ in (("t", "TIMESTAMP_NTZ"), ("utc", "TIMESTAMP")):
                    zone = "+00:00" if type_ == "TIMESTAMP" else ""
                    where = f"{column} {sign} {type_} '2024-01-01 00:00:00.{digits}{zone}'"
                    chosen = read_table(spark, session, "dfs.w.t", where)
                    asked = select(spark, session, f"SELECT * FROM dfs.w.t WHERE {where}")
                    found[where] = [sorted(map(repr, frame.collect())) for frame in (whole.where(where), chosen, asked)]
    assert all(first == second == third for first, second, third in found.values())
    assert len(found["t = TIMESTAMP_NTZ '2024-01-01 00:00:00.123456789'"][0]) == 2
