"""Odd folders that are published, read by engines that are not ours: their rows are those of the plain files."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from procedures.publishing.conftest import Shop
from services.clickhouse import Judge as ClickHouse
from services.duckdb_iceberg import Judge as DuckDB

pytestmark = [pytest.mark.iceberg, pytest.mark.integration, pytest.mark.slow]


def _ids(first: int, **columns: Any) -> dict[str, Any]:
    return {"id": list(range(first, first + len(next(iter(columns.values()))))), **columns}


def without_statistics(shop: Shop) -> None:
    """duckdb/duckdb-iceberg#782: counts of nulls that nobody knows were taken for none."""
    for number in range(2):
        columns = _ids(number * 3, x=[1, None, 3], s=["a", None, "c"], b=[True, None, False])
        shop.write(f"k={number}/a.parquet", columns, write_statistics=False)


def null_directories(shop: Shop) -> None:
    """apache/iceberg#12886, StarRocks#41389, ClickHouse#110216: null partitions went, or all were null."""
    for number, k in enumerate(["1", "__HIVE_DEFAULT_PARTITION__", "2"]):
        shop.write(f"k={k}/a.parquet", _ids(number * 2, x=[number, None]))


def numbers_with_zeros(shop: Shop) -> None:
    """apache/iceberg#6780: 00 and 01 were numbers for one reader and texts for another."""
    for hour in ("00", "01", "10"):
        shop.write(f"day=2026-01-23/hour={hour}/a.parquet", _ids(int(hour) * 2, x=[1, 2]))


def wider_types(shop: Shop) -> None:
    """trinodb/trino#29802: bounds of the narrow type could not be read once the column was wider."""
    for number, (whole, real) in enumerate([(pa.int32(), pa.float32()), (pa.int64(), pa.float64())]):
        columns = _ids(number * 3, x=pa.array([1, None, 3], whole), y=pa.array([0.5, 1.5, None], real))
        shop.write(
            f"k={number}/a.parquet", columns | {"d": pa.array([Decimal("1.5")] * 3, pa.decimal128(5 + number, 2))}
        )
        shop.publish()


def not_numbers(shop: Shop) -> None:
    """Bounds leave NaN out, and zero has two signs."""
    shop.write("k=1/a.parquet", _ids(0, x=[1.0, math.nan, 3.0]))
    shop.write("k=1/b.parquet", _ids(3, x=[math.nan, math.nan, None]))
    shop.write("k=2/c.parquet", _ids(6, x=[-0.0, 0.0, -math.inf]))


def long_texts(shop: Shop) -> None:
    """The upper bound of a long text is cut upwards, which the last character of Unicode cannot be."""
    shop.write("a.parquet", _ids(0, s=["a" * 70, "\U0010ffff" * 70, "é" * 70]))
    shop.write("b.parquet", _ids(3, s=["b" * 63 + "\U0010ffff" * 3, "", None]))


def columns_come_and_go(shop: Shop) -> None:
    """pola-rs/polars#24915: a file without a column, or with another order, could not be read."""
    shop.write("k=1/a.parquet", _ids(0, x=[1, 2], s=["a", None]))
    shop.write("k=1/b.parquet", {"s": ["c", "d"], "id": [2, 3]})
    shop.write("k=2/c.parquet", _ids(4, y=[1.5, None]))


def names_in_any_case(shop: Shop) -> None:
    """trinodb/trino#22677: names that differ in case alone."""
    shop.write("k=1/a.parquet", {"id": [0, 1], "Name": ["a", None]})
    shop.write("k=1/b.parquet", {"ID": [2, 3], "name": ["c", "a"]})


def odd_values(shop: Shop) -> None:
    """Dates before 1970, moments with a zone, negative decimals, no rows, and escapes in directories."""
    moments = [datetime(1901, 1, 1, tzinfo=timezone.utc), datetime(2026, 8, 10, 20, 4, 53, 80_758, tzinfo=timezone.utc)]
    shop.write(
        "t=a%2Fb c+d/a.parquet",
        _ids(
            0,
            moment=pa.array(moments, pa.timestamp("us", "UTC")),
            day=[date(1901, 1, 1), date(2026, 1, 1)],
            d=pa.array([Decimal("-8.05"), Decimal("7.00")], pa.decimal128(9, 2)),
        ),
    )
    shop.write("t=x/a.parquet", pa.table(_ids(2, day=[date(2000, 2, 29)])))
    shop.write("t=x/empty.parquet", pa.table(_ids(2, day=[date(2000, 2, 29)])).slice(0, 0))


