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

from metastore.formats.required_parts import has_required_parts, with_required_parts

LEAVES: dict[Any, Any] = {
    pa.int32(): 1,
    pa.bool_(): True,
    pa.string(): "x",
    pa.large_binary(): b"x",
    pa.binary(2): b"xy",
    pa.decimal128(9, 2): Decimal(1),
    pa.timestamp("us"): datetime(1960, 1, 1),
}
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


@given(st.data())
def test_every_value_is_read_as_it_was_written(data: st.DataObject) -> None:
    """Arrow alone refuses such columns, wherever the struct is."""
    kind = data.draw(TYPES)
    column: Any = pa.array(data.draw(st.lists(values_of(kind), max_size=5)), kind)
    written = BytesIO()
    pq.write_table(pa.table({"c": with_required_parts(column)}), written)
    found = pq.read_table(written)["c"].combine_chunks()
    assert found.to_pylist() == column.to_pylist()


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
