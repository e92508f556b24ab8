"""Statistics taken from footers, against DuckDB's answers over the data, and where they must stay unknown."""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
import threading
import uuid
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.lake_folder import Lake

from metastore.analyze.tasks import footers as footers_module
from metastore.analyze.tasks.footers import FooterChunk, read_footers
from metastore.errors import FormatError, NotFoundError, StorageError
from metastore.lake.formats.parquet.parquet_footer import read_footer
from metastore.lake.formats.parquet.parquet_plans import FooterPlan
from metastore.lake.formats.source_file import SourceFile
from metastore.model.identity import TableInfo
from metastore.model.mapping.arrow import plain_arrow_schema
from metastore.model.statistics import ColumnStatistics
from metastore.model.statistics_json import read_holders
from metastore.model.table_unit import TableMetadataUnit
from metastore.sources.listing import list_files

UTC = dt.timezone.utc
MOMENTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
NUMBERS = st.floats(allow_nan=False)

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "boolean": (pa.bool_(), st.booleans()),
    **{
        f"{sign}int{bits}": (
            getattr(pa, f"{sign}int{bits}")(),
            st.integers(*((0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))),
        )
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), NUMBERS),
    "decimal9": (pa.decimal128(9, 2), st.decimals(-(10**6), 10**6, places=2)),
    "decimal38": (pa.decimal128(38, 10), st.decimals(-(10**27), 10**27, places=10)),
    "string": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=8)),
    "binary": (pa.binary(), st.binary(max_size=8)),
    "date": (pa.date32(), st.dates()),
    "time": (pa.time64("us"), st.times()),
    "timestamp_ms": (pa.timestamp("ms"), MOMENTS.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))),
    "timestamp_us": (pa.timestamp("us"), MOMENTS),
    "timestamp_utc": (pa.timestamp("us", "UTC"), MOMENTS.map(lambda t: t.replace(tzinfo=UTC))),
}


def one_file(path: Path, **options: Any) -> pa.Table:
    """The task's rows for all files below ``path``."""
    schema = plain_arrow_schema(TableMetadataUnit)
    chunk = FooterChunk(TableInfo("dfs", "tmp", "t"), str(path), schema, list_files(str(path)).files, **options)
    return pa.Table.from_batches(read_footers(chunk), schema)


def statistics(rows: pa.Table, kind: str) -> list[dict[str, ColumnStatistics]]:
    """Column statistics of the rows of one metadata type."""
    return [
        {key: ColumnStatistics.from_json(text) for key, text in row["columnsStatistics"]}
        for row in rows.to_pylist()
        if row["metadataType"] == kind
    ]


DUCKDB = duckdb.connect()


def duckdb_says(data: pa.Table) -> tuple[Any, ...]:
    """Minimum, maximum, nulls and non-nulls of column x."""
    counts = "count(*) - count(x) AS nulls, count(x) AS non_nulls"
    (row,) = DUCKDB.from_arrow(data).aggregate(f"min(x) AS low, max(x) AS high, {counts}").to_arrow_table().to_pylist()
    return tuple(row.values())


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_statistics_are_those_of_the_data(name: str, data: st.DataObject) -> None:
    """Bounds and counts of every row group and of the file are what DuckDB finds in the data, and exact."""
    type_, values = TYPES[name]
    column = data.draw(st.lists(st.none() | values, max_size=12))
    table = pa.table({"x": pa.array(column, type_)})
    with TemporaryDirectory() as directory:
        pq.write_table(table, f"{directory}/a.parquet", row_group_size=4)
        rows = one_file(Path(directory))
        groups = [table.slice(start, 4) for start in range(0, max(1, len(table)), 4)]
        expected = [("FILE", table), ("SEGMENT", table), *(("ROW_GROUP", group) for group in groups)]
        found = [(kind, s["`x`"]) for kind in ("FILE", "SEGMENT", "ROW_GROUP") for s in statistics(rows, kind)]
    assert len(found) == len(expected)
    for (kind, data_of), (found_kind, statistic) in zip(expected, found, strict=True):
        assert kind == found_kind
        assert (statistic.min, statistic.max, statistic.nulls, statistic.non_nulls) == duckdb_says(data_of)
        assert statistic.min_exact
        assert statistic.max_exact


