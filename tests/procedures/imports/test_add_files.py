"""add_files: files become a table's with their own footers' numbers; what does not fit is refused by name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
)
from support.catalog_lake import Lake
from support.odd_parquet import write_odd_parquet
from support.snapshots import summary_of

from metastore.engines.engine import LocalEngine
from metastore.errors import InvalidRequestError, NotFoundError, ProcedureError
from metastore.lake.iceberg.columns.bound_values import bound_bytes
from metastore.lake.iceberg.rows.row_scan import RowScan
from metastore.model.table_unit import TableMetadataUnit
from metastore.procedures.framework.run import explain
from metastore.procedures.imports.add_files import add_files
from metastore.session import Session

Put = Callable[..., str]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Write a Parquet file below the folder ``source``; its path."""

    def write(name: str, rows: pa.Table, **options: Any) -> str:
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path, **options)
        return str(path)

    return write


def ids(table: Table, **scan: Any) -> list[int]:
    """The ids in the table, as PyIceberg reads it."""
    found: list[Any] = table.scan(**scan).to_arrow()["id"].to_pylist()
    return sorted(found)


def files(table: Table) -> list[Any]:
    """The data files of the table's current snapshot."""
    return [task.file for task in table.refresh().scan().plan_files()]


def test_a_folder(lake: Lake, rows: Callable[..., pa.Table], put: Put, tmp_path: Path) -> None:
    """Rows of files below a folder are the table's, without a copy, and the counts are theirs."""
    lake.table()
    paths = {put("a.parquet", rows(1, 2)), put("b.parquet", rows(3))}
    [row] = lake.call(add_files, location=str(tmp_path / "source"))
    assert row == {
        "added_files_count": 2,
        "changed_partition_count": None,
        "added_records_count": 3,
        "added_bytes": sum(map(os.path.getsize, paths)),
        "skipped_files_count": 0,
        "message": "",
    }
    table = lake.table()
    assert {file.file_path for file in files(table)} == paths
    assert ids(table) == [1, 2, 3]
    assert summary_of(table)["total-records"] == "3"
    assert "schema.name-mapping.default" in table.properties
    assert duckdb.read_parquet(sorted(paths)).count("*").fetchall() == [(3,)]


def test_sparks_name_of_files(session: Session, rows: Callable[..., pa.Table], put: Put, tmp_path: Path) -> None:
    """A format and a path; the filter chooses among partitions, which are in the paths."""
    for statement in (
        "CREATE SCHEMA lake.db",
        "CREATE TABLE lake.db.t (id BIGINT, city VARCHAR) PARTITIONED BY (city)",
    ):
        session.sql(statement)
    for city in ("a", "b"):
        put(f"city={city}/a.parquet", rows(1, 2).select(["id"]))
    call = f"CALL lake.system.add_files(table => 'db.t', source_table => '`parquet`.`{tmp_path}/source`'{{}})"
    [row] = session.sql(call.format(", partition_filter => map('city', 'a')")).to_pylist()
    assert row["added_files_count"] == 1
    assert session.sql("FROM lake.db.t ORDER BY id").to_pylist() == [{"id": 1, "city": "a"}, {"id": 2, "city": "a"}]
    with pytest.raises(ProcedureError, match="already"):
        session.sql(call.format(""))
    assert session.sql("SELECT count(*) AS n FROM lake.db.t").to_pylist() == [{"n": 2}]


