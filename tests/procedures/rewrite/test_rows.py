"""No row changes: every type, nested ones with their nulls, any table, any order, through any transform."""

from __future__ import annotations

import math
import random
import uuid
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from support.rewriting_lake import Lake

from metastore.lake.iceberg.rows.projection import Projection
from metastore.lake.writes.job import SortKey
from metastore.lake.writes.ordering import Order, in_order
from metastore.lake.writes.transforms import apply_transform

INNER = StructType(
    NestedField(31, "x", StringType(), required=False),
    NestedField(32, "y", ListType(33, IntegerType(), element_required=False), required=False),
)
SCHEMA = Schema(
    NestedField(1, "bool", BooleanType(), required=False),
    NestedField(2, "int", IntegerType(), required=False),
    NestedField(3, "long", LongType(), required=False),
    NestedField(4, "float", FloatType(), required=False),
    NestedField(5, "double", DoubleType(), required=False),
    NestedField(6, "small_decimal", DecimalType(9, 2), required=False),
    NestedField(7, "large_decimal", DecimalType(38, 10), required=False),
    NestedField(8, "date", DateType(), required=False),
    NestedField(9, "time", TimeType(), required=False),
    NestedField(10, "timestamp", TimestampType(), required=False),
    NestedField(11, "timestamptz", TimestamptzType(), required=False),
    NestedField(12, "string", StringType(), required=False),
    NestedField(13, "binary", BinaryType(), required=False),
    NestedField(14, "fixed", FixedType(3), required=False),
    NestedField(15, "uuid", UUIDType(), required=False),
    NestedField(16, "struct", INNER, required=False),
    NestedField(17, "list", ListType(18, LongType(), element_required=False), required=False),
    NestedField(
        19,
        "list_of_structs",
        ListType(20, StructType(NestedField(21, "z", LongType(), required=False)), element_required=False),
        required=False,
    ),
    NestedField(22, "map", MapType(23, StringType(), 24, LongType(), value_required=False), required=False),
    NestedField(
        25,
        "map_of_structs",
        MapType(26, StringType(), 27, StructType(NestedField(28, "w", DateType(), required=False)), False),
        required=False,
    ),
)

FULL: dict[str, Any] = {
    "bool": True,
    "int": -(2**31),
    "long": 2**63 - 1,
    "float": 1.5,
    "double": -0.1,
    "small_decimal": Decimal("-1234567.89"),
    "large_decimal": Decimal("1234567890123456789012345678.0123456789"),
    "date": date(1969, 12, 31),
    "time": time(23, 59, 59, 999999),
    "timestamp": datetime(1969, 12, 31, 23, 59, 59, 1),
    "timestamptz": datetime(2021, 4, 1, 12, tzinfo=timezone.utc),
    "string": "Größe 漢字",
    "binary": b"\0\xff",
    "fixed": b"abc",
    "uuid": uuid.UUID(int=2**128 - 1).bytes,
    "struct": {"x": "a", "y": [1, None]},
    "list": [1, None, 3],
    "list_of_structs": [{"z": 1}, None, {"z": None}],
    "map": [("a", 1), ("b", None)],
    "map_of_structs": [("a", {"w": date(2020, 2, 29)}), ("b", None)],
}
EMPTY: dict[str, Any] = dict.fromkeys(FULL)
HOLLOW = {**EMPTY, "struct": {"x": None, "y": None}, "list": [], "list_of_structs": [], "map": [], "map_of_structs": []}
NAN = {**EMPTY, "float": math.nan, "double": math.inf}


def arrow(rows: list[dict[str, Any]], schema: Schema = SCHEMA) -> pa.Table:
    """The rows as an Arrow table with the field ids of the schema."""
    target = schema_to_pyarrow(schema)
    arrays: list[Any] = []
    for field in target:
        values = [row[field.name] for row in rows]
        if isinstance(field.type, pa.BaseExtensionType):
            arrays.append(pa.ExtensionArray.from_storage(field.type, pa.array(values, field.type.storage_type)))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=target)


def add_file(table: Table, rows: pa.Table, folder: Any) -> None:
    """A file of exactly these rows: PyIceberg's own writer makes null lists of structs empty."""
    path = f"{folder}/{uuid.uuid4()}.parquet"
    pq.write_table(rows, path, store_decimal_as_integer=True)
    # Files with field ids are not what add_files takes.
    table.add_files([path])