FOLDERS: dict[Callable[[Shop], None], Sequence[str]] = {
    without_statistics: ("x IS NULL", "x IS NOT NULL", "s IS NULL", "b IS NULL", "s = 'a'", "x > 1", "k = 1"),
    null_directories: ("k IS NULL", "k IS NOT NULL", "k = 1", "k IN (1, 2)", "x IS NULL AND k IS NULL"),
    numbers_with_zeros: ("hour = 0", "hour = 10", "day = '2026-01-23'", "x = 2"),
    wider_types: ("x = 3", "x < 2", "y > 1", "y IS NULL", "d > 1", "x >= 3 AND k = 1"),
    not_numbers: ("x > 2 AND x < 9", "x < 0", "x = 0", "x IS NULL", "k = 1"),
    long_texts: ("s > 'c'", "s >= 'b'", "s = ''", "s IS NULL", "s < 'b'"),
    columns_come_and_go: ("x IS NULL", "y IS NULL", "y > 1", "s = 'c'", "s IS NULL", "x = 1", "k = 2"),
    names_in_any_case: ("id > 1", "Name = 'a'", "Name IS NULL"),
    odd_values: ("day < '1970-01-01'", "day = '2000-02-29'", "d < 0", "d > 6.99", "t = 'a/b c+d'", "moment IS NULL"),
}
"""Conditions on each, in words that all engines read alike: DuckDB alone has NaN above all numbers."""


@pytest.mark.parametrize("shop", ["sql"], indirect=True)
@pytest.mark.parametrize("fill", FOLDERS)
def test_rows_are_those_of_the_plain_files(
    shop: Shop,
    fill: Callable[[Shop], None],
    duckdb_iceberg: DuckDB,
    clickhouse: ClickHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For each condition; the engines skip files by what the publication says of them."""
    fill(shop)
    shop.publish()
    conditions = ("1 = 1", *FOLDERS[fill])
    plain = f"read_parquet('{shop.root}/**/*.parquet', union_by_name = true, hive_partitioning = true)"
    with duckdb.connect() as engine:
        asked = [engine.sql(f"SELECT id FROM {plain} WHERE {condition}").fetchall() for condition in conditions]
    expected = [sorted(row for (row,) in rows) for rows in asked]
    assert len({*map(tuple, expected)}) > 1

    loaded = shop.session.catalogs.table("published", "shop", "sales").load()
    metadata, folder = loaded.metadata_location, loaded.location()
    in_duckdb = duckdb_iceberg([f"SELECT id FROM iceberg_scan('{metadata}') WHERE {each}" for each in conditions])
    assert [sorted(row for (row,) in rows) for rows in in_duckdb] == expected
    if fill is not names_in_any_case:
        in_clickhouse = clickhouse([f"SELECT id FROM icebergLocal('{folder}') WHERE {each}" for each in conditions])
        assert [sorted(map(int, text.split())) for text in in_clickhouse] == expected
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    frame = pl.scan_iceberg(metadata)
    in_polars = [frame.sql(f"SELECT id FROM self WHERE {condition}").collect()["id"] for condition in conditions]
    assert [sorted(ids.to_list()) for ids in in_polars] == expected
    filters = ["true", *conditions[1:]]
    in_pyiceberg = [shop.table.scan(row_filter=each).to_arrow().sort_by("id")["id"].to_pylist() for each in filters]
    assert in_pyiceberg == expected


@pytest.mark.parametrize("shop", ["sql"], indirect=True)
def test_what_clickhouse_reads_as_null_is_told(shop: Shop, clickhouse: ClickHouse) -> None:
    """It takes one spelling of a name from a name mapping; the result names the columns, and only these."""
    names_in_any_case(shop)
    message = shop.publish()["message"]
    folder = shop.session.catalogs.table("published", "shop", "sales").load().location()
    [found] = clickhouse([f"SELECT Name, k FROM icebergLocal('{folder}') ORDER BY k, Name"])
    assert found.splitlines() == ["a\t1", *["\\N\t1"] * 3]
    assert message == "ClickHouse reads nulls of id, Name from files that spell the name otherwise"
