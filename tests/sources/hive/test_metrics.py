"""Counts and bounds of footers against the data that Arrow reads out of the files: exact ones, and never too narrow."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc
from pyiceberg.conversions import from_bytes
from pyiceberg.types import PrimitiveType

from metastore.procedures.hive.metrics import FRAGMENT, FileToRead, MetricsChunk, read_metrics
from metastore.sources.hive.tables import HiveFormat
from metastore.sources.hive.types import iceberg_type, parse

CODECS = ("uncompressed", "zlib", "snappy", "lz4", "zstd")
EPOCH = datetime(1970, 1, 1)
NEAR_1970 = st.datetimes(EPOCH - timedelta(seconds=2), EPOCH + timedelta(seconds=2))
COLUMNS: dict[str, tuple[str, pa.DataType, Any]] = {
    "i": ("int", pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "small": ("smallint", pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "l": ("bigint", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "widened": ("bigint", pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "f": ("float", pa.float32(), st.floats(width=32)),
    "d": ("double", pa.float64(), st.floats()),
    "s": ("string", pa.string(), st.text(alphabet="ab\U0010ffff\ud7ffé", max_size=40)),
    "any": ("string", pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    "c": ("char(5)", pa.string(), st.text(alphabet="ab ", max_size=5)),
    "b": ("binary", pa.binary(), st.binary(max_size=20)),
    "flag": ("boolean", pa.bool_(), st.booleans()),
    "day": ("date", pa.date32(), st.dates(date(1, 1, 1), date(9999, 12, 31))),
    "ts": ("timestamp", pa.timestamp("us"), st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)) | NEAR_1970),
    "dec": ("decimal(9,2)", pa.decimal128(9, 2), st.decimals(-9999999, 9999999, places=2)),
    "big": ("decimal(38,10)", pa.decimal128(30, 10), st.decimals(-(10**18), 10**18, places=10)),
}


def measured(path: Path, format_: HiveFormat, columns: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The one row that the task makes of the file."""
    file = FileToRead(0, str(path), path.stat().st_size, format_)
    [batch] = read_metrics(MetricsChunk(tuple((name, parse(text)) for name, text in columns), [file]))
    assert batch.schema.equals(FRAGMENT)
    [row] = batch.to_pylist()
    return dict(row)


def bounds(row: dict[str, Any], columns: Sequence[tuple[str, str]]) -> Iterator[tuple[str, Any, Any]]:
    """Each column's bounds, as PyIceberg reads them out of a manifest."""
    for at, (name, text) in enumerate(columns):
        type_ = iceberg_type(parse(text), (name,), is_moment=lambda _: False, next_id=lambda: 1)
        assert isinstance(type_, PrimitiveType)
        low, high = row["lower"][at], row["upper"][at]
        yield name, None if low is None else from_bytes(type_, low), None if high is None else from_bytes(type_, high)


def comparable(value: Any) -> Any:
    """A value of Arrow's in the terms of bounds: days and microseconds."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)
    return (value - EPOCH.date()).days if isinstance(value, date) else value


def hold(row: dict[str, Any], columns: Sequence[tuple[str, str]], rows: pa.Table) -> None:
    """Counts are those of the data, and no value lies beyond a bound."""
    assert row["error"] is None
    assert row["records"] == rows.num_rows
    for at, (name, low, high) in enumerate(bounds(row, columns)):
        values = [comparable(value) for value in rows[name].to_pylist() if value is not None]
        if row["values"][at] is not None:
            assert (row["values"][at], row["nulls"][at]) == (rows.num_rows, rows.num_rows - len(values)), name
        for value in values:
            if value == value:  # no NaN: bounds leave those out
                assert low is None or low <= value, (name, low, value)
                assert high is None or value <= high, (name, value, high)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows of every type, with nulls; few, so that examples of a group that begins with something odd are many."""
    count = draw(st.integers(0, 7))
    arrays = {
        name: pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), type_)
        for name, (_, type_, values) in COLUMNS.items()
    }
    return pa.table(arrays)


NAMED = [(name, text) for name, (text, _, _) in COLUMNS.items()]


