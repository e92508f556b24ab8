"""Situations that users reported to other projects about tables over plain files, each published here."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from procedures.publishing.conftest import Shop
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.types import PrimitiveType


def _files(shop: Shop) -> list[DataFile]:
    return [task.file for task in shop.table.scan().plan_files()]


def _bounds(shop: Shop, column: str) -> tuple[Any, Any]:
    field, [file] = shop.table.schema().find_field(column), _files(shop)
    assert isinstance(field.field_type, PrimitiveType)
    low, high = file.lower_bounds[field.field_id], file.upper_bounds[field.field_id]
    return from_bytes(field.field_type, low), from_bytes(field.field_type, high)


@pytest.mark.parametrize("shop", ["sql"], indirect=True)
def test_bounds_of_moments_have_all_microseconds(shop: Shop) -> None:
    """delta-io/delta#7444: an upper bound cut to milliseconds let readers skip the file with the last rows."""
    last = datetime(2026, 8, 10, 20, 4, 53, 80_758, tzinfo=timezone.utc)
    shop.write("a.parquet", {"at": pa.array([last.replace(microsecond=1), last], pa.timestamp("us", "UTC"))})
    shop.publish()
    assert _bounds(shop, "at")[1] == round(last.timestamp() * 1_000_000)
    assert shop.planned("at >= '2026-08-10T20:04:53.080758+00:00'") == 1
    assert shop.planned("at > '2026-08-10T20:04:53.080758+00:00'") == 0


@pytest.mark.parametrize("shop", ["sql"], indirect=True)
def test_bounds_of_negative_decimals(shop: Shop) -> None:
    """apache/incubator-xtable#608: bounds of -8.00 and -5.00 were written as 0.8 and 0.5."""
    values = [Decimal("-8.00"), Decimal("-5.00"), None]
    shop.write("a.parquet", {"d": pa.array(values, pa.decimal128(7, 2))})
    shop.publish()
    assert _bounds(shop, "d") == (Decimal("-8.00"), Decimal("-5.00"))
    assert (shop.planned("d < -8"), shop.planned("d < -7")) == (0, 1)


def test_values_of_directories_are_decoded(shop: Shop) -> None:
    """apache/iceberg#7612: values stayed encoded, so that a filter by the real value found nothing."""
    values = {"11%2F12%2F13": "11/12/13", "a b": "a b", "a+b": "a+b", "50%25": "50%"}
    for written in values:
        shop.write(f"s={written}/a.parquet", {"x": [1]})
    shop.publish()
    assert sorted(file.partition[0] for file in _files(shop)) == sorted(values.values())
    for value in values.values():
        assert shop.table.scan(row_filter=f"s = '{value}'").to_arrow()["s"].to_pylist() == [value]


def test_a_null_directory_is_null(shop: Shop) -> None:
    """duckdb/ducklake#1014: it became the text "null"; apache/iceberg-python#1401: columns of directories were null."""
    shop.write("tag=__HIVE_DEFAULT_PARTITION__/a.parquet", {"x": [1]})
    shop.write("tag=null/a.parquet", {"x": [2]})
    shop.write("tag=t/a.parquet", {"x": [3]})
    shop.publish()
    rows = shop.table.scan().to_arrow().sort_by("x")
    assert rows["tag"].to_pylist() == [None, "null", "t"]
    assert (shop.planned("tag is null"), shop.planned("tag = 'null'")) == (1, 1)


def test_a_new_table_has_one_partition_spec(shop: Shop) -> None:
    """apache/incubator-xtable#871: an unused first spec made engines refuse the table as one that evolved."""
    shop.write("k=1/a.parquet", {"x": [1]})
    shop.publish()
    shop.write("k=2/a.parquet", {"x": [1]})
    shop.publish()
    assert [spec.spec_id for spec in shop.table.metadata.partition_specs] == [0]
    assert [field.name for field in shop.table.spec().fields] == ["k"]


@pytest.mark.parametrize("shop", ["sql"], indirect=True)
def test_each_file_has_its_own_schema(shop: Shop) -> None:
    """apache/incubator-xtable#901: the schema was that of the newest file alone, and directories gave no column."""
    shop.write("k=1/a.parquet", {"x": pa.array([1], pa.int32())})
    shop.write("k=1/b.parquet", {"y": ["only here"]})
    shop.write("k=2/c.parquet", {"x": pa.array([2**40], pa.int64())})
    shop.publish()
    assert shop.rows() == shop.plain()
    assert {"x", "y", "k"} == set(shop.table.schema().column_names)
