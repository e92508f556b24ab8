"""A NULL struct with required fields is written as what it is; a NULL in a required field is still refused."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.lake.formats.map_arrays import map_array
from metastore.lake.formats.parquet.required_parts import has_required_parts, with_required_parts

LEAVES: dict[Any, Any] = {
    pa.int32(): 1,
    pa.bool_(): True,
    pa.string(): "x",
    pa.large_binary(): b"x",
    pa.binary(2): b"xy",
    pa.decimal128(9, 2): Decimal(1),
    pa.timestamp("us"): datetime(1960, 1, 1),
}
INNER: Any = pa.struct([pa.field("a", pa.int32(), nullable=False)])
TYPES: Any = st.recursive(
    st.sampled_from(list(LEAVES)),
    lambda inner: (
        st.tuples(inner, st.booleans()).map(lambda of: pa.struct([pa.field("a", *of), pa.field("b", pa.int32())]))
        | inner.map(pa.list_)
        | inner.map(lambda kind: pa.map_(pa.string(), kind))
    ),
    max_leaves=4,
)


def values_of(kind: Any, *, nullable: bool = True) -> Any:
    """Values of a type, with NULL wherever it may be."""
    if pa.types.is_struct(kind):
        some: Any = st.fixed_dictionaries({part.name: values_of(part.type, nullable=part.nullable) for part in kind})
    elif pa.types.is_map(kind):
        some = st.dictionaries(st.sampled_from("xyz"), values_of(kind.item_type), max_size=2).map(
            lambda entries: [*entries.items()]
        )
    elif pa.types.is_list(kind):
        some = st.lists(values_of(kind.value_type), max_size=2)
    else:
        some = st.just(LEAVES[kind])
    return st.none() | some if nullable else some


def as_duckdb_gives_it(array: Any) -> Any:
    """The same values; where a struct is NULL, so are all of its fields. Arrow itself puts other values there."""
    kind, null = array.type, array.is_null()
    if pa.types.is_struct(kind):
        places = pa.array(range(len(array)), pa.int64(), mask=null.to_numpy(zero_copy_only=False))
        parts = [as_duckdb_gives_it(array.field(place)).take(places) for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=null)
    if pa.types.is_map(kind):
        return map_array(array.offsets, array.keys, as_duckdb_gives_it(array.items), kind, null)
    if pa.types.is_list(kind):
        lists: Any = pa.ListArray
        return lists.from_arrays(array.offsets, as_duckdb_gives_it(array.values), type=kind, mask=null)
    return array


def require_written(column: Any) -> None:
    """Each part of the column is read as what it is."""
    for part in (column, column.slice(1), column.slice(0, 1)):
        written = BytesIO()
        pq.write_table(pa.table({"c": with_required_parts(part)}), written)
        assert pq.read_table(written)["c"].to_pylist() == part.to_pylist()


@given(st.data())
def test_every_value_is_read_as_it_was_written(data: st.DataObject) -> None:
    """Arrow alone refuses such columns, wherever the struct is."""
    kind = data.draw(TYPES)
    require_written(as_duckdb_gives_it(pa.array(data.draw(st.lists(values_of(kind), max_size=5)), kind)))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.struct([pa.field("b", INNER)]), [{"b": None}, None, {"b": {"a": 1}}]),
        (pa.struct([pa.field("b", INNER, nullable=False)]), [None, {"b": {"a": 1}}]),
        (pa.list_(INNER), [[None, {"a": 1}], None, []]),
        (pa.map_(pa.string(), pa.list_(INNER)), [[("x", [None])], None, [("y", None)]]),
    ],
)
def test_structs_inside_of_others(kind: Any, values: list[Any]) -> None:
    """NULL at each level, in arrays that are whole and in slices."""
    require_written(as_duckdb_gives_it(pa.array(values, kind)))


def test_arrow_refuses_them() -> None:
    """When it does not any more, this module can go."""
    kind = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    assert has_required_parts(kind)
    with pytest.raises(pa.ArrowInvalid, match="declared non-nullable but contains nulls"):
        pq.write_table(pa.table({"c": pa.nulls(2, kind)}), BytesIO())


def test_a_value_that_is_missing_is_refused() -> None:
    """The struct is there, and its required field is NULL."""
    kind: Any = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    column = pa.StructArray.from_arrays(
        [pa.array([None, None], pa.int32())], fields=list(kind), mask=pa.array([True, False])
    )
    with pytest.raises(pa.ArrowInvalid, match="declared non-nullable but contains nulls"):
        pq.write_table(pa.table({"c": with_required_parts(column)}), BytesIO())