def test_metrics_are_the_footers(lake: Lake, put: Put) -> None:
    """Counts and bounds are the ones of the values; a filter finds the file by them, and passes over others."""
    wide: list[tuple[str, pa.DataType]] = [
        ("id", pa.int64()),
        ("price", pa.decimal128(9, 2)),
        ("at", pa.timestamp("us")),
    ]
    table = lake.table(schema=pa.schema(wide))
    moment = datetime(2024, 5, 6, 7, 8, 9, 10)
    batch = pa.table(
        {"id": [1, None, 7], "price": [Decimal("1.50"), None, Decimal("-2.25")], "at": [moment, moment, None]},
        schema=pa.schema([("id", pa.int32()), *wide[1:]]),
    )
    path = put("a.parquet", batch, row_group_size=1)
    lake.call(add_files, files=[path])
    [file] = files(table)
    schema = table.schema()
    low, high = (
        {
            schema.find_column_name(k): from_bytes(cast("PrimitiveType", schema.find_type(k)), v)
            for k, v in bounds.items()
        }
        for bounds in (file.lower_bounds, file.upper_bounds)
    )
    micros = int(moment.replace(tzinfo=timezone.utc).timestamp()) * 1_000_000 + 10
    assert low == {"id": 1, "price": Decimal("-2.25"), "at": micros}
    assert high == {"id": 7, "price": Decimal("1.50"), "at": micros}
    assert file.null_value_counts == {1: 1, 2: 1, 3: 1}
    assert file.value_counts == {1: 3, 2: 3, 3: 3}
    assert len(file.split_offsets) == 3
    assert len(list(table.scan(row_filter="id = 7").plan_files())) == 1
    assert list(table.scan(row_filter="id = 8").plan_files()) == []


def test_a_group_without_bounds_makes_none(lake: Lake, rows: Callable[..., pa.Table], put: Put) -> None:
    """A file without statistics has no bounds and no null counts that a reader could believe."""
    table = lake.table()
    lake.call(add_files, files=[put("a.parquet", rows(5), write_statistics=False)])
    [file] = files(table)
    assert (file.lower_bounds, file.upper_bounds, file.null_value_counts) == ({}, {}, {})
    assert ids(table, row_filter="id = 5") == [5]


@settings(max_examples=60)
@given(st.text(min_size=1), st.integers(1, 5))
def test_cut_bounds_of_text_hold(text: str, length: int) -> None:
    """A bound that is cut short is below or above the text, never inside."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    low = bound_bytes(StringType(), text, length, upper=False)
    high = bound_bytes(StringType(), text, length, upper=True)
    assert low is not None
    assert low <= text.encode()
    assert high is None or high >= text.encode()


@given(st.binary(min_size=1), st.integers(1, 5))
def test_cut_bounds_of_bytes_hold(value: bytes, length: int) -> None:
    """The same for bytes."""
    low, high = (bound_bytes(BinaryType(), value, length, upper=upper) for upper in (False, True))
    assert low is not None
    assert low <= value
    assert high is None or high >= value


def test_metrics_as_the_table_wants_them(lake: Lake, rows: Callable[..., pa.Table], put: Put) -> None:
    """Columns that the table's properties want no numbers of, or counts alone, get no others."""
    modes = {"write.metadata.metrics.default": "none", "write.metadata.metrics.column.id": "counts"}
    table = lake.table(properties=modes)
    lake.call(add_files, files=[put("a.parquet", rows(5))])
    [file] = files(table)
    assert (file.value_counts, file.lower_bounds) == ({1: 1}, {})


@pytest.mark.parametrize("spelling", ["{}", "file://{}", "file:{}", "//{}", "/./{}"])
def test_duplicates_under_any_spelling(lake: Lake, rows: Callable[..., pa.Table], put: Put, spelling: str) -> None:
    """A file that the table has is refused, skipped, or added again, as the call says, however it is spelled."""
    table = lake.table()
    path = put("a.parquet", rows(1))
    lake.call(add_files, files=[path])
    again = spelling.format(path)
    with pytest.raises(ProcedureError, match="File already exists: 1 files are the table's already"):
        lake.call(add_files, files=[again])
    [row] = lake.call(add_files, files=[again], duplicate_file="skip")
    assert (row["added_files_count"], row["skipped_files_count"]) == (0, 1)
    assert row["message"] == "nothing was added: the table has all files already"
    assert ids(table.refresh()) == [1]


def test_duplicates_allowed(lake: Lake, rows: Callable[..., pa.Table], put: Put) -> None:
    """With allow the rows are there twice; with skip a file that the call names twice is added once."""
    table = lake.table()
    path = put("a.parquet", rows(1))
    [row] = lake.call(add_files, files=[path, f"file://{path}"], duplicate_file="skip")
    assert (row["added_files_count"], row["skipped_files_count"]) == (1, 1)
    lake.call(add_files, files=[path], duplicate_file="allow")
    assert ids(table.refresh()) == [1, 1]


