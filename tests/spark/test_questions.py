"""What a predicate means is what Spark makes of it: the rows of scans, counts and pruning beside Spark's own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from metastore.config.settings import Settings
from metastore.session import Session, connect
from metastore.spark import read_table, select

pytestmark = pytest.mark.spark

TABLE = "dfs.tmp.t"
DAY = datetime(2020, 1, 1)
LEAST, MOST = -(2**31), 2**31 - 1
ROWS: dict[str, Any] = {
    "id": pa.array(range(4), pa.int64()),
    "far": pa.array([MOST, LEAST, 7, None], pa.int32()),
    "i": pa.array([0, 3, 44, None], pa.int32()),
    "dec": pa.array([Decimal("1.50"), Decimal("1.55"), Decimal("1.60"), Decimal("2.00")], pa.decimal128(9, 2)),
    "d": [float("nan"), 1.0, None, -0.0],
    "f": pa.array([0.1, 0.5, -1.0, None], pa.float32()),
    "s": ["2020-01-01", "a_b", "axb", None],
    "day": [date(2020, 1, 1), date(2021, 5, 31), date(1969, 12, 31), None],
    "ts": pa.array([DAY, DAY.replace(hour=1), DAY.replace(year=2021), None], pa.timestamp("us")),
    "utc": pa.array([d.replace(tzinfo=timezone.utc) for d in (DAY, DAY, DAY)] + [None], pa.timestamp("us", "UTC")),
}

QUESTIONS = [
    # A cast is to the digits of its type.
    "dec = CAST('1.55' AS DECIMAL(9, 1))", "dec != CAST('1.55' AS DECIMAL(9, 1))", "dec = CAST('1.5' AS DECIMAL)",
    "dec IN (CAST('1.5' AS DECIMAL(2, 1)), CAST('1.6' AS DECIMAL))", "dec = CAST('1.50' AS DECIMAL(9, 1))",
    "dec = 1.55BD", "i = CAST(44 AS TINYINT)", "i < CAST('3' AS DECIMAL(3, 1))", "i = CAST(3.7 AS INT)",
    # A pattern is compared with a text, as Spark spells it.
    "ts LIKE '2020-01-01'", "ts LIKE '2020-01-01 00:00:00'", "i LIKE '-0'", "i LIKE '3'", "i LIKE '4%'",
    "day LIKE '2020%'", "day LIKE '2020-01-01'", "dec LIKE '1.5'", "dec LIKE '1.50'", "utc LIKE '2020-01-01 00:00:00'",
    r"s LIKE 'a\\_b'", "s LIKE 'a_b'", "s LIKE '2020-01-01'", "s LIKE 'a!_b' ESCAPE '!'",
    "s NOT LIKE 'a!_b' ESCAPE '!'", "s NOT LIKE 'a_b' ESCAPE '!'", "s NOT LIKE 'a!%' ESCAPE '#'", "f = 0.1", "f > 0.1",
    # What both have by one name, and mean otherwise.
    "dayofweek(day) = 1", "weekday(day) = 0", "substring(s, 0, 3) = 'a_b'", "isnan(d)", "CAST(dec AS INT) = 1",
    "regexp_replace(s, '(.)_', '$1') = 'ab'",
]  # fmt: skip


WITHOUT_ANSI = [
    # What overflows is another number.
    "far + 1 < 0", "NOT (far + 1 > 0)", "far - 1 > 0", "far * 2 = -2", "-far < 0", "far > -CAST(-2147483648 AS INT)",
    "far > -(-2147483648)", "CAST(far AS SMALLINT) = -1", "far < '3000000000'", "far != '3000000000'",
    "far / 0 IS NULL", "CAST(s AS INT) IS NULL",
    # Nulls pass: Spark folds these.
    "far < 99999999999999999999", "NOT (far <= -99999999999999999999)",
    # A text makes texts of a whole list.
    "far NOT IN (7.0, '5')", "ts NOT IN ('2020-01-01')", "ts IN ('2020-01-01')", "day IN ('2020-01-01', '2021-05-31')",
]  # fmt: skip
"""Questions that are an error in ANSI mode, or have another answer."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for each row, so that what pruning excludes tells."""
    base = tmp_path_factory.mktemp("lake")
    (base / "t").mkdir()
    rows = pa.table(ROWS)
    for number in range(rows.num_rows):
        pq.write_table(rows.slice(number, 1), base / "t" / f"{number}.parquet")
    return base


