"""Where bounds of Parquet columns come from: which columns are read, and what is read of them."""

from __future__ import annotations

import pytest

from metastore.errors import InvalidRequestError
from metastore.lake.formats.bounds_from_data import BoundsFrom
from metastore.lake.formats.parquet.parquet_columns import Leaf
from metastore.lake.formats.parquet.writer_faults import Doubt

INT96 = Leaf(0, ("ts",), "INT96", "TIMESTAMP", False, None, True, False)
MICROS = Leaf(0, ("ts",), "INT64", "TIMESTAMP", False, None, True, False)
TEXT = Leaf(0, ("t",), "BYTE_ARRAY", "VARCHAR", False, None, True, False)
DOUBTED = Leaf(0, ("t",), "BYTE_ARRAY", "VARCHAR", False, None, True, False, Doubt.BOUNDS)
OLD_DOUBLE = Leaf(0, ("x",), "DOUBLE", "FLOAT8", False, None, True, False, Doubt.BOUNDS)
SHIFTED = Leaf(0, ("d",), "INT32", "DATE", False, None, True, False, Doubt.BOUNDS)
OLD_BYTES = Leaf(0, ("b",), "BYTE_ARRAY", "VARBINARY", False, None, True, False, Doubt.BOUNDS)
IN_STRUCT = Leaf(0, ("s", "ts"), "INT64", "TIMESTAMP", False, None, True, False)


@pytest.mark.parametrize(
    ("wanted", "leaf", "is_read"),
    [
        ("auto", INT96, True),
        ("auto", MICROS, False),
        ("auto", TEXT, False),
        ("auto", DOUBTED, True),
        ("auto", OLD_DOUBLE, True),
        ("auto", SHIFTED, False),
        ("auto", OLD_BYTES, False),
        ("footers", INT96, False),
        ("footers", DOUBTED, False),
        ("DATA", MICROS, True),
        ("data", TEXT, True),
        (["ts"], MICROS, True),
        (["t"], MICROS, False),
        (["s"], IN_STRUCT, True),
        ([], INT96, True),
    ],
)
def test_the_setting_says_which_columns_are_read(wanted: str | list[str], leaf: Leaf, is_read: bool) -> None:
    """Where their footers lack something; a struct stands for its leaves."""
    assert BoundsFrom.of(wanted).reads(leaf) is is_read


def test_an_unknown_setting_is_refused_with_those_that_are_known() -> None:
    """By name."""
    with pytest.raises(InvalidRequestError, match="auto, footers or data, not from 'none'"):
        BoundsFrom.of("none")
