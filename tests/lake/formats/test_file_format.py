"""Statistics of files without footers, against DuckDB's answers over what was written into them."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import math
from collections.abc import Callable
from contextlib import ExitStack
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.lake_folder import Lake

from metastore.analyze.declared_schema import declared_schema
from metastore.analyze.tasks.file_rows import DataChunk, read_files
from metastore.errors import EngineError, FormatError, NotFoundError
from metastore.lake.formats.file_format import Opening
from metastore.lake.formats.names import format_record
from metastore.lake.formats.text.json_files import documents, pieces
from metastore.lake.formats.text.text_options import TextOptions
from metastore.model.identity import TableInfo
from metastore.model.mapping.arrow import plain_arrow_schema
from metastore.model.sketches.description import Describing, Description, descriptions_in
from metastore.model.statistics import ColumnStatistics
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.tuple_schema import TupleSchema
from metastore.sources.listing import list_files

UTC = dt.timezone.utc
SCHEMA = plain_arrow_schema(TableMetadataUnit)
MOMENTS = st.datetimes(dt.datetime(1700, 1, 2), dt.datetime(2200, 12, 30))
"""What nanoseconds can say, which ORC files are read in."""
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "flag": (pa.bool_(), st.booleans()),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "double": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "price": (pa.decimal128(9, 2), st.decimals(-(10**6), 10**6, places=2)),
    "wide": (pa.decimal128(38, 10), st.decimals(-(10**27), 10**27, places=10)),
    "text": (pa.string(), TEXT.map(lambda text: f"t{text}")),
    "bytes": (pa.binary(), st.binary(max_size=8)),
    "day": (pa.date32(), st.dates()),
    "clock": (pa.time64("us"), st.times()),
    "local": (pa.timestamp("us"), MOMENTS),
    "utc": (pa.timestamp("us", "UTC"), MOMENTS.map(lambda t: t.replace(tzinfo=UTC))),
}
HELD = {
    "orc": set(TYPES) - {"clock"},
    "avro": set(TYPES),
    "csv": {"flag", "long", "double", "text", "day", "local"},
    "tsv": {"flag", "long", "double", "text", "day", "local"},
    "json": {"flag", "long", "double", "text"},
}
"""The types that a format holds, or that values show by themselves."""


def row_of(location: Path, format_: str, **options: Any) -> dict[str, Any]:
    """The one FILE row of a directory."""
    files = list_files(str(location)).files
    chunk = DataChunk(TableInfo("dfs", "tmp", "t"), str(location), SCHEMA, files, format_.upper(), **options)
    [row] = pa.Table.from_batches(read_files(chunk), SCHEMA).to_pylist(maps_as_pydicts="strict")
    return dict(row)


def statistics(row: dict[str, Any]) -> dict[str, ColumnStatistics]:
    """Column statistics by name."""
    return {key.strip("`"): ColumnStatistics.from_json(text) for key, text in row["columnsStatistics"].items()}


def described(row: dict[str, Any], column: str) -> Description:
    """The description of a column."""
    found = descriptions_in(row["additionalMetadata"])[f"`{column}`"]
    assert found is not None
    return found


@pytest.mark.parametrize("suffix", HELD)
@settings(max_examples=15)
@given(data=st.data())
def test_statistics_are_those_of_the_data(new_lake: Callable[[Path], Any], suffix: str, data: st.DataObject) -> None:
    """Bounds, counts and distinct values of every column are what DuckDB finds in the data, and exact."""
    rows = data.draw(st.integers(0, 12))
    columns = {
        name: pa.array(data.draw(st.lists(st.none() | TYPES[name][1], min_size=rows, max_size=rows)), TYPES[name][0])
        for name in sorted(HELD[suffix])
    }
    table = pa.table(columns)
    with TemporaryDirectory() as folder:
        lake = new_lake(Path(folder) / "lake")
        lake.write(f"a.{suffix}", table)
        if not list_files(str(lake.root)).files:  # a file of no bytes holds no rows, and is not listed
            return
        # Arrow writes backslashes as text, not as Spark does.
        row = row_of(lake.root, suffix, describing=Describing(), text=TextOptions.of({"escape": '"'}))
    found = statistics(row)
    for name in columns if found else ():
        asked = f"min({name}) AS low, max({name}) AS high, count({name}) AS held, count(DISTINCT {name}) AS kinds"
        [expected] = duckdb.from_arrow(table).aggregate(asked).to_arrow_table().to_pylist()
        known = found[name]
        assert (name, known.nulls, known.non_nulls) == (name, rows - expected["held"], expected["held"])
        if suffix == "orc" and isinstance(expected["low"], dt.datetime):
            assert_contains(known, expected["low"], expected["high"])
        else:
            assert (name, known.min, known.max) == (name, expected["low"], expected["high"])
            assert known.min_exact
            assert known.max_exact
        assert described(row, name).theta.estimate == expected["kinds"]


def assert_contains(known: ColumnStatistics, low: dt.datetime, high: dt.datetime) -> None:
    """Bounds of moments in ORC: by a day and more where there is no zone, by a second before 1970, else exact."""
    apart = dt.timedelta(hours=26) if low.tzinfo is None else dt.timedelta(seconds=1)
    assert isinstance(known.min, dt.datetime)
    assert isinstance(known.max, dt.datetime)
    assert dt.timedelta() <= low - known.min <= apart
    assert dt.timedelta() <= known.max - high <= apart
    later = low.tzinfo is not None and low.timestamp() >= 1
    assert (known.min == low, known.min_exact) == (later, later)


def test_types_are_those_of_all_values(lake: Lake) -> None:
    """The last line of a CSV file counts like the first; what does not fit all is text."""
    lines = ["i,f,b,d,t,s,n,z", *["1,1,true,2020-01-01,2020-01-01,x,,007"] * 100_000]
    lines.append("-2,2.5e3,FALSE,1999-12-31,2020-01-01 10:00:00.5,2020-01-01,,8")
    lake.put("a.csv", ("\n".join(lines) + "\n").encode())
    row = row_of(lake.root, "csv")
    schema = TupleSchema.from_json(row["schema"])
    types = {column.name: column.type for column in schema.columns}
    assert types == {"i": "BIGINT", "f": "DOUBLE", "b": "BOOLEAN", "d": "DATE", "t": "TIMESTAMP", "s": "VARCHAR",
                     "n": "NULL", "z": "BIGINT"}  # fmt: skip
    found = statistics(row)
    assert (found["i"].min, found["i"].max, found["i"].non_nulls) == (-2, 1, 100_001)
    assert found["t"].max == dt.datetime(2020, 1, 1, 10, 0, 0, 500_000)
    assert (found["n"].nulls, found["n"].all_null) == (100_001, True)


@pytest.mark.parametrize(("text", "type_"), [("12345678901234567890", "DECIMAL(20, 0)"), ("9" * 39, "DOUBLE"),
    ("1.0.0", "VARCHAR"), ("2020-13-45", "VARCHAR"), ("nan", "VARCHAR"), ("0x10", "VARCHAR"),
    (" 1", "VARCHAR")])  # fmt: skip
def test_what_only_looks_like_a_value_is_text(lake: Lake, text: str, type_: str) -> None:
    """Numbers beyond the range, days that do not exist, words."""
    lake.put("a.csv", f'x,y\n"{text}",1\n'.encode())
    assert TupleSchema.from_json(row_of(lake.root, "csv")["schema"]).columns[0].type == type_


def test_nothing_and_an_empty_text_differ(lake: Lake) -> None:
    """An empty field is null; in quotes it is the empty text, which sorts first."""
    lake.put("a.csv", b'x,y\n,1\n"",2\nb,3\n')
    found = statistics(row_of(lake.root, "csv"))["x"]
    assert (found.min, found.max, found.nulls) == ("", "b", 1)


def test_a_declared_schema_wins(lake: Lake) -> None:
    """Types are as declared, other columns are left out, a column that the file lacks is not there."""
    lake.put("a.csv", b"zip,n,other\n007,1,x\n12,2,y\n")
    row = row_of(lake.root, "csv", declared=declared_schema("zip VARCHAR, n DECIMAL(9, 2), gone INT"))
    found = statistics(row)
    assert {column.name: column.type for column in TupleSchema.from_json(row["schema"]).columns} == {
        "zip": "VARCHAR",
        "n": "DECIMAL(9, 2)",
    }
    assert (found["zip"].min, found["zip"].max, found["n"].max) == ("007", "12", Decimal(2))
    with pytest.raises(FormatError, match=r"a\.csv.*column other"):
        row_of(lake.root, "csv", declared=declared_schema("other INT"))


def test_json_of_any_layout(lake: Lake) -> None:
    """One object after the other, over several lines, or one list of them; compressed or not."""
    rows = [{"a": n, "s": {"x": n * 1.5, "l": [n]}, "when": "2020-01-01"} for n in range(5)]
    layouts = {
        "a.json": "\n".join(map(json.dumps, rows)),
        "b.json": "\n".join(json.dumps(row, indent=2) for row in rows),
        "c.json": json.dumps(rows),
        "e.json": "\ufeff" + json.dumps(rows),
        "f.json": "\ufeff" + "\n".join(map(json.dumps, rows)),
    }
    found = []
    for name, text in layouts.items():
        lake.put(name, text.encode())
        found.append(row_of(lake.root, "json"))
        lake.remove(name)
    lake.put("d.json.gz", gzip.compress(layouts["a.json"].encode()))
    found.append(row_of(lake.root, "json"))
    assert len({row["schema"] for row in found}) == 1
    assert all(row["columnsStatistics"] == found[0]["columnsStatistics"] for row in found)
    schema = TupleSchema.from_json(found[0]["schema"])
    types = {column.name: column.type for column in schema.columns}
    assert types == {"a": "BIGINT", "s": "STRUCT<`x` DOUBLE, `l` ARRAY<BIGINT>>", "when": "VARCHAR"}
    assert statistics(found[0])["s`.`x"].max == 6


JSON_VALUES = st.recursive(
    st.none() | st.integers() | st.text('{}[]\n ,x\\"', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("{}\n", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(
    rows=st.lists(st.dictionaries(st.text("ab}{", max_size=2), JSON_VALUES, max_size=3), max_size=12),
    indent=st.none() | st.integers(0, 3),
    between=st.sampled_from(["\n", "\r\n", "\n\n  ", " ", ""]),
    size=st.integers(1, 60),
)
def test_pieces_of_json_are_whole_objects(rows: list[Any], indent: int | None, between: str, size: int) -> None:
    """However objects are laid out and wherever the file is cut, all come, in order, none in two pieces."""
    text = between.join(json.dumps(row, indent=indent, ensure_ascii=False) for row in rows)
    found = list(pieces(BytesIO(text.encode()), size))
    assert [document for piece in found for document in documents(piece)] == rows
    if indent is None and between == "\n":
        longest = max((len(line.encode()) for line in text.splitlines()), default=0)
        assert all(len(piece) <= 2 * (size + longest) for piece in found)


@given(
    depth=st.integers(95, 105),
    texts=st.lists(st.text('{}[]\\",x', max_size=6), min_size=1, max_size=4),
    is_list=st.booleans(),
)
def test_json_is_nested_a_hundred_deep_at_most(depth: int, texts: list[str], is_list: bool) -> None:
    """Whatever stands in texts beside it; one that is too deep for the parser's stack would end the process."""
    value: Any = texts
    for level in range(depth - 2 - is_list):
        value = [*texts, value] if level % 2 else {texts[0]: texts, f"{texts[0]}x": value}
    row = {"a": value}
    content = json.dumps([row] if is_list else row).encode()
    if depth > 100:
        with pytest.raises(FormatError, match=f"nested {depth} deep; 100 can be read"):
            list(pieces(BytesIO(content)))
    else:
        assert [document for piece in pieces(BytesIO(content)) for document in documents(piece)] == [row]


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_json_nested_without_end_is_an_error(lake: Lake, opening: bytes) -> None:
    """Arrow's parser would end the process."""
    closing = b"]" if opening == b"[" else b"}"
    lake.put("a.json", b'{"a":' + opening * 300_000 + b"1" + closing * 300_000 + b"}\n")
    with pytest.raises(FormatError, match=r"a\.json cannot be read: .* nested 300,001 deep"):
        row_of(lake.root, "json")