@pytest.fixture(scope="module")
def ms(folder: Path) -> Iterator[Session]:
    """A session that knows the table."""
    known = {
        "drill.metastore.iceberg.location.base_path": f"{folder}/metastore",
        "drill.metastore.storage.dfs.workspaces.tmp.location": str(folder),
    }
    with connect(Settings.from_mapping(known, environ={})) as opened:
        opened.analyze(TABLE)
        yield opened


@pytest.fixture(scope="module")
def unpruned(spark: SparkSession, folder: Path) -> DataFrame:
    """All rows in Spark."""
    return spark.read.parquet(f"{folder}/t")


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_means_what_it_means_to_spark(ms: Session, unpruned: DataFrame, question: str) -> None:
    """Also under NOT: rows and counts are Spark's, and no file of such a row is pruned."""
    for asked in (question, f"NOT ({question})"):
        expected = sorted(int(row.id) for row in unpruned.where(asked).select("id").collect())
        scan = ms.tables.scan(TABLE, asked, ["id"])
        assert sorted(row["id"] for row in scan.to_arrow().to_pylist()) == expected, asked
        assert scan.count() == len(expected), asked
        kept = {int(Path(path).stem) for path in ms.prune(TABLE, asked, time_zone="UTC").paths}
        assert set(expected) <= kept, asked


@pytest.mark.exhaustive
def test_without_ansi_mode_a_question_means_what_it_means_to_spark(
    spark: SparkSession, ms: Session, unpruned: DataFrame
) -> None:
    """Where Spark judges rows and where tasks do; no file of such a row is pruned, and a query asks for no fewer."""
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        for asked in WITHOUT_ANSI:
            expected = sorted(int(row.id) for row in unpruned.where(asked).select("id").collect())
            assert set(expected) <= {int(Path(path).stem) for path in ms.prune(TABLE, asked).paths}, asked
            frames = (
                read_table(spark, ms, TABLE, asked),
                read_table(spark, ms, TABLE, asked, ["id"], row_id=True),
                select(spark, ms, f"SELECT id FROM (SELECT * FROM {TABLE}) x WHERE {asked}"),
            )
            for frame in frames:
                assert sorted(row.id for row in frame.collect()) == expected, asked
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.parametrize(
    "zone",
    [
        "+02:00",
        "Europe/Berlin",
        *(pytest.param(zone, marks=pytest.mark.exhaustive) for zone in ("Z", "GMT+2", "UTC-05:30", "+2:00", "-12:00")),
    ],
)
def test_times_without_zone_are_in_the_sessions(
    spark: SparkSession, ms: Session, unpruned: DataFrame, zone: str
) -> None:
    """Also where that is an offset: judged by Spark's reader, by Arrow, by DuckDB, and pruned by."""
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for hour in ("02:00", "00:00", "18:00"):
            question = f"utc = TIMESTAMP '2020-01-01 {hour}:00' OR utc < TIMESTAMP '2019-12-31 18:30:00'"
            for asked in (question, f"({question}) AND abs(id) >= 0"):
                expected = sorted(int(row.id) for row in unpruned.where(asked).select("id").collect())
                assert sorted(row.id for row in read_table(spark, ms, TABLE, asked, ["id"]).collect()) == expected
                if not zone.endswith(":30") or not duckdb.__version__.startswith("1."):  # which knows whole hours alone
                    scan = ms.tables.scan(TABLE, asked, ["id"], time_zone=zone)
                    assert sorted(row["id"] for row in scan.to_arrow().to_pylist()) == expected
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


def test_a_query_runs_in_a_session_with_an_offset(spark: SparkSession, ms: Session) -> None:
    """Without any question, too."""
    spark.conf.set("spark.sql.session.timeZone", "+02:00")
    try:
        assert read_table(spark, ms, TABLE).count() == 4
        assert select(spark, ms, f"SELECT id FROM {TABLE} WHERE id > 1").count() == 2
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