def test_hive_partitions(lake: Lake, put: Put, tmp_path: Path) -> None:
    """Values of identity partitions come from the path, decoded, null by Hive's name; files may lack the column."""
    table = lake.table()
    with table.update_spec() as spec:
        spec.add_identity("city")
    only_id = pa.table({"id": pa.array([1], pa.int64())})
    for name in ("city=a%2Fb", "CITY=K%C3%B6ln", "city=__HIVE_DEFAULT_PARTITION__"):
        put(f"{name}/x.parquet", only_id)
    [row] = lake.call(add_files, location=str(tmp_path / "source"))
    assert (row["added_files_count"], row["changed_partition_count"]) == (3, 3)
    read = table.refresh().scan().to_arrow()
    assert sorted(read["city"].to_pylist(), key=str) == ["Köln", None, "a/b"]
    assert len(list(table.scan(row_filter="city = 'Köln'").plan_files())) == 1


def test_partition_filter(lake: Lake, put: Put, tmp_path: Path) -> None:
    """Only files of the partitions that the call names are added; none at all is an error."""
    table = lake.table()
    with table.update_spec() as spec:
        spec.add_identity("city")
    for city, number in (("a", 1), ("b", 2)):
        put(f"city={city}/x.parquet", pa.table({"id": pa.array([number], pa.int64())}))
    source = str(tmp_path / "source")
    lake.call(add_files, location=source, partition_filter={"City": "b"})
    assert ids(table.refresh()) == [2]
    with pytest.raises(ProcedureError, match="Cannot find any matching partitions in table lake.default.t"):
        lake.call(add_files, location=source, partition_filter={"city": "c"})


def test_partitions_from_bounds(lake: Lake, put: Put) -> None:
    """Without a path that says it, a value is what the bounds have in common; otherwise the file is refused."""
    table = lake.table(schema=pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))]))
    with table.update_spec() as spec:
        spec.add_field("at", DayTransform(), "day")
    same = [datetime(2024, 2, 3, 1), datetime(2024, 2, 3, 23)]
    lake.call(add_files, files=[put("a.parquet", pa.table({"id": [1, 2], "at": pa.array(same, pa.timestamp("us"))}))])
    [file] = files(table)
    assert file.partition[0] == (date(2024, 2, 3) - date(1970, 1, 1)).days
    other = [datetime(2024, 2, 3), datetime(2024, 2, 4)]
    with pytest.raises(ProcedureError, match="Cannot infer partition value of field day: at is between"):
        lake.call(
            add_files, files=[put("b.parquet", pa.table({"id": [1, 2], "at": pa.array(other, pa.timestamp("us"))}))]
        )
    mixed = [datetime(2024, 2, 3), None]
    with pytest.raises(ProcedureError, match="does not say that at has one value and no nulls"):
        lake.call(
            add_files, files=[put("c.parquet", pa.table({"id": [1, 2], "at": pa.array(mixed, pa.timestamp("us"))}))]
        )


@pytest.mark.parametrize("transform", [BucketTransform(4), TruncateTransform(10)])
def test_other_transforms(lake: Lake, rows: Callable[..., pa.Table], put: Put, transform: Any) -> None:
    """Bucket is inferred of a single value alone, truncate of any that are cut to the same."""
    table = lake.table()
    with table.update_spec() as spec:
        spec.add_field("id", transform, "part")
    lake.call(add_files, files=[put("a.parquet", rows(11, 11))])
    assert files(table)[0].partition[0] == transform.transform(LongType())(11)
    two = put("b.parquet", rows(12, 13))
    if isinstance(transform, TruncateTransform):
        lake.call(add_files, files=[two])
        assert ids(table.refresh(), row_filter="id = 13") == [13]
    else:
        with pytest.raises(ProcedureError, match="not one value of bucket"):
            lake.call(add_files, files=[two])


@pytest.mark.parametrize(
    ("path_says", "ok"), [("city 1", True), ("city 2", False), ("__HIVE_DEFAULT_PARTITION__", False)]
)
def test_a_path_that_contradicts_its_file(
    lake: Lake, rows: Callable[..., pa.Table], put: Put, path_says: str, ok: bool
) -> None:
    """A file whose own column has other values than its path says is refused."""
    table = lake.table()
    with table.update_spec() as spec:
        spec.add_identity("city")
    path = put(f"city={path_says}/x.parquet", rows(1))
    if ok:
        lake.call(add_files, files=[path])
        assert ids(table.refresh()) == [1]
    else:
        with pytest.raises(ProcedureError, match="and the file itself has other values of city"):
            lake.call(add_files, files=[path])