def test_nothing_is_said_of_columns_of_several_kinds(lake: Lake) -> None:
    """In JSON; the file's other columns are told of, and rows are counted. Avro's unions are structs, as in Spark."""
    lake.put("a.json", b'{"x": 1, "y": 2}\n{"x": "a", "y": 3.5}\n{"x": null}\n')
    found = statistics(row_of(lake.root, "json", describing=Describing()))
    assert (found["x"].min, found["x"].nulls, found["x"].rows, found["x"].type) == (None, None, 3, "VARCHAR")
    assert (found["y"].min, found["y"].max, found["y"].nulls) == (2, 3.5, 1)
    lake.remove("a.json")
    fields = [{"name": "x", "type": ["int", "string"]}, {"name": "y", "type": "int"}]
    with (lake.root / "a.avro").open("wb") as target:
        fastavro.writer(target, {"type": "record", "name": "R", "fields": fields}, [{"x": 1, "y": 7}])
    row = row_of(lake.root, "avro", describing=Describing())
    told = {key: (known.min, known.nulls) for key, known in statistics(row).items()}
    assert told == {"x`.`member0": (1, 0), "x`.`member1": (None, 1), "y": (7, 0)}


def test_nans_are_counted_and_bound_nothing(lake: Lake) -> None:
    """As from footers."""
    lake.write("a.orc", {"x": [1.5, math.nan, None, -0.0]})
    found = statistics(row_of(lake.root, "orc"))["x"]
    assert (found.min, found.max, found.nans, found.nulls) == (0, 1.5, 1, 1)
    assert math.copysign(1, found.min) == -1  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", ["orc", "avro", "json"])
