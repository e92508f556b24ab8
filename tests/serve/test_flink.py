"""Apache Flink opens published tables by name: its rows are those of the plain files, and it plans few of them."""

from __future__ import annotations

import json
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from services.flink import FlinkJudge
from support.served_lake import MakeLake

FILES = 40
CONDITIONS = {
    "id >= 250 AND id <= 259": 1,
    "`day` = DATE '2026-11-03'": 2,
    "name = 'name 00700'": 1,
    "extra > 37": 1,
    "price < 0.50": 3,
}


@pytest.mark.iceberg
@pytest.mark.integration
@pytest.mark.slow
def test_rows_are_those_of_the_plain_files(
    make_lake: MakeLake, flink: FlinkJudge, caplog: pytest.LogCaptureFixture
) -> None:
    """Also of parts of structs, and of a column that half of the files lack; files planned come from its reports."""
    lake = make_lake(catalogs=["lake"], metrics_reports="log")
    for number in range(FILES):
        ids = range(number * 20, number * 20 + 20)
        columns: dict[str, Any] = {
            "id": list(ids),
            "name": [f"name {each:05d}" for each in ids],
            "price": pa.array([Decimal(each) / 100 for each in ids], pa.decimal128(9, 2)),
            "part": [{"x": each} for each in ids],
            **({} if number % 2 else {"extra": [number] * 20}),
        }
        folder = lake.folder / "data" / "t" / f"day={date(2026, 11, 1) + timedelta(days=number % 20)}"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")
    lake.sql("ANALYZE TABLE dfs.w.t REFRESH METADATA PUBLISH AS lake.shop.t")
    query = (
        "SELECT id, name, CAST(price AS VARCHAR), part.x, extra, CAST(`day` AS VARCHAR) FROM {} WHERE {} ORDER BY id"
    )
    catalog = {"catalog-type": "rest", "uri": lake.server.url, "warehouse": "lake"}
    caplog.set_level("INFO", "metastore.serve.handlers")
    found = flink(catalog, [query.format("served.shop.t", each) for each in (*CONDITIONS, "TRUE")])
    plain = f"read_parquet('{lake.folder}/data/t/*/*.parquet', union_by_name = true, hive_partitioning = true)"
    with duckdb.connect() as engine:
        for condition, rows in zip((*CONDITIONS, "TRUE"), found, strict=True):
            wanted = engine.sql(query.format(plain, condition).replace("`", '"')).fetchall()
            assert [tuple(row) for row in rows] == wanted, condition
    texts = [each.getMessage() for each in caplog.records if each.getMessage().startswith("report ")]
    reports = [json.loads(text.removeprefix("report ")) for text in texts]
    planned = [each["metrics"]["result-data-files"]["value"] for each in reports if each["filter"] is not True]
    assert planned == list(CONDITIONS.values())


@pytest.mark.iceberg
@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO served.shop.t VALUES (9)",
        "DROP TABLE served.shop.t",
        "CREATE TABLE served.shop.u (id BIGINT)",
    ],
)
def test_a_write_is_refused(make_lake: MakeLake, flink: FlinkJudge, statement: str) -> None:
    """By name: by Flink itself, as ``/v1/config`` lists no such endpoint. No file that was there is changed."""
    lake = make_lake(catalogs=["lake"])
    (lake.folder / "data" / "t").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), lake.folder / "data" / "t" / "a.parquet")
    lake.sql("ANALYZE TABLE dfs.w.t REFRESH METADATA PUBLISH AS lake.shop.t")
    before = lake.files()
    catalog = {"catalog-type": "rest", "uri": lake.server.url, "warehouse": "lake"}
    with pytest.raises(RuntimeError, match=r"Server does not support endpoint: (POST|DELETE) /v1/"):
        flink(catalog, [statement])
    assert before.items() <= lake.files().items()
    assert flink(catalog, ["SELECT id FROM served.shop.t ORDER BY id"]) == [[[1], [2]]]