def test_row_groups_tell_where_they_lie(lake: Lake, footers: Callable[..., Any]) -> None:
    """A row group's start and length enclose its pages, and row counts add up to the file's."""
    path = lake.write("a.parquet", {"x": range(10)}, row_group_size=4)
    units = footers(lake)
    groups = [read_holders(row["metadataStatistics"]) for row in units.of_type("ROW_GROUP")]
    assert [group["rowCount"] for group in groups] == [4, 4, 2]
    assert groups[0]["start"] == 4, "right behind the magic number"
    for before, after in pairwise(groups):
        assert before["start"] + before["length"] <= after["start"]
    file = read_holders(units.one("FILE")["metadataStatistics"])
    stat = Path(path).stat()
    assert file == {"rowCount": 10, "length": stat.st_size, "modificationTimeNanos": stat.st_mtime_ns}


def test_units_carry_keys_and_places(lake: Lake, footers: Callable[..., Any]) -> None:
    """Keys, identifiers, locations and paths are Drill's: the first directory, the relative name, the parent."""
    path = lake.write("1994/Q1/a.parquet", {"x": [1]})
    units = footers(lake)
    file, group = units.one("FILE"), units.one("ROW_GROUP")
    parent = str(lake.root / "1994/Q1")
    for row, identifier in ((file, "1994/Q1/a.parquet"), (group, "1994/Q1/a.parquet/0")):
        assert (row["metadataKey"], row["metadataIdentifier"]) == ("1994", identifier)
        assert (row["location"], row["path"]) == (parent, path)
    assert group["rowGroupIndex"] == 0
    assert file["rowGroupIndex"] is None


def test_names_are_taken_as_they_are(lake: Lake, footers: Callable[..., Any]) -> None:
    """A dotted name is one segment, a struct's leaf is two, a backquote is escaped, and any script will do."""
    lake.write("a.parquet", {"a.b": [1], "st": [{"a": 2, "b.c": {"x": "y"}}], "tick`": [3], "größe_数": [4]})
    found = footers(lake).one("FILE")["columnsStatistics"]
    assert {key: statistic.min for key, statistic in found.items()} == {
        "`a.b`": 1,
        "`st`.`a`": 2,
        "`st`.`b.c`.`x`": "y",
        r"`tick\``": 3,
        "`größe_数`": 4,
    }


def test_a_null_struct_is_a_null_of_its_leaves(lake: Lake, footers: Callable[..., Any]) -> None:
    """Rows without the struct count as nulls of its leaf, beside those that have the struct and lack the leaf."""
    lake.write("a.parquet", {"st": pa.array([{"a": 1}, {"a": None}, None], pa.struct([("a", pa.int32())]))})
    statistic = footers(lake).one("FILE")["columnsStatistics"]["`st`.`a`"]
    assert (statistic.nulls, statistic.non_nulls) == (2, 1)


def test_renamed_structs_are_told_apart(lake: Lake, footers: Callable[..., Any]) -> None:
    """Two files that differ only in the name of a required struct have statistics under their own names."""
    for name in ("s", "t"):
        field = pa.field(name, pa.struct([pa.field("x", pa.int64())]), nullable=False)
        table = pa.Table.from_arrays([pa.array([{"x": 1}], field.type)], schema=pa.schema([field]))
        lake.write(f"{name}.parquet", table, store_schema=False)
    assert [set(row["columnsStatistics"]) for row in footers(lake).of_type("FILE")] == [{"`s`.`x`"}, {"`t`.`x`"}]


