"""Rows that are equal to a key in all columns, as one would find them value by value."""

from __future__ import annotations

import struct
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.lake.iceberg.rows.equal_rows import equal_to_one, in_order

NAN = float("nan")
OTHER_NAN = struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf8\x7f")[0]

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [None, 0, 1, -1, 2**63 - 1, -(2**63), 70_000_000]),
    (pa.int32(), [None, 0, 1, 2, -5]),
    (pa.float64(), [None, 0.0, -0.0, 1.5, NAN, OTHER_NAN, float("inf")]),
    (pa.string(), [None, "", "a", "b", "ä"]),
    (pa.bool_(), [None, True, False]),
    (pa.decimal128(38, 2), [None, Decimal("0.00"), Decimal("1.10"), Decimal("-1.10")]),
    (pa.binary(2), [None, b"ab", b"\0\0"]),
    (pa.date32(), [None, date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    (pa.time64("us"), [None, time(0), time(23, 59, 59, 999_999)]),
    (pa.timestamp("us", "UTC"), [None, *(datetime(year, 1, 1, tzinfo=timezone.utc) for year in (1, 1970, 9999))]),
]


def plain(value: Any) -> object:
    """A value so that Python's equality is that of equality deletes."""
    if isinstance(value, float):
        return "NaN" if value != value else struct.pack("<d", value)
    return value


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """Rows in chunks, and keys, of the same columns."""
    columns = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3))
    rows, keys = draw(st.integers(0, 12)), draw(st.integers(0, 8))
    made = []
    for type_, values in columns:
        one = draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows))
        other = draw(st.lists(st.sampled_from(values), min_size=keys, max_size=keys))
        half = len(one) // 2
        chunks = [pa.array(one[:half], type_), pa.array(one[half:], type_)]
        made.append((pa.chunked_array(chunks, type_), pa.array(other, type_)))
    return [row for row, _ in made], [key for _, key in made]


@given(tables())
def test_they_are_those_found_value_by_value(table: tuple[list[Any], list[Any]]) -> None:
    """Null equals null, NaN equals NaN whatever its bits, and zeros of other signs differ."""
    rows, keys = table
    known = {tuple(map(plain, key)) for key in zip(*(column.to_pylist() for column in keys), strict=True)}
    expected = [tuple(map(plain, row)) in known for row in zip(*(c.to_pylist() for c in rows), strict=True)]
    assert equal_to_one(rows, keys).tolist() == expected
    assert equal_to_one(rows, in_order(keys)).tolist() == expected


def test_every_nan_is_the_same() -> None:
    """Arrow tells those of other bits or signs apart; in one column, and beside another."""
    rows = pa.chunked_array([pa.array(np.array([NAN, OTHER_NAN, -NAN, 1.0]))])
    keys = pa.array(np.array([OTHER_NAN]))
    assert equal_to_one([rows], [keys]).tolist() == [True, True, True, False]
    beside = pa.chunked_array([pa.array(["a", "a", "b", "a"])])
    assert equal_to_one([rows, beside], [keys, pa.array(["a"])]).tolist() == [True, True, False, False]


@pytest.mark.parametrize("spread", [1, 1_000_003])
def test_many_keys_of_two_columns(spread: int) -> None:
    """Codes of combinations do not overflow, and no combination of two keys is taken for a third."""
    count = 50_000
    first = pa.array(np.arange(count) * spread)
    rows = [pa.chunked_array([first]), pa.chunked_array([pa.array(np.arange(count)[::-1].copy())])]
    assert equal_to_one(rows, [first, rows[1].chunk(0)]).all()
    assert not equal_to_one(rows, [first, first]).any()


ONE_COLUMN = {
    "rows in a short range": (np.arange(5_000), np.arange(-100, 10_000, 7)),
    "one row far away": (np.r_[np.arange(5_000), 1 << 40], np.arange(0, 10_000, 7)),
    "no key between the rows": (np.arange(5_000), np.arange(1 << 40, (1 << 40) + 9)),
    "keys out of order": (np.arange(5_000), np.arange(10_000, 0, -7)),
    "both in a long range": (np.arange(0, 1 << 45, 1 << 33), np.arange(0, 1 << 45, 1 << 34)),
    "the ends of the range": (np.array([-(1 << 63), (1 << 63) - 1, 0]), np.array([(1 << 63) - 1, -(1 << 63)])),
}


@pytest.mark.parametrize("case", ONE_COLUMN)
@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us")])
def test_integers_are_looked_up_in_any_range(case: str, kind: pa.DataType) -> None:
    """In chunks, one of which is empty."""
    rows, keys = ONE_COLUMN[case]
    parts: list[Any] = [pa.array(part).view(kind) for part in (rows[:3], rows[:0], rows[3:])]
    found = equal_to_one([pa.chunked_array(parts)], [pa.array(keys).view(kind)])
    assert found.tolist() == np.isin(rows, keys).tolist()
