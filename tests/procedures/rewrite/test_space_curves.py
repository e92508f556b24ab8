"""sort_order => 'zorder(a, b)' and 'hilbert(a, b)': a condition on either column opens few files."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)
from pyiceberg.utils.datetime import datetime_to_micros
from support.rewriting_lake import Lake

from metastore.errors import InvalidRequestError
from metastore.lake.writes.job import AlongCurve
from metastore.lake.writes.ordering import Order, in_order
from metastore.lake.writes.space_curves import Curve, along_hilbert, interleave_bits

SIDE = 64
START = datetime(2021, 1, 1, tzinfo=timezone.utc)
KINDS: dict[str, tuple[Any, Callable[[int], Any]]] = {
    "number": (LongType(), lambda n: n),
    "small": (IntegerType(), lambda n: n - SIDE // 2),
    "float": (DoubleType(), lambda n: (n - 10.5) * 1e30),
    "text": (StringType(), lambda n: f"all begin so {n:02d}"),
    "moment": (TimestamptzType(), lambda n: START + timedelta(seconds=n)),
}


def square(lake: Lake, x: str, y: str) -> Table:
    """A table of all pairs of 64 values of each kind, in 16 files of rows in any order."""
    (kind_x, value_x), (kind_y, value_y) = KINDS[x], KINDS[y]
    fields = (NestedField(1, "x", kind_x), NestedField(2, "y", kind_y))
    table: Table = lake.create(Schema(*fields), properties={"write.parquet.compression-codec": "uncompressed"})
    pairs = [(value_x(a), value_y(b)) for a in range(SIDE) for b in range(SIDE)]
    random.Random(7).shuffle(pairs)
    arrow = table.schema().as_arrow()
    for start in range(0, len(pairs), 256):
        part = pairs[start : start + 256]
        table.append(pa.Table.from_pylist([{"x": a, "y": b} for a, b in part], arrow))
    return table


def files_of(lake: Lake, column: int, value: Any) -> int:
    """How many files a condition ``column = value`` opens, by the bounds in the manifest."""
    kind: Any = lake.load().schema().find_type(column)
    wanted: Any = datetime_to_micros(value) if isinstance(value, datetime) else value
    return sum(
        from_bytes(kind, file.lower_bounds[column]) <= wanted <= from_bytes(kind, file.upper_bounds[column])
        for file in lake.data_files()
    )


@pytest.mark.parametrize(
    ("curve", "x", "y"),
    [
        *(("zorder", "number", "number"), ("zorder", "number", "float"), ("zorder", "small", "moment")),
        *(("hilbert", "number", "number"), ("hilbert", "text", "number")),
    ],
)
def test_either_column_opens_few_files(lake: Lake, curve: str, x: str, y: str) -> None:
    """At most twice the square root of all; sorted by the other column, a condition would open all.

    The borders of files are not those of squares on the curve, hence twice.
    """
    table = square(lake, x, y)
    before = sorted(map(repr, table.scan().to_arrow().to_pylist()))
    size = sum(file.file_size_in_bytes for file in lake.data_files())
    schema, name = ".".join(table.name()).rsplit(".", 1)
    lake.session.sql(
        f"CALL lake.system.rewrite_data_files(table => '{schema}.{name}', strategy => 'sort', "
        f"sort_order => '{curve}(x, y)', options => map('rewrite-all', 'true', "
        f"'target-file-size-bytes', '{size // 16}', 'min-file-size-bytes', '1', "
        f"'max-file-size-bytes', '{size // 16 * 9 // 5}'))"
    )
    assert sorted(map(repr, lake.load().scan().to_arrow().to_pylist())) == before
    every = len(lake.data_files())
    assert every >= 12
    for column, kind in ((1, x), (2, y)):
        opened = [files_of(lake, column, KINDS[kind][1](n)) for n in range(SIDE)]
        assert sum(opened) / SIDE <= every**0.5 * 2


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
            st.one_of(st.none(), st.floats()),
            st.one_of(st.none(), st.text(max_size=3)),
        ),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 60),
)
def test_the_place_grows_with_every_column(rows: list[tuple[Any, ...]], sampled: int) -> None:
    """A row that is not before another in any column is not before it on the curve, also beyond the sample."""
    schema = Schema(
        NestedField(1, "a", LongType()), NestedField(2, "b", DoubleType()), NestedField(3, "c", StringType())
    )
    columns = list(zip(*rows, strict=True))
    table = pa.table(
        [pa.array(columns[0], pa.int64()), pa.array(columns[1], pa.float64()), pa.array(columns[2])], ["a", "b", "c"]
    )
    order = Order(schema, [AlongCurve((1, 2, 3))]).fit(table.slice(0, sampled))
    places: list[Any] = order.ranks(table)[0].column(0).to_pylist()

    def key(value: Any) -> tuple[Any, ...]:
        missing = value is None
        is_nan = isinstance(value, float) and value != value
        return (missing, is_nan, 0 if missing or is_nan else value.encode() if isinstance(value, str) else value)

    keys = [[key(value) for value in row] for row in rows]
    for one, place in zip(keys, places, strict=True):
        for other, further in zip(keys, places, strict=True):
            if all(mine <= theirs for mine, theirs in zip(one, other, strict=True)):
                assert place <= further


@pytest.mark.parametrize(("dimensions", "bits"), [(1, 5), (2, 1), (2, 5), (3, 3), (4, 2), (16, 1)])
def test_neighbours_on_a_hilbert_curve_are_neighbours_in_space(dimensions: int, bits: int) -> None:
    """It goes through each point once, and moves by one in one dimension with each step."""
    points = np.stack(np.meshgrid(*[np.arange(1 << bits)] * dimensions), axis=-1).reshape(-1, dimensions)
    places = interleave_bits(along_hilbert(list(points.T.copy()), bits), bits)
    assert sorted(places.tolist()) == list(range(len(points)))
    steps = np.abs(np.diff(points[np.argsort(places)], axis=0))
    assert (steps.sum(axis=1) == 1).all()


def test_rows_beyond_the_budget_are_all_there() -> None:
    """Sorted in temporary files, they come once each, and near each other as in memory."""
    schema = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", LongType()))
    shuffled = np.random.default_rng(3).permutation(1 << 14)
    table = pa.table([pa.array(shuffled % 128), pa.array(shuffled // 128)], ["a", "b"])
    order = Order(schema, [AlongCurve((1, 2))])
    found = pa.Table.from_batches(in_order(table.to_batches(1000), order, 1 << 14))
    assert sorted(map(tuple, zip(*found.to_pydict().values(), strict=True))) == [
        (a, b) for a in range(128) for b in range(128)
    ]
    for column in ("a", "b"):
        parts = found.column(column).to_numpy().reshape(64, -1)
        assert np.mean(parts.max(axis=1) - parts.min(axis=1)) < 128 / 4


def test_columns_with_few_values_weigh_as_much() -> None:
    """Two values are two halves of the curve, not two neighbours in a column of a thousand."""
    few, many = pa.table({"v": [0, 1] * 500}), pa.table({"v": list(range(1000))})
    curve = Curve.through([few, many])
    places = curve.places([pa.table({"v": [0, 1]}), pa.table({"v": [999, 0]})]).to_pylist()
    assert places[0] < places[1]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("zorder(x, y), x", "zorder(x, y) cannot be combined with other keys"),
        ("hilbert(y, x), x", "hilbert(y, x) cannot be combined with other keys"),
        ("hilbert(x, x)", "hilbert(x, x) needs 1 to 16 columns, each once"),
        ("zorder(x, x)", "needs 1 to 16 columns, each once"),
        ("zorder(x, z)", "there is no column 'z'; there are x, y"),
        ("zorder()", "there is no column ''"),
    ],
)
def test_orders_that_are_refused(lake: Lake, order: str, message: str) -> None:
    """By what is wrong in them."""
    table = lake.create(Schema(NestedField(1, "x", LongType()), NestedField(2, "y", LongType())))
    with pytest.raises(InvalidRequestError) as raised:
        lake.session.sql(
            f"CALL lake.system.rewrite_data_files(table => '{'.'.join(table.name())}', sort_order => '{order}')"
        )
    assert message in str(raised.value)


def test_nulls_and_fields_of_structs(lake: Lake) -> None:
    """Booleans and bytes may be NULL, and a column may lie in a struct; no row is lost."""
    inner = NestedField(4, "flag", BooleanType())
    table = lake.create(
        Schema(
            NestedField(1, "s", StructType(inner)),
            NestedField(2, "raw", BinaryType()),
            NestedField(3, "id", LongType()),
        )
    )
    arrow = table.schema().as_arrow()
    values: list[dict[str, Any]] = [
        {"s": flag, "raw": raw, "id": 1}
        for flag in ({"flag": True}, {"flag": False}, {"flag": None}, None)
        for raw in (b"", b"\xff", None)
    ]
    for value in values:
        table.append(pa.Table.from_pylist([value], arrow))
    lake.rewrite(strategy="sort", sorted_by=["zorder(s.flag, raw)"], options={"rewrite-all": "true"})
    assert len(lake.data_files()) == 1
    assert sorted(map(repr, lake.load().scan().to_arrow().to_pylist())) == sorted(map(repr, values))


def test_no_table_is_created_in_such_an_order(lake: Lake) -> None:
    """Iceberg's sort orders have no place for it."""
    lake.create(Schema(NestedField(1, "x", LongType())))
    schema = lake.load().name()[0]
    with pytest.raises(InvalidRequestError, match="for rewrite_data_files only"):
        lake.session.sql(f"CREATE TABLE lake.{schema}.u (x BIGINT, y BIGINT) WITH (sorted_by = ARRAY['zorder(x, y)'])")