def test_repeated_columns_have_bounds_of_plain_elements(lake: Lake, footers: Callable[..., Any]) -> None:
    """Lists and maps stand in the schema; of what they hold, plain values alone have statistics."""
    lake.write(
        "a.parquet",
        pa.table(
            {
                "l": pa.array([[1], None, []], pa.list_(pa.int64())),
                "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
                "deep": pa.array([[{"a": 1}], None, []], pa.list_(pa.struct([("a", pa.int64())]))),
                "after": pa.array([1, 2, 3]),
            }
        ),
    )
    file = footers(lake).one("FILE")
    assert set(file["columnsStatistics"]) == {"`after`", "`l`.`[element]`", "`m`.`[key]`", "`m`.`[value]`"}
    assert file["columnsStatistics"]["`after`"].max == 3
    types = {column.name: column.type for column in file["schema"].columns}
    assert types == {
        "l": "ARRAY<BIGINT>",
        "m": "MAP<VARCHAR, INT>",
        "deep": "ARRAY<STRUCT<`a` BIGINT>>",
        "after": "BIGINT",
    }


def test_types_are_spelled_as_drill_does(lake: Lake, footers: Callable[..., Any]) -> None:
    """Every Parquet type has its Drill type; what that cannot say stands in the column's properties."""
    columns = {
        "u": (pa.array([uuid.uuid4().bytes], pa.uuid()), "VARBINARY", {"metastore.logical": "uuid"}),
        "j": (pa.array(["{}"], pa.json_()), "VARCHAR", {"metastore.logical": "json"}),
        "h": (pa.array([np.float16(1.5)]), "FLOAT", {"metastore.logical": "float16"}),
        "n": (pa.nulls(1), "NULL", {}),
        "dict": (pa.array(["a"]).dictionary_encode(), "VARCHAR", {}),
        "big": (pa.array(["a"], pa.large_string()), "VARCHAR", {}),
        "fixed": (pa.array([b"ab"], pa.binary(2)), "VARBINARY", {"metastore.fixed_length": "2"}),
        "dec": (pa.array([Decimal("1.5")], pa.decimal256(70, 2)), "DECIMAL(70, 2)", {}),
        "d64": (pa.array([dt.date(2020, 1, 1)], pa.date64()), "DATE", {}),
        "t32": (pa.array([dt.time(1)], pa.time32("ms")), "TIME", {"metastore.milliseconds": "true"}),
        "ts": (pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("s")), "TIMESTAMP", {"metastore.milliseconds": "true"}),
        "tz": (pa.array([0], pa.timestamp("us", "Asia/Tokyo")), "TIMESTAMP", {"metastore.timezone": "UTC"}),
        "ns": (pa.array([1], pa.timestamp("ns")), "TIMESTAMP", {"metastore.logical": "timestamp_ns"}),
    }  # fmt: skip
    lake.write("a.parquet", pa.table({name: array for name, (array, _, _) in columns.items()}))
    found = footers(lake).one("FILE")["schema"].columns
    assert {c.name: (c.type, dict(c.properties)) for c in found} == {n: (t, p) for n, (_, t, p) in columns.items()}


@pytest.mark.parametrize("has_ids", [False, True])
def test_field_ids_of_columns_and_their_parts_are_kept(
    lake: Lake, footers: Callable[..., Any], *, has_ids: bool
) -> None:
    """A file without ids says so, which a unit of an earlier release does not."""
    mark = (lambda number: {"PARQUET:field_id": str(number)}) if has_ids else (lambda _: None)
    part = pa.field("a", pa.int64(), metadata=mark(3))
    element = pa.field("element", pa.int64(), metadata=mark(4))
    columns = [
        pa.field("s", pa.struct([part]), metadata=mark(1)),
        pa.field("l", pa.list_(element), metadata=mark(2)),
        pa.field("m", pa.map_(pa.string(), pa.int64()), metadata=mark(5)),
    ]
    lake.write("a.parquet", pa.Table.from_pylist([{"s": {"a": 1}, "l": [1], "m": [("k", 1)]}], pa.schema(columns)))
    found = json.loads(footers(lake).one("FILE")["schema"].properties["metastore.field_ids"])
    assert found == ({"`s`": 1, "`s`.`a`": 3, "`l`": 2, "`l`.`[element]`": 4, "`m`": 5} if has_ids else {})