NUMBERS: list[tuple[PrimitiveType, str, Any]] = [
    (IntegerType(), "2147483647", 2147483647),
    (IntegerType(), "-007", -7),
    (IntegerType(), "2147483648", None),
    (IntegerType(), "-9999999999", None),
    (IntegerType(), "1.7", None),
    (IntegerType(), "1e3", None),
    (IntegerType(), " 7", None),
    (IntegerType(), "٣", None),
    (IntegerType(), "1_0", None),
    (LongType(), "9007199254740993", 9007199254740993),
    (LongType(), "9223372036854775808", None),
    (LongType(), "1.0", None),
    (FloatType(), "0.5", 0.5),
    (FloatType(), "1e300", None),
    (FloatType(), "-1e300", None),
    (DoubleType(), "-2.5e-1", -0.25),
    (DoubleType(), "1e999", None),
    (DoubleType(), "-Infinity", float("-inf")),
    (DoubleType(), "1_0", None),
]


@pytest.mark.parametrize(("kind", "text", "value"), NUMBERS, ids=[f"{kind}={text}" for kind, text, _ in NUMBERS])
def test_numbers_that_a_path_says(lake: Lake, put: Put, kind: PrimitiveType, text: str, value: Any) -> None:
    """A partition has exactly the number that the path says, or the file is refused: none is cut or clamped."""
    schema = Schema(NestedField(1, "v", LongType(), required=False), NestedField(2, "k", kind, required=False))
    table = lake.table(schema=schema, partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "k")))
    path = put(f"k={quote(text)}/x.parquet", pa.table({"v": [1]}))
    if value is None:
        with pytest.raises(ProcedureError, match=rf"its path says k={re.escape(repr(text))}, which is no {kind}"):
            lake.call(add_files, files=[path])
    else:
        lake.call(add_files, files=[path])
        assert files(table.refresh())[0].partition[0] == value


def test_partitioned_files_for_a_plain_table(lake: Lake, put: Put) -> None:
    """A column that only the path has would be lost in a table that is not partitioned by it."""
    lake.table()
    path = put("city=a/x.parquet", pa.table({"id": pa.array([1], pa.int64())}))
    with pytest.raises(ProcedureError, match="its path says city, which is no column of it"):
        lake.call(add_files, files=[path])


def test_recursive_directory(lake: Lake, rows: Callable[..., pa.Table], put: Put, tmp_path: Path) -> None:
    """Folders that are no partitions are refused, passed over or descended into; hidden and empty files are none."""
    table = lake.table()
    put("a.parquet", rows(1))
    put("deep/b.parquet", rows(2))
    put("_temporary/c.parquet", rows(3))
    (tmp_path / "source" / "_SUCCESS").touch()
    (tmp_path / "source" / "empty.parquet").touch()
    source = f"file://{tmp_path}/source/"
    with pytest.raises(InvalidRequestError, match="Found a sub-directory that is no partition: .*/deep"):
        lake.call(add_files, location=source)
    lake.call(add_files, location=source, recursive_directory="false")
    assert ids(table.refresh()) == [1]
    lake.call(add_files, location=source, recursive_directory="true", duplicate_file="skip")
    assert ids(table.refresh()) == [1, 2]
    assert all(file.file_path.startswith("file:///") for file in files(table))