@given(rows=tables(), group=st.integers(1, 4), legacy=st.booleans())
def test_parquet(rows: pa.Table, group: int, legacy: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Any rows, in any row groups; timestamps as INT96 too, which have no bounds."""
    path = tmp_path_factory.mktemp("parquet") / "file"
    pq.write_table(rows, str(path), row_group_size=group, use_deprecated_int96_timestamps=legacy)
    row = measured(path, HiveFormat.PARQUET, NAMED)
    hold(row, NAMED, rows)
    if legacy:
        assert {name: (low, high) for name, low, high in bounds(row, NAMED)}["ts"] == (None, None)


@given(rows=tables(), codec=st.sampled_from(CODECS))
def test_orc(rows: pa.Table, codec: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Any rows, by every codec that the writer has."""
    path = tmp_path_factory.mktemp("orc") / "file"
    stored = rows.set_column(rows.schema.get_field_index("ts"), "ts", rows["ts"].cast(pa.timestamp("ns")))
    orc.write_table(stored, str(path), compression=codec)
    read = orc.read_table(str(path))
    read = read.set_column(read.schema.get_field_index("ts"), "ts", read["ts"].cast(pa.timestamp("us"), safe=False))
    hold(measured(path, HiveFormat.ORC, NAMED), NAMED, read)


def test_nans_at_the_start_of_a_group_of_rows(tmp_path: Path) -> None:
    """ORC's writers lose what comes after one, which is why floating-point columns of ORC have no bounds."""
    values = [1.0] * 10_000 + [float("nan"), 100.0] + [1.0] * 9_998
    orc.write_table(pa.table({"d": values}), str(tmp_path / "file"), row_index_stride=10_000)
    row = measured(tmp_path / "file", HiveFormat.ORC, [("d", "double")])
    assert (row["values"], row["nulls"], row["lower"], row["upper"]) == ([20_000], [0], [None], [None])


def test_bounds_are_there_where_they_can_be(tmp_path: Path) -> None:
    """Not only never wrong: plain data has both bounds of every type, in both formats."""
    rows = pa.table(
        {
            "i": pa.array([3, 1, None], pa.int32()),
            "s": ["b" * 20, "a" * 20, None],
            "day": [date(2024, 1, 2), date(2024, 1, 1), None],
            "dec": pa.array([Decimal("1.25"), Decimal("-1.50"), None], pa.decimal128(9, 2)),
        }
    )
    named = [(name, COLUMNS[name][0]) for name in rows.column_names]
    expected = {
        "i": (1, 3),
        "s": ("a" * 16, "b" * 15 + "c"),
        "day": (19723, 19724),
        "dec": (Decimal("-1.50"), Decimal("1.25")),
    }
    pq.write_table(rows, str(tmp_path / "parquet"))
    orc.write_table(rows, str(tmp_path / "orc"))
    for format_, name in ((HiveFormat.PARQUET, "parquet"), (HiveFormat.ORC, "orc")):
        row = measured(tmp_path / name, format_, named)
        assert {column: (low, high) for column, low, high in bounds(row, named)} == expected
        assert row["nulls"] == [1, 1, 1, 1]


@pytest.mark.parametrize("format_", [HiveFormat.PARQUET, HiveFormat.ORC])
def test_days_of_the_old_calendar_make_no_bounds(format_: HiveFormat, tmp_path: Path) -> None:
    """Readers disagree on which days they are."""
    rows = pa.table({"day": [date(1500, 1, 1), date(2024, 1, 1)]})
    (pq if format_ is HiveFormat.PARQUET else orc).write_table(rows, str(tmp_path / "file"))
    [(_, low, high)] = bounds(measured(tmp_path / "file", format_, [("day", "date")]), [("day", "date")])
    assert (low, high) == (None, 19723)


@pytest.mark.parametrize("format_", [HiveFormat.PARQUET, HiveFormat.ORC])
def test_columns_are_found_by_name_in_any_order_and_case(format_: HiveFormat, tmp_path: Path) -> None:
    """Also within structs; lists and maps have sizes only; a column too many does not shift the others."""
    rows = pa.table(
        {
            "Extra": [{"deep": ["x"]}],
            "LIST": [[1, 2]],
            "St": pa.array([{"X": 5, "more": 1, "y": "a"}]),
            "ID": [7],
        }
    )
    (pq if format_ is HiveFormat.PARQUET else orc).write_table(rows, str(tmp_path / "file"))
    columns = [("id", "bigint"), ("st", "struct<x:bigint,y:string>"), ("list", "array<bigint>"), ("gone", "int")]
    row = measured(tmp_path / "file", format_, columns)
    packed = struct.pack("<q", 7), struct.pack("<q", 5), b"a", None, None
    assert tuple(row["lower"]) == tuple(row["upper"]) == packed
    assert row["values"] == [1, 1, 1, None, None]


def test_names_by_position(tmp_path: Path) -> None:
    """The first ORC writers called columns by their number."""
    orc.write_table(pa.table({"_col0": [1], "_col1": ["a"]}), str(tmp_path / "file"))
    row = measured(tmp_path / "file", HiveFormat.ORC, [("id", "bigint"), ("s", "string"), ("later", "int")])
    assert row["lower"] == [struct.pack("<q", 1), b"a", None]


@pytest.mark.parametrize("count", [0, 1, 3, 5_000])
def test_avro_rows_are_counted(count: int, tmp_path: Path) -> None:
    """Over any number of blocks, as fastavro wrote them; a file that was cut short is refused."""
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "id", "type": ["null", "long"]}, {"name": "s", "type": "string"}],
    }
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"id": at, "s": "x" * 50} for at in range(count)], sync_interval=500)
    (tmp_path / "file").write_bytes(out.getvalue())
    row = measured(tmp_path / "file", HiveFormat.AVRO, [("id", "bigint"), ("s", "string")])
    assert (row["error"], row["records"], row["lower"]) == (None, count, [None, None])
    (tmp_path / "file").write_bytes(out.getvalue()[:-1])
    assert measured(tmp_path / "file", HiveFormat.AVRO, [("id", "bigint"), ("s", "string")])["error"]