def test_odd_types_keep_their_bounds(lake: Lake, footers: Callable[..., Any]) -> None:
    """UUIDs and fixed bytes compare as bytes, half floats as numbers, wide decimals to the last digit."""
    low, high = uuid.UUID(int=1), uuid.UUID(int=2**128 - 1)
    wide = Decimal("-" + "9" * 68 + ".99")
    lake.write(
        "a.parquet",
        pa.table(
            {
                "u": pa.array([high.bytes, low.bytes], pa.uuid()),
                "h": pa.array(np.array([1.5, -2], np.float16)),
                "dec": pa.array([wide, Decimal(0)], pa.decimal256(70, 2)),
            }
        ),
    )
    found = footers(lake).one("FILE")["columnsStatistics"]
    assert (found["`u`"].min, found["`u`"].max) == (low.bytes, high.bytes)
    assert (found["`h`"].min, found["`h`"].max) == (-2, 1.5)
    assert found["`dec`"].min == wide


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_nanoseconds_round_outwards(lake: Lake, footers: Callable[..., Any], zone: str | None) -> None:
    """A bound between two microseconds is floored or ceiled and is not exact; one on a microsecond is exact."""
    between, whole = -1_500, 2_000
    lake.write("a.parquet", {"x": pa.array([between, whole], pa.timestamp("ns", zone))})
    lake.write("b.parquet", {"x": pa.array([whole, whole + 1], pa.timestamp("ns", zone))})
    epoch = dt.datetime(1970, 1, 1, tzinfo=UTC if zone else None)
    first, second = (row["columnsStatistics"]["`x`"] for row in footers(lake).of_type("FILE"))
    assert (first.min, first.min_exact) == (epoch - dt.timedelta(microseconds=2), False)
    assert (first.max, first.max_exact) == (epoch + dt.timedelta(microseconds=2), True)
    assert (second.max, second.max_exact) == (epoch + dt.timedelta(microseconds=3), False)


def test_int96_is_unknown(lake: Lake, footers: Callable[..., Any]) -> None:
    """INT96 has no defined order: neither bounds nor counts are believed."""
    lake.write("a.parquet", {"x": [dt.datetime(2020, 1, 1)]}, use_deprecated_int96_timestamps=True)
    assert footers(lake).one("FILE")["columnsStatistics"]["`x`"] == ColumnStatistics("TIMESTAMP", rows=1)


def test_years_beyond_python_are_unknown(lake: Lake, footers: Callable[..., Any]) -> None:
    """A date or timestamp that Python cannot say leaves the bound unknown, not wrong, and does not fail."""
    lake.write(
        "a.parquet",
        {"d": pa.array([-1_000_000, 5], pa.date32()), "t": pa.array([-(2**61), 2**61], pa.timestamp("us"))},
    )
    found = footers(lake).one("FILE")["columnsStatistics"]
    assert (found["`d`"].min, found["`t`"].min, found["`t`"].max) == (None, None, None)
    assert found["`t`"].non_nulls == 2