def test_names_that_uris_would_change(lake: Lake, rows: Callable[..., pa.Table], put: Put, tmp_path: Path) -> None:
    """A file whose name holds an escape is added by its plain path, so that every reader finds it."""
    table = lake.table()
    put("a%20b.parquet", rows(1))
    put("a b.parquet", rows(2))
    lake.call(add_files, location=f"file://{tmp_path}/source", duplicate_file="allow")
    assert ids(table.refresh()) == [1, 2]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1], "more": ["x"]}, "it has columns more that the table has not"),
        ({"id": ["x"]}, "column id is string in it and long in the table"),
        ({"id": pa.array([1.5], pa.float64())}, "column id is double in it and long in the table"),
        ({"id": pa.array([1], pa.int64()), "city": pa.array([1], pa.int32())}, "column city is int in it and string"),
        ({"id": pa.array([1], pa.uint32())}, "column id is uint32 in it: Iceberg has no such numbers"),
        ({"id": pa.array([1 << 63], pa.uint64())}, "column id is uint64 in it: Iceberg has no such numbers"),
        ({"city": pa.array([None], pa.null())}, "column city is null in it: PyIceberg and Spark do not read"),
        ({"city": pa.array([b"x"])}, "column city is binary in it and string in the table"),
    ],
)
def test_files_that_do_not_fit(lake: Lake, put: Put, columns: dict[str, Any], message: str) -> None:
    """A file whose columns the table cannot read is refused, by its name, and no other file of the call is added."""
    table = lake.table()
    good = put("good.parquet", pa.table({"id": pa.array([1], pa.int64())}))
    bad = put("bad.parquet", pa.table(columns))
    with pytest.raises(ProcedureError, match=f"1 of 2 files cannot be added, so none was: {bad}: {message}"):
        lake.call(add_files, files=[good, bad])
    assert table.refresh().current_snapshot() is None


FAR = [datetime(1, 1, 2), datetime(1500, 3, 1, 12), datetime(2024, 5, 6, 7, 8, 9, 123456), None, datetime(9999, 12, 31)]


def test_moments_of_int96(lake: Lake, put: Put) -> None:
    """As Spark writes them by default: of any year, also inside of others, and without a bound or a count of theirs."""
    moment: pa.DataType = pa.timestamp("us", "UTC")
    columns: list[tuple[str, pa.DataType]] = [
        ("id", pa.int64()),
        ("at", moment),
        ("some", pa.list_(moment)),
        ("by", pa.map_(pa.string(), moment)),
        ("one", pa.struct([("at", moment)])),
    ]
    table = lake.table(schema=pa.schema(columns))
    values = [
        {"id": number, "at": each, "some": [each], "by": [("k", each)], "one": {"at": each}}
        for number, each in enumerate(FAR)
    ]
    rows = pa.Table.from_pylist(values, pa.schema(columns))
    lake.call(add_files, files=[put("a.parquet", rows, use_deprecated_int96_timestamps=True)])
    [file] = files(table)
    assert (set(file.lower_bounds), set(file.upper_bounds), set(file.null_value_counts)) == ({1}, {1}, {1})
    read = pa.Table.from_batches(
        RowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_record_batches(table.scan().plan_files())
    )
    assert read.cast(rows.schema).to_pylist() == rows.to_pylist()