@pytest.mark.parametrize("format_", [HiveFormat.PARQUET, HiveFormat.ORC, HiveFormat.AVRO])
@pytest.mark.parametrize("content", [b"", b"x", b"PAR1", b"ORC", b"Obj\x01", b"\x00" * 100, b"ORC" + b"\xff" * 50])
def test_what_is_no_file_of_the_format_is_named(format_: HiveFormat, content: bytes, tmp_path: Path) -> None:
    """In its row, so that the others are still read."""
    (tmp_path / "broken").write_bytes(content)
    row = measured(tmp_path / "broken", format_, [("id", "bigint")])
    assert "/broken: " in row["error"]
    assert row["records"] is None


@given(noise=st.binary(max_size=60), at=st.integers(0, 200))
def test_no_bytes_bring_the_reader_of_orc_down(noise: bytes, at: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A good file with noise in it is read, or named."""
    out = io.BytesIO()
    orc.write_table(pa.table({"id": list(range(10)), "s": ["a"] * 10}), out)
    content = bytearray(out.getvalue())
    at = max(0, len(content) - 1 - at)
    content[at : at + len(noise)] = noise[: len(content) - at]
    path = tmp_path_factory.mktemp("noise") / "file"
    path.write_bytes(content)
    row = measured(path, HiveFormat.ORC, [("id", "bigint"), ("s", "string")])
    assert (row["error"] is None) == (row["records"] is not None)


def test_moments_keep_their_zone_out_of_the_bounds(tmp_path: Path) -> None:
    """A timestamp in UTC is its microseconds, whatever the zone it was given in."""
    moment = datetime(2024, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    pq.write_table(pa.table({"t": pa.array([moment], pa.timestamp("us", "UTC"))}), str(tmp_path / "file"))
    row = measured(tmp_path / "file", HiveFormat.PARQUET, [("t", "timestamp")])
    assert row["lower"] == row["upper"] == [struct.pack("<q", int(moment.timestamp()) * 1_000_000)]
