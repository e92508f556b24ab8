"""Rows by value, whether their runs are sliced or copied."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from metastore.model.mapping.runs import runs, together

VALUES = st.sampled_from(["FILE", "ROW_GROUP", None])
LONG_RUNS = st.lists(st.tuples(VALUES, st.integers(1, 30))).map(lambda found: [v for v, n in found for _ in range(n)])


@given(st.lists(st.lists(VALUES) | LONG_RUNS, max_size=3))
def test_rows_of_a_value_are_all_its_rows_in_order(chunks: list[list[str | None]]) -> None:
    """Short runs, long runs, nulls and several chunks."""
    kinds = [kind for chunk in chunks for kind in chunk]
    arrays = [pa.array(chunk, pa.string()) for chunk in chunks]
    table = pa.Table.from_arrays(
        [pa.chunked_array(arrays, pa.string()), pa.array(range(len(kinds)), pa.int64())], ["kind", "place"]
    )
    expected: dict[str | None, list[int]] = {}
    for place, kind in enumerate(kinds):
        expected.setdefault(kind, []).append(place)
    found = together(table, "kind")
    assert {kind: rows["place"].to_pylist() for kind, rows in found.items()} == expected
    assert list(found) == list(expected)
    assert [(kind, place) for kind, rows in runs(table, "kind") for place in rows["place"].to_pylist()] == list(
        zip(kinds, range(len(kinds)), strict=True)
    )
