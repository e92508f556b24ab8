"""Texts beside values of other types: what scans, views and materialized views make of them is what Spark says."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from support.spark_texts import known_answers, spark_answers

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect

pytestmark = pytest.mark.spark

ROWS: Final[dict[str, Any]] = {
    "id": pa.array(range(4), pa.int32()),
    "s": ["1.5", "2", " 2 ", None],
    "whole": ["2", " 3\t", "+4", None],
    "number": ["1d", "nan", "-1.5e1f", None],
    "day": ["2024-01", " 2024-1-5 ", "2024-01-06Tx", None],
    "moment": ["2024-01", "2024-01-05 10", "2024-01-05T10:00:00.5Z", None],
    "flag": [" TRUE ", "n", "1", None],
    "i": pa.array([2, 3, 5, None], pa.int32()),
    "d": [1.0, float("nan"), -15.0, None],
    "dec": pa.array([Decimal("1.00"), Decimal("2.00"), Decimal("-15.00"), None], pa.decimal128(10, 2)),
    "da": [date(2024, 1, 1), date(2024, 1, 5), date(2024, 1, 7), None],
    "ts": pa.array([*[datetime(2024, 1, 1, tzinfo=timezone.utc)] * 2, datetime(2024, 1, 5, 10, tzinfo=timezone.utc),
                    None],
                   pa.timestamp("us", "UTC")),
    "b": [True, True, True, None],
}  # fmt: skip

CONDITIONS: Final = """
s = 2; s IN (2, 7); s <> 2; s NOT IN (2); s < 3; s BETWEEN 1 AND 3; s = 2.0; s = 1.5; s IN (1.5, 2.5); s IN (2, '7')
whole = 2; whole IN (3, 4); whole <> 3; whole NOT IN (2); whole BETWEEN 3 AND 4; whole < 4; 3 = whole; whole = i
whole <=> 4; whole > 2.5; NOT whole = 2; whole IN (2, 3.0D); whole = 2e0; whole = '2'; whole IN (2, NULL)
number = 1; number = d; number <> d; number < dec; number = 1.0D; CAST(number AS DOUBLE) > 0; number = -15.0
day = da; day < DATE'2024-01-06'; CAST(day AS DATE) = da; da IN ('2024-1', '2024-01-7')
da >= '2024-1-5'; da < '2024-02'
da BETWEEN '2024' AND '2024-1-5'; to_date(day) = da; year(day) = 2024; datediff(day, '2024-01') = 4; date(day) = da
moment = ts; ts = '2024'; ts >= '2024-1-5 10'; ts BETWEEN '2024-01' AND '2024-1-2'; CAST(moment AS TIMESTAMP) > ts
ts IN ('2024-1-1', '2024-1-5T10:0:0'); CAST(moment AS TIMESTAMP_NTZ) > TIMESTAMP_NTZ'2024-1-2'; timestamp(moment) <= ts
flag = true; flag = b; b = 'yes'; b <> 'n'; CAST(flag AS BOOLEAN); NOT CAST(flag AS BOOLEAN); b = flag
i = '2'; i < ' 3 '; i IN ('2', '5'); d = '1d'; d = 'nan'; dec = '1.0'; dec <> '-15'; i = '2.0'; da = 'x'; ts = 'x'
CAST(s AS DECIMAL(3,1)) = 1.5; CAST(s AS DECIMAL) = 2; CAST(whole AS TINYINT) = 2; try_cast(s AS INT) = 2
CAST(whole AS BIGINT) + 1 = 3; CASE whole WHEN 2 THEN true ELSE false END; nullif(whole, '2') IS NULL
da = '2024-01-07 x'
isnull(s); isnotnull(s); pmod(i, 3) = 2; pmod(-i, 3) = 1; nanvl(d, 7) = 7; octet_length(whole) = 1; bit_length(s) = 8
unix_timestamp(ts) = 1704067200; unix_date(da) = 19723; unix_seconds(ts) = 1704067200; try_to_date(day) = da
trunc(da, 'MM') = '2024-1'
"""


def conditions() -> list[str]:
    """Each of the conditions."""
    return [one.strip() for line in CONDITIONS.splitlines() for one in line.split(";") if one.strip()]


def by_spark(spark: SparkSession, condition: str) -> list[int] | None:
    """The rows that pass; None where Spark has an error."""
    try:
        return sorted(row.id for row in spark.sql(f"SELECT id FROM rows_with_texts WHERE {condition}").collect())
    except PySparkException:
        return None


def by_scan(ms: Session, condition: str) -> list[int] | None:
    """The rows that pass; None where a scan has an error."""
    try:
        found: list[Any] = ms.tables.scan("dfs.tmp.t", condition).to_arrow()["id"].to_pylist()
    except InvalidRequestError:
        return None
    return sorted(found)


def test_the_table_of_texts_is_what_spark_says(spark: SparkSession) -> None:
    """In both modes, but for texts that name no day, which are of today."""
    said, known = spark_answers(spark), known_answers()
    assert said.keys() == known.keys()
    for key, answers in known.items():
        for text, expected in answers.items():
            if text[:3] not in ("10:", "1:2", "T10"):
                assert said[key][text] == expected or text.lower() in ("today", "now", "tomorrow", "yesterday"), text


@pytest.mark.exhaustive
def test_every_door_compares_texts_as_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    """A scan, a view and a materialized view by DuckDB give the rows that Spark gives, or an error that says why."""
    table = pa.table(ROWS)
    (tmp_path / "t").mkdir()
    pq.write_table(table, tmp_path / "t" / "a.parquet")
    spark.createDataFrame(table).createOrReplaceTempView("rows_with_texts")  # its Parquet reader loses NaN
    settings = Settings.from_mapping(
        {
            "drill.metastore.iceberg.location.base_path": f"{tmp_path}/metastore",
            "drill.metastore.storage.dfs.workspaces.tmp.location": str(tmp_path),
            "drill.metastore.storage.dfs.workspaces.tmp.writable": True,
        },
        environ={},
    )
    expected = {condition: by_spark(spark, condition) for condition in conditions()}
    answered = [condition for condition, rows in expected.items() if rows is not None]
    query = f"SELECT id, {', '.join(f'{one} AS c{n}' for n, one in enumerate(answered))} FROM"
    values = [tuple(row) for row in spark.sql(f"{query} rows_with_texts ORDER BY id").collect()]
    with connect(settings) as ms:
        ms.analyze("dfs.tmp.t")
        assert {condition: by_scan(ms, condition) for condition in expected} == expected
        ms.views.define("dfs.tmp.v", f"{query} t")
        ms.materialized_views.define("dfs.tmp.m", f"{query} t")
        assert ms.materialized_views.refresh("dfs.tmp.m").engine == "duckdb"
        for view in ("v", "m"):
            rows = ms.sql(f"SELECT * FROM dfs.tmp.{view} ORDER BY id").to_pylist()
            assert [tuple(row.values()) for row in rows] == values
        for condition in expected.keys() - set(answered):
            ms.views.define("dfs.tmp.e", f"SELECT id FROM t WHERE {condition}", replace=True)
            with pytest.raises(InvalidRequestError):
                ms.sql("SELECT * FROM dfs.tmp.e")