@pytest.mark.parametrize(
    ("said", "moved"),
    [
        ({"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyDateTime": ""}, True),
        ({"org.apache.spark.version": "2.4.8"}, True),
        ({"org.apache.spark.version": "4.0.0"}, False),
        ({}, False),
    ],
)
def test_days_that_spark_moves_are_unknown(
    lake: Lake, footers: Callable[..., Any], said: dict[str, str], moved: bool
) -> None:
    """Before 1582, and moments before 1900, where Spark wrote them in the Julian calendar; later ones are known."""
    old, new, since = dt.date(1400, 1, 1), dt.date(1582, 10, 15), dt.datetime(1900, 1, 1, tzinfo=UTC)
    before = since - dt.timedelta(microseconds=1)
    for name, days, moments in (("a", [old, new], [before, since]), ("b", [new, new], [since, since])):
        columns: dict[str, Any] = {"d": pa.array(days), "t": pa.array(moments, pa.timestamp("us", "UTC")), "n": [1, 2]}
        pq.write_table(pa.table(columns).replace_schema_metadata(said), lake.root / f"{name}.parquet")
    first, second = (row["columnsStatistics"] for row in footers(lake).of_type("FILE"))
    assert [(first[f"`{c}`"].min, first[f"`{c}`"].max) for c in "dt"] == (
        [(None, None)] * 2 if moved else [(old, new), (before, since)]
    )
    assert [(second[f"`{c}`"].min, second[f"`{c}`"].max) for c in "dt"] == [(new, new), (since, since)]
    assert (first["`n`"].min, first["`d`"].non_nulls) == (1, 2)


def test_nans_leave_no_wrong_bound(lake: Lake, footers: Callable[..., Any]) -> None:
    """NaNs are never a bound, and their number is unknown: this writer passes over them."""
    lake.write(
        "a.parquet", {"x": [1.0, math.nan, 2.0], "all": [math.nan] * 3, "none": pa.array([None] * 3, pa.float64())}
    )
    found = footers(lake).one("FILE")["columnsStatistics"]
    assert (found["`x`"].min, found["`x`"].max, found["`x`"].nans) == (1.0, 2.0, None)
    assert (found["`all`"].min, found["`all`"].max, found["`all`"].nans) == (None, None, None)
    assert found["`none`"].nans == 0, "without a value there is no NaN"


def test_a_nan_among_the_bounds_spoils_both(lake: Lake, footers: Callable[..., Any], tmp_path: Path) -> None:
    """Where a foreign writer left a NaN as one bound, the other is not believed either."""
    pq.write_table(pa.table({"x": [1234.5, 2345.5]}), tmp_path / "own.parquet", store_schema=False)
    content = (tmp_path / "own.parquet").read_bytes()
    (length,) = struct.unpack("<I", content[-8:-4])
    footer = content[-8 - length :].replace(struct.pack("<d", 1234.5), struct.pack("<d", math.nan))
    path = lake.put("a.parquet", content[: -8 - length] + footer)
    in_footer: Any = pq.read_metadata(path).row_group(0).column(0).statistics
    assert math.isnan(in_footer.min), "the file is what the test says"
    assert footers(lake).one("FILE")["columnsStatistics"]["`x`"] == ColumnStatistics("FLOAT8", nulls=0, non_nulls=2)


def test_zeros_are_bounded_on_both_sides(lake: Lake, footers: Callable[..., Any]) -> None:
    """A zero bound is -0.0 below and 0.0 above, whichever the writer met first."""
    lake.write("a.parquet", {"x": [0.0], "y": [-0.0]})
    for statistic in footers(lake).one("FILE")["columnsStatistics"].values():
        assert (math.copysign(1, statistic.min), math.copysign(1, statistic.max)) == (-1, 1)


def test_without_statistics_nothing_is_claimed(lake: Lake, footers: Callable[..., Any]) -> None:
    """A footer without statistics says only how many rows there are; of a required column, that none is null."""
    schema = pa.schema([pa.field("x", pa.int64()), pa.field("r", pa.int64(), nullable=False)])
    lake.write("a.parquet", pa.table({"x": [1, 2], "r": [3, 4]}, schema), write_statistics=False)
    found = footers(lake).one("FILE")["columnsStatistics"]
    assert found["`x`"] == ColumnStatistics("BIGINT", rows=2)
    assert found["`r`"] == ColumnStatistics("BIGINT", nulls=0, non_nulls=2)


