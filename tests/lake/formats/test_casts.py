"""Numbers of one column whose type differs by file: each is the nearest one of the column's type, at every door."""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc
from support.tables_of_kinds import settings_of_kinds

from metastore.lake.formats.casts import cast_to_nearest
from metastore.session import connect

Write = Callable[[Path, list[Any], Any], None]
AMOUNTS = [Decimal("840.06"), Decimal("0.07"), Decimal("1234.57"), None]
WIDE = [2**53 + 1, -(2**62) - 255, None]


def distance(number: Fraction, single: float) -> Fraction:
    """How far a float is from a number."""
    return abs(Fraction(single) - number)


def neighbours(single: float) -> list[float]:
    """The next smaller and larger numbers of 32 bits."""
    [bits] = struct.unpack("<i", struct.pack("<f", single))
    return [struct.unpack("<f", struct.pack("<i", bits + step))[0] for step in (-1, 1)]


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=10))
def test_a_decimal_becomes_the_nearest_float(value: Decimal) -> None:
    """Of 64 bits as Python rounds it, and of 32 bits as no neighbour is nearer."""
    stored: Any = pa.array([value, None], pa.decimal128(38, 10))
    assert cast_to_nearest(stored, pa.float64()).to_pylist() == [float(value), None]
    single = cast_to_nearest(stored, pa.float32())[0].as_py()
    if single and value:
        own = distance(Fraction(value), single)
        assert all(own <= distance(Fraction(value), each) for each in neighbours(single))


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_integer_becomes_the_nearest_float(value: int) -> None:
    """As Python rounds it."""
    stored: Any = pa.array([value], pa.int64())
    assert cast_to_nearest(stored, pa.float64()).to_pylist() == [float(value)]


def _parquet(path: Path, values: list[Any], type_: Any) -> None:
    pq.write_table(pa.table({"c": pa.array(values, type_), "s": _structs(values, type_)}), path)


def _orc(path: Path, values: list[Any], type_: Any) -> None:
    orc.write_table(pa.table({"c": pa.array(values, type_), "s": _structs(values, type_)}), path)


def _structs(values: list[Any], type_: Any) -> Any:
    return pa.array([{"x": value, "l": [value]} for value in values], pa.struct([("x", type_), ("l", pa.list_(type_))]))


def _avro(path: Path, values: list[Any], type_: Any) -> None:
    number: Any = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
    if not pa.types.is_decimal(type_):
        number = "long" if pa.types.is_integer(type_) else "double"
    listed = {"type": "array", "items": ["null", number]}
    fields = [{"name": "x", "type": ["null", number]}, {"name": "l", "type": listed}]
    record = {"type": "record", "name": "s", "fields": fields}
    schema = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "c", "type": ["null", number]}, {"name": "s", "type": record}],
    }
    rows = [{"c": value, "s": {"x": value, "l": [value]}} for value in values]
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows)


@pytest.mark.parametrize("write", [_parquet, _orc, _avro])
@pytest.mark.parametrize(("values", "type_"), [(AMOUNTS, pa.decimal128(6, 2)), (WIDE, pa.int64())])
@pytest.mark.parametrize("case_sensitive", [True, False])
def test_values_are_the_nearest_at_every_door(
    tmp_path: Path,
    write: Callable[[Path, list[Any], Any], None],
    values: list[Any],
    type_: Any,
    *,
    case_sensitive: bool,
) -> None:
    """In columns, fields of structs and elements of lists, for files known and new, whether asked for or not."""
    suffix = write.__name__[1:]
    table = tmp_path / "lake" / "t"
    table.mkdir(parents=True)
    write(table / f"a.{suffix}", values, type_)
    write(table / f"b.{suffix}", [184.7], pa.float64())
    want = sorted([*(float(value) for value in values if value is not None), 184.7])
    with connect(settings_of_kinds(tmp_path)) as session:
        session.analyze("dfs.w.t", case_sensitive=case_sensitive)
        for _ in range(2):
            scan = session.tables.scan("dfs.w.t")
            rows = [row for row in scan.to_arrow().to_pylist() if row["c"] is not None]
            assert sorted(row["c"] for row in rows) == want
            assert sorted(row["s"]["x"] for row in rows) == want
            assert sorted(row["s"]["l"][0] for row in rows) == want
            by_sql: list[Any] = session.sql("SELECT c FROM dfs.w.t WHERE c IS NOT NULL").column(0).to_pylist()
            assert sorted(by_sql) == want
            of_dataset: list[Any] = scan.to_arrow_dataset().to_table(["c"])["c"].drop_null().to_pylist()
            assert sorted(of_dataset) == want
            assert scan.aggregate(["min(c)", "max(c)"]).to_pylist() == [{"min(c)": want[0], "max(c)": want[-1]}]
            for value in want:
                assert session.tables.scan("dfs.w.t", f"c = {value!r}").count() == want.count(value)
                assert session.tables.scan("dfs.w.t", f"s.x = {value!r}").count() == want.count(value)
            more = float(values[0] or 0)
            write(table / f"new.{suffix}", [values[0]], type_)
            want = sorted([*want, more])