def test_what_readers_read_differently_is_said(lake: Lake, put: Put, tmp_path: Path) -> None:
    """By column, once for all files; nothing where all read alike."""
    columns: list[tuple[str, pa.DataType]] = [
        ("id", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("some", pa.list_(pa.struct([("x", pa.int64())]))),
    ]
    lake.table(schema=pa.schema(columns))
    held = pa.Table.from_pylist([{"id": 1, "at": FAR[0], "some": None}], pa.schema(columns))
    paths = [put(f"{n}.parquet", held, use_deprecated_int96_timestamps=True) for n in range(2)]
    [row] = lake.call(add_files, files=paths)
    assert [part.split(":")[0] for part in row["message"].split("; column")] == [
        "column at may hold INT96 times",
        " some may hold null lists or maps of structs",
    ]
    [row] = lake.call(add_files, files=[put("c.parquet", held.select(["id"]))])
    assert row["message"] == ""
    lake.table("avro")
    with (tmp_path / "a.avro").open("wb") as file:
        schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
        fastavro.writer(file, schema, [{"id": 1}])
    [row] = lake.call(add_files, table="avro", files=[str(tmp_path / "a.avro")], format="AVRO")
    assert row["message"].startswith("PyIceberg by itself does not read Avro data files")


def test_moments_are_no_times_of_a_clock(lake: Lake, put: Put) -> None:
    """INT96 counts from UTC, whatever the writer's clock said: a column without a zone would show another time."""
    lake.table(schema=pa.schema([("at", pa.timestamp("us"))]))
    times = pa.table({"at": pa.array(FAR, pa.timestamp("us"))})
    path = put("a.parquet", times, use_deprecated_int96_timestamps=True)
    with pytest.raises(
        ProcedureError, match="column at is timestamptz in it and timestamp in the table: moments, as all"
    ):
        lake.call(add_files, files=[path])


@pytest.mark.parametrize(
    ("wanted", "values", "message"),
    [
        (pa.timestamp("us"), pa.array(FAR[2:3], pa.timestamp("ns")), "Iceberg in Spark takes nanoseconds"),
        (pa.timestamp("us", "UTC"), pa.array(FAR[2:3], pa.timestamp("ns", "UTC")), "Iceberg in Spark takes nanosec"),
        (
            pa.decimal128(9, 3),
            pa.array([Decimal("1.50")]).cast(pa.decimal128(9, 2)),
            "decimal.9, 2. in it and decimal.9, 3",
        ),
        (pa.binary(), pa.array(["x"]), "string in it and binary in the table"),
        (pa.float32(), pa.array([1.5], pa.float16()), "halffloat in it: Iceberg has no such numbers"),
        (
            pa.list_(pa.int32()),
            pa.array([[1]], pa.list_(pa.uint16())),
            "column .* is uint16 in it: Iceberg has no such",
        ),
    ],
)
def test_what_engines_read_differently(lake: Lake, put: Put, wanted: Any, values: Any, message: str) -> None:
    """Types that PyIceberg reads, and Iceberg in Spark refuses or takes for other values: even without statistics."""
    lake.table(schema=pa.schema([("c", wanted)]))
    path = put("a.parquet", pa.table({"c": values}), write_statistics=False)
    with pytest.raises(ProcedureError, match=message):
        lake.call(add_files, files=[path])


def test_nulls_in_a_required_column(lake: Lake, put: Put) -> None:
    """A required column must be there, and say that it has no nulls."""
    lake.table(schema=Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "n", IntegerType())))
    nulls = put("nulls.parquet", pa.table({"id": pa.array([1, None], pa.int64())}))
    with pytest.raises(ProcedureError, match="NULL value not allowed for NOT NULL column: id .it has nulls"):
        lake.call(add_files, files=[nulls])
    with pytest.raises(ProcedureError, match="NULL value not allowed for NOT NULL column: id .it has no such column"):
        lake.call(add_files, files=[put("none.parquet", pa.table({"n": pa.array([1], pa.int32())}))])
    lake.call(add_files, files=[put("good.parquet", pa.table({"id": pa.array([1], pa.int64())}))])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "map_of_optional_keys",
            "column v is or has a map whose keys are optional: PyIceberg and other readers .* file;",
        ),
        (
            "map_of_optional_keys_in_list",
            "column v is or has a map .*: PyIceberg and other readers .* open no such file;",
        ),
        ("map_of_three_fields", "column v is annotated as MAP.*: PyIceberg .* file, and Spark does not read it;"),
        ("decimal_of_80", "column v is DECIMAL.80, .*: PyIceberg .* file, and Spark does not read it;"),
    ],
)
def test_files_that_other_engines_refuse(lake: Lake, put: Put, tmp_path: Path, kind: str, message: str) -> None:
    """Our scans read them. A table of Iceberg has other readers, too: they are refused by name, with who cannot."""
    table = lake.table()
    good = put("good.parquet", pa.table({"id": pa.array([1], pa.int64())}))
    write_odd_parquet(tmp_path, [kind])
    bad = tmp_path / f"{kind}.parquet"
    with pytest.raises(pa.ArrowInvalid):
        pq.ParquetFile(bad)
    with pytest.raises(ProcedureError, match=f"1 of 2 files cannot be added, so none was: {bad}: .*{message}"):
        lake.call(add_files, files=[good, str(bad)])
    assert table.refresh().current_snapshot() is None


