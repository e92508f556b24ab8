"""Fields of structs find those of a table by name, in any order and case, at any depth."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from metastore.lake.writes.fields_by_name import order_fields, type_by_name


def struct(**fields: Any) -> pa.DataType:
    """A struct of these fields."""
    return pa.struct(list(fields.items()))


OWN = struct(B=pa.list_(struct(y=pa.int32(), x=pa.string())), a=pa.map_(pa.string(), struct(Q=pa.int8(), p=pa.int8())))
TARGET = struct(
    a=pa.map_(pa.string(), struct(p=pa.int32(), q=pa.int32())), b=pa.list_(struct(x=pa.string(), Y=pa.int64()))
)
ROWS: list[Any] = [
    None,
    {"B": [{"y": 1, "x": "u"}, None], "a": [("k", {"Q": 1, "p": 2}), ("l", None)]},
    {"B": None, "a": None},
    {"B": [], "a": []},
    {"B": [{"y": 3, "x": None}], "a": [("z", {"Q": 5, "p": 6})]},
]
ORDERED: list[Any] = [
    None,
    {"a": [("k", {"p": 2, "q": 1}), ("l", None)], "b": [{"x": "u", "Y": 1}, None]},
    {"a": None, "b": None},
    {"a": [], "b": []},
    {"a": [("z", {"p": 6, "q": 5})], "b": [{"x": None, "Y": 3}]},
]


@pytest.mark.parametrize(("first", "length"), [(0, 5), (1, 3), (2, 2), (4, 1), (3, 0)])
def test_values_stay_with_their_names(first: int, length: int) -> None:
    """Within lists and maps, also of a part of an array; nulls stay null, and types are not widened here."""
    part = pa.array(ROWS, OWN).slice(first, length)
    found = order_fields(pa.chunked_array([part, part]), TARGET)
    found.validate(full=True)
    assert found.to_pylist() == ORDERED[first : first + length] * 2
    assert found.type == type_by_name(OWN, TARGET)
    assert type_by_name(OWN, TARGET).field("b").type.value_type == struct(x=pa.string(), Y=pa.int32())


@pytest.mark.parametrize(
    "own",
    [
        struct(a=pa.int8(), A=pa.int8()),
        struct(a=pa.int8()),
        struct(a=pa.int8(), b=pa.int8(), c=pa.int8()),
        pa.int8(),
    ],
)
def test_a_struct_with_other_fields_stays_as_it_is(own: pa.DataType) -> None:
    """Fewer, more, or two that differ in case alone: who stores it refuses it by its types."""
    assert type_by_name(own, struct(b=pa.int8(), a=pa.int8())) == own