def stored(lake: Lake) -> list[str]:
    """All rows of the current files, as texts, sorted."""
    found = []
    for file in lake.data_files():
        found += [repr(row) for row in pq.read_table(file.file_path.removeprefix("file://")).to_pylist()]
    return sorted(found)


def without_ids(rows: pa.Table) -> pa.Table:
    """The same rows as a writer has them that knows nothing of Iceberg."""
    columns: list[Any] = [column.cast(_bare(column.type)) for column in rows.columns]
    return pa.table(columns, rows.column_names)


def _bare(kind: Any) -> Any:
    build: Any = pa
    if pa.types.is_struct(kind):
        return build.struct([build.field(each.name, _bare(each.type)) for each in kind])
    if pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return build.list_(build.field("element", _bare(kind.value_type)))
    if pa.types.is_map(kind):
        return build.map_(_bare(kind.key_type), build.field("value", _bare(kind.item_type)))
    return kind


def test_every_type_and_every_null_stays(lake: Lake) -> None:
    """Null is not empty, nor is a struct of nulls a null struct; read back from the files by pyarrow."""
    table = lake.create(SCHEMA)
    for rows in ([FULL], [EMPTY, FULL], [HOLLOW], [NAN, EMPTY], [FULL, HOLLOW, EMPTY]):
        add_file(table, without_ids(arrow(rows)), lake.folder)
    before = stored(lake)
    assert lake.rewrite()["rewritten_data_files_count"] == 5
    assert stored(lake) == before
    assert len(before) == 9
    [file] = lake.data_files()
    assert dict(file.null_value_counts)[2] == 6
    assert 15 not in file.lower_bounds or len(file.lower_bounds[15]) == 16
    assert lake.load().scan().to_arrow().num_rows == 9
    assert lake.rewrite(options={"rewrite-all": "true"})["rewritten_data_files_count"] == 1
    assert stored(lake) == before


def test_sorting_keeps_every_type_too(lake: Lake) -> None:
    """Rows are taken apart and put together again."""
    table = lake.create(SCHEMA)
    for rows in ([FULL], [EMPTY, FULL], [HOLLOW], [NAN, EMPTY], [FULL, HOLLOW, EMPTY]):
        add_file(table, without_ids(arrow(rows)), lake.folder)
    before = stored(lake)
    lake.rewrite(sorted_by=["string DESC", "struct.x", "uuid", "double"])
    assert stored(lake) == before


def test_times_of_int96_stay_in_any_year(lake: Lake) -> None:
    """As files have them that were migrated from Hive or Spark; Arrow's nanoseconds would end in 2262."""
    table = lake.create(Schema(NestedField(1, "at", TimestampType(), required=False)))
    far = [datetime(9999, 12, 31), datetime(1, 1, 2), datetime(2024, 5, 6, 7, 8, 9, 123456)]
    for each in far:
        table.append(pa.table({"at": pa.array([each], pa.timestamp("us"))}))
    for file in lake.data_files():
        path = file.file_path.removeprefix("file://")
        pq.write_table(pq.read_table(path), path, use_deprecated_int96_timestamps=True)
    assert lake.rewrite(options={"rewrite-all": "true"})["rewritten_data_files_count"] == 3
    [file] = lake.data_files()
    assert set(pq.read_table(file.file_path.removeprefix("file://"))["at"].to_pylist()) == set(far)