def test_one_row_group_without_bounds_spoils_the_file(lake: Lake, footers: Callable[..., Any]) -> None:
    """A bound that one row group does not know is unknown for the file and for the directory."""
    long = "x" * 10_000  # longer than this writer keeps bounds for
    lake.write("a.parquet", {"s": ["a", long, None]}, row_group_size=1)
    units = footers(lake)
    assert [row["columnsStatistics"]["`s`"].min for row in units.of_type("ROW_GROUP")] == ["a", None, None]
    for kind in ("FILE", "SEGMENT"):
        statistic = units.one(kind)["columnsStatistics"]["`s`"]
        assert (statistic.min, statistic.max, statistic.nulls) == (None, None, 1)


def created_by(content: bytes, writer: str) -> bytes:
    """A Parquet file that says another writer wrote it: the name is replaced by one of the same length."""
    (length,) = struct.unpack("<I", content[-8:-4])
    footer = content[-8 - length : -8]
    start = footer.rindex(b"parquet-cpp-arrow version")
    own = footer[start : footer.index(b"\x19", start)]
    return content.replace(own, writer.ljust(len(own)).encode()[: len(own)])


@pytest.mark.parametrize(
    ("writer", "nans", "exact"),
    [
        ("parquet-mr version 1.9.1", None, False),
        ("parquet-mr version 1.15.2", 0, False),
        ("parquet-rs version 53", None, False),
    ],
)
def test_writers_are_believed_as_far_as_their_habits_go(
    lake: Lake, footers: Callable[..., Any], tmp_path: Path, writer: str, nans: int | None, exact: bool
) -> None:
    """Only parquet-mr from 1.10 on proves by its bounds that there is no NaN; text may be cut by all but one writer."""
    wide = pa.array([Decimal(1), Decimal(2)], pa.decimal128(30, 0))
    table = pa.table({"x": [1.0, 2.0], "s": ["a", "b"], "i": [1, 2], "d": wide})
    pq.write_table(table, tmp_path / "own.parquet", store_schema=False)
    lake.put("a.parquet", created_by((tmp_path / "own.parquet").read_bytes(), writer))
    assert pq.read_metadata(lake.root / "a.parquet").created_by.strip() == writer
    found = footers(lake).one("FILE")["columnsStatistics"]
    assert found["`x`"].nans == nans
    assert found["`i`"].min_exact
    assert found["`d`"].min == (None if writer == "parquet-mr version 1.9.1" else 1), "compared as text before 1.10"
    if found["`s`"].min is not None:
        assert found["`s`"].min_exact is exact
    else:
        assert writer == "parquet-mr version 1.9.1", (
            "pyarrow hides the text bounds of writers that compared them wrongly"
        )


def test_empty_files_have_units_and_no_rows(lake: Lake, footers: Callable[..., Any]) -> None:
    """A file without rows, with or without row groups, is known with its schema and counts of zero."""
    lake.write("a.parquet", {"x": pa.array([], pa.int64())})
    with pq.ParquetWriter(lake.root / "b.parquet", pa.schema([("x", pa.int64())])):
        pass
    units = footers(lake)
    for row in units.of_type("FILE"):
        assert row["columnsStatistics"]["`x`"] == ColumnStatistics("BIGINT", nulls=0, non_nulls=0)


def test_columns_limit_statistics(lake: Lake, footers: Callable[..., Any]) -> None:
    """Only the columns asked for have statistics, a struct standing for its leaves; none is possible too."""
    lake.write("a.parquet", {"x": [1], "y": [2], "st": [{"a": 1, "b": 2}]})
    found = footers(lake, columns=(("x",), ("st",))).one("FILE")
    assert set(found["columnsStatistics"]) == {"`x`", "`st`.`a`", "`st`.`b`"}
    assert len(found["schema"].columns) == 3
    assert footers(lake, columns=()).one("FILE")["columnsStatistics"] == {}