def test_a_file_that_is_none_of_its_format_is_named(lake: Lake, suffix: str) -> None:
    """And so is one that is gone."""
    lake.put(f"bad.{suffix}", b"nonsense{")
    with pytest.raises(FormatError, match=rf"bad\.{suffix}"):
        row_of(lake.root, suffix)
    files = list_files(str(lake.root)).files
    lake.remove(f"bad.{suffix}")
    chunk = DataChunk(TableInfo("dfs", "tmp", "t"), str(lake.root), SCHEMA, files, suffix.upper())
    with pytest.raises(NotFoundError, match=rf"bad\.{suffix} is gone"):
        list(read_files(chunk))


def test_names_that_stand_twice_get_their_places(lake: Lake) -> None:
    """Spark's rule: each column of a repeated name is called by name and place, one without a name by place."""
    lake.put("a.csv", b"x,y,x,,\n1,2,3,4,\n")
    found = statistics(row_of(lake.root, "csv"))
    assert {name: known.max for name, known in found.items()} == {"x0": 1, "y": 2, "x2": 3, "_c3": 4, "_c4": None}


@pytest.mark.parametrize("moment", [dt.datetime(9999, 12, 31), dt.datetime(1, 1, 1)])
def test_a_moment_that_orc_is_not_read_with_names_its_column(lake: Lake, moment: dt.datetime) -> None:
    """PyArrow reads moments of ORC in nanoseconds alone; the file is sound, and its other columns are read."""
    moments = pa.array([moment], pa.timestamp("us"))
    lake.write("a.orc", pa.table({"id": [1], "until": moments, "s": pa.StructArray.from_arrays([moments], ["x"])}))
    for column in ("until", "s"):
        with pytest.raises(FormatError, match=rf"a\.orc.*column {column}: .*1677 to 2262.*select the other columns"):
            row_of(lake.root, "orc", columns=[("id",), (column,)])
    assert statistics(row_of(lake.root, "orc", columns=[("id",)]))["id"].max == 1