def test_slices_of_nested_columns_are_projected_from_where_they_begin() -> None:
    """Widened inside of lists, maps and structs, with a field renamed and one added."""
    old = Schema(
        NestedField(1, "l", ListType(2, StructType(NestedField(3, "a", IntegerType(), required=False)), False), False),
        NestedField(4, "m", MapType(5, StringType(), 6, IntegerType(), False), required=False),
        NestedField(7, "gone", StringType(), required=False),
    )
    element = StructType(
        NestedField(8, "new", StringType(), required=False), NestedField(3, "b", LongType(), required=False)
    )
    new = Schema(
        NestedField(4, "map", MapType(5, StringType(), 6, LongType(), False), required=False),
        NestedField(9, "k", DateType(), required=False),
        NestedField(1, "list", ListType(2, element, False), required=False),
    )
    rows: list[dict[str, Any]] = [
        {"l": [{"a": 1}, None], "m": [("x", 1)], "gone": "q"},
        {"l": None, "m": None, "gone": "q"},
        {"l": [], "m": [], "gone": "q"},
        {"l": [{"a": None}, {"a": 4}], "m": [("y", None), ("z", 3)], "gone": None},
    ]
    projection = Projection(old, new, schema_to_pyarrow(new), {9: date(2020, 1, 1)})
    assert projection.columns == ["l", "m"]
    whole = arrow(rows, old).select(projection.columns).to_batches()[0]
    expected = [
        {
            "map": row["m"],
            "k": date(2020, 1, 1),
            "list": None if row["l"] is None else [each and {"new": None, "b": each["a"]} for each in row["l"]],
        }
        for row in rows
    ]
    for first in range(5):
        assert projection.apply(whole.slice(first)).to_pylist() == expected[first:]
        assert projection.apply(whole.slice(0, first)).to_pylist() == expected[:first]


ROW = st.fixed_dictionaries(
    {
        "id": st.one_of(st.none(), st.integers(-5, 5)),
        "text": st.one_of(st.none(), st.text("aé漢", max_size=3)),
        "number": st.one_of(st.none(), st.floats(width=32)),
        "items": st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=3)),
    }
)
SMALL = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "text", StringType(), required=False),
    NestedField(3, "number", FloatType(), required=False),
    NestedField(4, "items", ListType(5, LongType(), element_required=False), required=False),
)
FILES = st.lists(st.lists(ROW, min_size=1, max_size=8), min_size=1, max_size=5)


def as_text(row: dict[str, Any]) -> str:
    """A row to compare by: NaN equals NaN here, and 0.0 is not -0.0."""
    return repr(sorted(row.items()))


@settings(max_examples=10)
@given(files=FILES, data=st.data())
def test_any_table_keeps_its_rows_through_any_rewrites(
    fresh_lake: Callable[[], Any], delete_positions: Callable[..., DataFile], files: list[Any], data: st.DataObject
) -> None:
    """Whatever is deleted by position, however it is partitioned, sorted, split and filtered."""
    lake = fresh_lake()
    table = lake.create(SMALL)
    for rows in files:
        table.append(arrow(rows, SMALL))
    expected = [row for rows in files for row in rows]
    for file in lake.data_files():
        count = file.record_count
        gone = data.draw(st.sets(st.integers(0, count - 1)))
        if gone:
            content = pq.read_table(file.file_path.removeprefix("file://")).to_pylist()
            for position in sorted(gone):
                # By its text: a list's own remove() would take 0.0 for -0.0.
                del expected[[as_text(row) for row in expected].index(as_text(content[position]))]
            delete_positions(lake.load(), {file.file_path: sorted(gone)})
    for _ in range(data.draw(st.integers(1, 3))):
        if data.draw(st.booleans()):
            transform = data.draw(st.sampled_from([BucketTransform(2), TruncateTransform(1), IdentityTransform()]))
            source = "text" if isinstance(transform, TruncateTransform) else "id"
            with lake.load().update_spec() as update:
                for field in lake.load().spec().fields:
                    update.remove_field(field.name)
                update.add_field(source, transform, f"p{uuid.uuid4().hex}")
        options = {
            "rewrite-all": "true",
            "target-file-size-bytes": str(data.draw(st.sampled_from([500, 2_000, 10**6]))),
            "min-file-size-bytes": "1",
            "partial-progress.enabled": str(data.draw(st.booleans())),
        }
        filter_ = data.draw(st.sampled_from(["TRUE", "id > 0", "text = 'a'", "id is null"]))
        keys = data.draw(st.sampled_from([None, ["id"], ["text DESC", "number"], ["number NULLS FIRST"]]))
        lake.rewrite(filter=filter_, sorted_by=keys, options=options)
        found = [as_text(row) for row in lake.load().scan().to_arrow().to_pylist()]
        assert sorted(found) == sorted(map(as_text, expected))


KEY = st.tuples(st.sampled_from([1, 2, 3]), st.booleans(), st.booleans())
KEYS = st.lists(KEY, min_size=1, max_size=3, unique_by=lambda key: key[0])