def test_what_is_no_file_of_the_format(lake: Lake, rows: Callable[..., pa.Table], put: Put, tmp_path: Path) -> None:
    """Missing files, other formats and unknown ones are said by name."""
    lake.table()
    with pytest.raises(ProcedureError, match="nowhere: there is no such file"):
        lake.call(add_files, files=["/nowhere"])
    with pytest.raises(NotFoundError, match="Location not found"):
        lake.call(add_files, location=str(tmp_path / "nothing"))
    path = put("a.parquet", rows(1))
    with pytest.raises(ProcedureError, match="does not end as an ORC file does"):
        lake.call(add_files, files=[path], format="orc")
    orc.write_table(rows(1), tmp_path / "b.orc")
    with pytest.raises(ProcedureError, match=r"b\.orc: it cannot be read as PARQUET: "):
        lake.call(add_files, files=[str(tmp_path / "b.orc")])
    with pytest.raises(InvalidRequestError, match="format is one of PARQUET, ORC, AVRO, not 'csv'"):
        lake.call(add_files, files=[path], format="csv")


def test_orc(lake: Lake, rows: Callable[..., pa.Table], tmp_path: Path) -> None:
    """ORC files come with their footers' counts and bounds."""
    table = lake.table()
    path = str(tmp_path / "a.orc")
    orc.write_table(rows(3, 4), path)
    lake.call(add_files, files=[path], format="ORC")
    [file] = files(table)
    assert (file.file_format.value, file.record_count, file.null_value_counts[1]) == ("ORC", 2, 0)
    lowest: Any = from_bytes(LongType(), file.lower_bounds[1])
    assert lowest == 3
    assert list(table.scan(row_filter="id = 9").plan_files()) == []


def test_decimals_of_orc(lake: Lake, tmp_path: Path) -> None:
    """Their bounds stand in its footers without zeros at the end."""
    rows = pa.table({"d": pa.array([Decimal("-1.50"), Decimal("7.00")], pa.decimal128(10, 2))})
    table = lake.table(schema=rows.schema)
    orc.write_table(rows, str(tmp_path / "a.orc"))
    lake.call(add_files, files=[str(tmp_path / "a.orc")], format="ORC")
    [file] = files(table)
    bounds: list[Any] = [from_bytes(DecimalType(10, 2), each[1]) for each in (file.lower_bounds, file.upper_bounds)]
    assert bounds == [Decimal("-1.50"), Decimal("7.00")]


@pytest.mark.parametrize("arguments", [{}, {"location": "/a", "files": ["/b"]}, {"files": []}])
def test_wrong_arguments(lake: Lake, arguments: dict[str, Any]) -> None:
    """Either a location or files."""
    lake.table()
    with pytest.raises(InvalidRequestError, match="exactly one of the arguments|files must not be empty"):
        lake.call(add_files, **arguments)


def test_components_are_refused(lake: Lake, unit: Callable[..., TableMetadataUnit]) -> None:
    """Files of the metastore's own tables are written by it alone."""
    lake.metastore.tables.modify().overwrite([unit("one")]).execute()
    with pytest.raises(ProcedureError, match="its files are the metastore's"):
        lake.call(add_files, catalog="metastore", schema="components", table="tables", files=["/x"])


def test_explain_adds_nothing(lake: Lake, rows: Callable[..., pa.Table], put: Put, tmp_path: Path) -> None:
    """EXPLAIN lists the files and shows the plan of an import; the table stays as it is."""
    table = lake.table()
    put("a.parquet", rows(1))
    arguments = {each.name: each.default for each in add_files.arguments}
    given_ = {"schema": "default", "table_name": "t", "location": str(tmp_path / "source")}
    lines = explain(add_files, lake.context, {**arguments, **given_})
    assert [line.strip(" └─").partition("[")[0] for line in lines if "─" in line or line.startswith("Output")] == [
        "Output",
        "TableFinish",
        "CallDistributedProcedure",
        "Filter",
        "FileListing",
    ]
    assert any("append 1 of 1 files to lake.default.t" in line for line in lines)
    assert table.refresh().current_snapshot() is None


def test_many_files_in_helper_processes(lake: Lake, rows: Callable[..., pa.Table], put: Put, tmp_path: Path) -> None:
    """What tasks need travels to other processes, and all fragments come back."""
    table = lake.table()
    for number in range(500):
        put(f"{number}.parquet", rows(number))
    with LocalEngine(2) as engine:
        lake.context = replace(lake.context, engine=lambda _: engine)
        [row] = lake.call(add_files, location=str(tmp_path / "source"))
    assert row["added_files_count"] == 500
    assert len(files(table)) == 500