@pytest.mark.parametrize(
    "content", [b"no parquet at all", b"PAR1", b"PAR1" + b"\xff" * 64 + struct.pack("<I", 60) + b"PAR1"]
)
def test_a_corrupt_file_is_named(lake: Lake, footers: Callable[..., Any], content: bytes) -> None:
    """A file that is no Parquet file is a FormatError that says which one it is."""
    lake.write("a.parquet", {"x": [1]})
    path = lake.put("bad.parquet", content)
    with pytest.raises(FormatError, match=path):
        footers(lake)


def test_other_stores_give_the_same_statistics(lake: Lake, footers: Callable[..., Any]) -> None:
    """Through a URI, footers are fetched several at once; rows, order and errors are those of the local disk."""
    for number in range(40):
        lake.write(f"d{number % 3}/{number}.parquet", {"x": [number]})
    uri = f"file://{lake.root}"
    remote = [(row["metadataIdentifier"], row["columnsStatistics"]) for row in footers(lake, uri).rows]
    assert remote == [(row["metadataIdentifier"], row["columnsStatistics"]) for row in footers(lake).rows]
    lake.put("d1/bad.parquet", b"nonsense")
    with pytest.raises(FormatError, match=rf"{uri}/d1/bad\.parquet"):
        footers(lake, uri)


def test_other_stores_are_asked_for_files_of_several_directories_at_once(
    lake: Lake, footers: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table with a file in each directory must not wait for one after the other."""
    together = threading.Barrier(4)
    real = footers_module._footer

    def waiting(*given: Any) -> Any:
        together.wait(timeout=60)
        return real(*given)

    for number in range(4):
        lake.write(f"d{number}/a.parquet", {"x": [number]})
    monkeypatch.setattr(footers_module, "_footer", waiting)
    assert len(footers(lake, f"file://{lake.root}").of_type("FILE")) == 4


def test_a_file_that_vanished_is_named(lake: Lake) -> None:
    """A file removed after the listing is a NotFoundError that says so."""
    gone = SourceFile((), "gone.parquet", str(lake.root / "gone.parquet"), 10, 10)
    chunk = FooterChunk(TableInfo("dfs", "tmp", "t"), str(lake.root), plain_arrow_schema(TableMetadataUnit), [gone])
    with pytest.raises(NotFoundError, match=r"gone\.parquet"):
        list(read_footers(chunk))


def test_a_store_that_fails_makes_no_file_unreadable(forbidding_s3: dict[str, str]) -> None:
    """What an object store refuses is a StorageError: the file may be as it should be."""
    file = SourceFile((), "a.parquet", "s3://bucket/t/a.parquet", 10, 10)
    schema = plain_arrow_schema(TableMetadataUnit)
    chunk = FooterChunk(TableInfo("dfs", "tmp", "t"), "s3://bucket/t", schema, [file], options=forbidding_s3)
    with pytest.raises(StorageError, match=r"cannot read s3://bucket/t/a\.parquet: Permission denied"):
        list(read_footers(chunk))


@pytest.mark.parametrize(
    "type_",
    [pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.time64("us")],
    ids=str,
)
@given(counts=st.lists(st.integers(0, 86_399_999_999), min_size=1, max_size=3))
def test_the_short_way_to_json_is_the_models_own(type_: pa.DataType, counts: list[int]) -> None:
    """Moments of any fineness are written as the statistics class writes them."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": pa.array(counts, type_)}), sink, version="2.6")
    footer = read_footer(pa.BufferReader(sink.getvalue()))
    leaf = FooterPlan.of(footer, None).leaves[0]
    bounds = leaf.measure(footer.metadata.row_group(0).column(0), len(counts))
    assert leaf.texts([bounds], [len(counts)]) == [leaf.statistics(bounds, len(counts)).to_json()]


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    """Nobody could say which of them is meant; names that differ in case are two."""
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"]), tmp_path / "a.parquet")
    with pytest.raises(FormatError, match=r"a\.parquet.*names x more than once"):
        one_file(tmp_path)
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["x", "X"]), tmp_path / "a.parquet")
    [found] = statistics(one_file(tmp_path), "FILE")
    assert (found["`x`"].max, found["`X`"].max) == (1, 2)
