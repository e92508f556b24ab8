"""Positions of many names are those that the key of each name gives."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from metastore.overview.natural_order import natural_order, naturally_sorted

PIECES = st.sampled_from(
    ["month=", "/", "ä", "a", "\x00", "1", "2", "10", "010", "0", "00", "9" * 19, "1" * 21, "0" * 25]
)
NAMES = st.lists(PIECES, max_size=4).map("".join)


@given(st.lists(st.lists(NAMES, max_size=8), max_size=3))
def test_many_names_are_sorted_by_their_keys(chunks: list[list[str]]) -> None:
    """Any digits, equal names, and several chunks."""
    names = [name for chunk in chunks for name in chunk]
    found = naturally_sorted(pa.chunked_array([pa.array(chunk, pa.string()) for chunk in chunks], pa.string()))
    assert found.to_pylist() == sorted(range(len(names)), key=lambda place: natural_order(names[place]).encode())


def test_names_of_many_shapes_are_sorted_too() -> None:
    """As names with random letters and digits are."""
    names = [f"{number:b}".replace("1", "x") for number in range(3_000)]
    found = naturally_sorted(pa.chunked_array([names]))
    assert found.to_pylist() == sorted(range(len(names)), key=lambda place: natural_order(names[place]).encode())


def test_numbers_are_compared_as_numbers() -> None:
    """Whatever their length."""
    names = ["m=10/a", "m=2/a", "m=002/b", "m=1/z"]
    order = naturally_sorted(pa.chunked_array([names]))
    assert pa.array(names).take(order).to_pylist() == ["m=1/z", "m=2/a", "m=002/b", "m=10/a"]
