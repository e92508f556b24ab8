"""Rows that one table has and another has not, as often as they differ: judged by counting the rows' texts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from metastore.lake.iceberg.rows.row_difference import difference, row_numbers

NAN = float("nan")
NULL = None
VALUES: dict[pa.Field[Any], list[Any]] = {
    pa.field("whole", pa.int32()): [NULL, 1, 2],
    pa.field("double", pa.float64()): [NULL, NAN, 0.0, -0.0, 1.5],
    pa.field("list", pa.list_(pa.int64())): [NULL, [], [1], [1, NULL], [NULL], [2, 1]],
    pa.field("lists", pa.large_list(pa.list_(pa.int8()))): [NULL, [[1], NULL], [[1]], [[], [1]]],
    pa.field("struct", pa.struct([("x", pa.int32()), ("y", pa.string())])): [
        NULL,
        {"x": NULL},
        {"x": 1},
        {"x": 1, "y": ""},
    ],
    pa.field("map", pa.map_(pa.string(), pa.int32())): [NULL, [], [("k", 1)], [("k", NULL)]],
    pa.field("pair", pa.list_(pa.int16(), 2)): [NULL, [1, 2], [1, NULL]],
    pa.field("bytes", pa.binary()): [NULL, b"", b"\0"],
    pa.field("nothing", pa.null()): [NULL],
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, pa.Table]:
    """Two tables of the same columns; the first may be a slice, whose arrays have an offset."""
    fields = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3, unique=True))
    rows = st.lists(st.fixed_dictionaries({field.name: st.sampled_from(VALUES[field]) for field in fields}), max_size=8)
    before, after = (pa.Table.from_pylist(draw(rows), pa.schema(fields)) for _ in range(2))
    return before.slice(draw(st.integers(0, 2))), after


@given(tables())
def test_rows_are_counted(pair: tuple[pa.Table, pa.Table]) -> None:
    """A row is in the difference as often as one side has more of it."""
    texts = [Counter(map(repr, part.to_pylist())) for part in pair]
    masks = difference(*pair)
    left = [
        Counter(map(repr, part.filter(pa.array(mask, pa.bool_())).to_pylist()))
        for part, mask in zip(pair, masks, strict=True)
    ]
    assert left == [texts[0] - texts[1], texts[1] - texts[0]]


def test_every_pattern_of_nan_is_one_value() -> None:
    """Arrow itself tells them apart."""
    bits = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    assert row_numbers(pa.table({"x": pa.array(bits)})).tolist() == [0, 0, 0]