@pytest.mark.parametrize(("release", "refused"), [("20.0.0", True), ("24.0.0", True), ("25.0.0", False)])
def test_an_arrow_that_makes_other_times_of_orc_is_refused(lake: Lake, release: str, *, refused: bool) -> None:
    """Before release 25 it reads 9999 as 1816. Columns without times are read by every release."""
    moments = pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("us"))
    inside = pa.StructArray.from_arrays([moments], ["x"])
    lake.write("a.orc", pa.table({"id": [1], "until": moments, "s": inside}))
    [file] = list_files(str(lake.root)).files
    with Opening(format_record("ORC"), str(lake.root), arrow_version=release).open(file) as data:
        assert [batch.to_pylist() for batch in data.batches(["id"])] == [[{"id": 1}]]
    for column in ("until", "s"):
        with ExitStack() as stack:
            if refused:
                told = rf"a\.orc cannot be read: column {column} has times in ORC.* pip install 'pyarrow>=25'"
                stack.enter_context(pytest.raises(EngineError, match=told))
            with Opening(format_record("ORC"), str(lake.root), arrow_version=release).open(file) as data:
                assert [batch.num_rows for batch in data.batches(["id", column])] == [1]


def test_two_columns_of_an_orc_file_with_one_name_are_refused(lake: Lake) -> None:
    """As of every format."""
    lake.write("a.orc", pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["x", "y", "x"]))
    with pytest.raises(FormatError, match=r"a\.orc.*names x more than once"):
        row_of(lake.root, "orc")


@pytest.mark.parametrize("name", ["A.CSV.GZ", "a.csv.gz", "a.Gz"])
def test_the_suffix_of_a_compression_may_be_of_any_case(lake: Lake, name: str) -> None:
    """The suffix tells the same of compression as of format."""
    lake.put(name, gzip.compress(b"a\n1\n"))
    assert statistics(row_of(lake.root, "csv"))["a"].max == 1