NANS = [{"id": 0, "text": None, "number": number, "items": None} for number in (1.0, math.nan, None, -math.inf)]


@example(rows=NANS, keys=[(3, True, False)], budget=1)
@example(rows=NANS, keys=[(3, True, True)], budget=10**6)
@given(rows=st.lists(ROW, max_size=60), keys=KEYS, budget=st.sampled_from([1, 200, 10**6]))
def test_rows_come_out_in_order_whatever_fits_into_memory(
    rows: list[dict[str, Any]], keys: list[tuple[int, bool, bool]], budget: int
) -> None:
    """As Python sorts them: nulls where they are wanted, NaN the greatest number, and -0.0 below 0.0."""
    names = {1: "id", 2: "text", 3: "number"}

    def place(row: dict[str, Any]) -> list[Any]:
        found: list[Any] = []
        for field_id, descending, nulls_first in keys:
            value = row[names[field_id]]
            found.append((value is not None) == nulls_first)
            if value is not None:
                number: tuple[Any, ...] = (0, value)
                if isinstance(value, float):
                    number = (1, 0.0) if math.isnan(value) else (0, value, value != 0 or math.copysign(1, value) > 0)
                found.append(_Backwards(number) if descending else number)
        return found

    batches = arrow(rows, SMALL).to_batches(max_chunksize=7)
    order = Order(
        SMALL,
        [SortKey(each, IdentityTransform(), descending=down, nulls_first=first) for each, down, first in keys],
    )
    found = [row for batch in in_order(batches, order, budget) for row in batch.to_pylist()]
    assert sorted(map(as_text, found)) == sorted(map(as_text, rows))
    assert [place(row) for row in found] == [place(row) for row in sorted(rows, key=place)]


class _Backwards:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Backwards) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Backwards) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


TIMED: list[Transform[Any, Any]] = [YearTransform(), MonthTransform(), DayTransform(), HourTransform()]
OF_DATES: list[Transform[Any, Any]] = [*TIMED[:3], BucketTransform(7), IdentityTransform()]
DATES = [date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(1583, 1, 1)]
TIMES = [datetime(1970, 1, 1) + timedelta(microseconds=each) for each in (-1, 0, 1, -3_600_000_000, 10**17, -(10**15))]


@pytest.mark.parametrize(
    ("transform", "kind", "values"),
    [
        *((each, TimestampType(), TIMES) for each in TIMED),
        *((each, TimestamptzType(), [value.replace(tzinfo=timezone.utc) for value in TIMES]) for each in TIMED),
        *((each, DateType(), DATES) for each in OF_DATES),
        (BucketTransform(16), TimestampType(), TIMES),
        (BucketTransform(16), LongType(), [0, -1, 2**62]),
        (BucketTransform(16), StringType(), ["", "a", "漢"]),
        (BucketTransform(16), BinaryType(), [b"", b"\0"]),
        (BucketTransform(16), DecimalType(9, 2), [Decimal("0.00"), Decimal("-12.34")]),
        (BucketTransform(16), TimeType(), [time(0), time(23, 59, 59, 999999)]),
        (TruncateTransform(10), IntegerType(), [-11, -10, -1, 0, 9, 10]),
        (TruncateTransform(2), StringType(), ["", "a", "漢字かな"]),
        (TruncateTransform(10), DecimalType(9, 2), [Decimal("10.65"), Decimal("-0.05")]),
        (TruncateTransform(2), BinaryType(), [b"", b"abc"]),
    ],
    ids=str,
)
def test_transforms_of_columns_are_those_of_values(
    transform: Transform[Any, Any], kind: IcebergType, values: list[Any]
) -> None:
    """Computed by PyIceberg one by one; null stays null, before 1970 too."""
    arrow_type: Any = schema_to_pyarrow(kind)
    given_values = [*values, None, *random.Random(1).choices(values, k=5)]
    column = pa.array(given_values, arrow_type)
    apply = transform.transform(kind)
    expected = [None if value is None else apply(_number(value)) for value in given_values]
    assert [_number(each) for each in apply_transform(transform, kind, column).to_pylist()] == expected


def _number(value: Any) -> Any:
    """Times as Iceberg has them, whole numbers since their epoch."""
    match value:
        case datetime():
            return (value.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
        case date():
            return (value - date(1970, 1, 1)).days
        case time():
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return value
