"""Drill's types: spelled as read, and joined in any order to the same type."""

from __future__ import annotations

from functools import reduce
from itertools import permutations, product

import pytest

from metastore.errors import FormatError
from metastore.model.drill_types import common_minor_type, common_type, minor_type, parse_type

SIMPLE = [
    *("TINYINT", "SMALLINT", "INT", "BIGINT", "UINT1", "UINT2", "UINT4", "UINT8", "FLOAT", "DOUBLE", "VARCHAR"),
    *("DECIMAL(5, 2)", "DECIMAL(38, 0)", "DECIMAL(38, 30)", "BOOLEAN", "DATE", "NULL"),
    *("INTERVAL", "INTERVAL YEAR", "INTERVAL DAY"),
]
NESTED = [
    "ARRAY<INT>",
    "ARRAY<DOUBLE>",
    "MAP<VARCHAR, INT>",
    "STRUCT<>",
    "ARRAY<STRUCT<>>",
    "STRUCT<`a` INT>",
    "STRUCT<`a` DOUBLE, `b c` STRUCT<`d` INT>>",
]


@pytest.mark.parametrize("text", [*SIMPLE, *NESTED, r"STRUCT<`a\`b` INT NOT NULL, `ä` ARRAY<STRUCT<`x` DATE>>>"])
def test_types_are_written_as_they_are_read(text: str) -> None:
    """The canonical spelling survives."""
    assert str(parse_type(text)) == text


def test_other_spellings_are_understood() -> None:
    """Case, spacing, lengths and SQL's long names."""
    assert str(parse_type("decimal(9,2)")) == "DECIMAL(9, 2)"
    assert str(parse_type("VARCHAR(20)")) == str(parse_type("character varying(20)")) == "VARCHAR"
    assert str(parse_type("Struct<a integer>")) == "STRUCT<`a` INT>"
    assert parse_type("STRUCT<`a``b` INT>") == parse_type(r"STRUCT<`a\`b` INT>")
    assert str(parse_type("struct<a interval, day interval day>")) == "STRUCT<`a` INTERVAL, `day` INTERVAL DAY>"


@pytest.mark.parametrize(
    "text", ["", "STRUCT<`a`>", "ARRAY<INT", "DECIMAL(x)", "INT INT", "<", "ARRAY<>", "STRUCT<,>", "INT DAY"]
)
def test_what_is_no_type_is_a_format_error(text: str) -> None:
    """The error shows the text and the place."""
    with pytest.raises(FormatError, match="position"):
        parse_type(text)


@pytest.mark.parametrize("types", [SIMPLE, [*NESTED, "INT", "VARCHAR", "NULL"]])
def test_the_order_of_files_never_changes_a_type(types: list[str]) -> None:
    """Joining is idempotent, commutative and associative, over every three types."""
    for a, b, c in product(types, repeat=3):
        assert common_type(common_type(a, b), c) == common_type(a, common_type(b, c))
        assert common_type(a, b) == common_type(b, a) or "STRUCT" in a
    assert all(common_type(a, a) == a for a in types)


def test_the_order_of_parts_never_changes_a_minor_type() -> None:
    """The same for the types that statistics name."""
    minors = [minor_type(t) for t in SIMPLE] + ["TIME", "TIMESTAMP", "VARBINARY"]
    for three in product(sorted(set(minors)), repeat=3):
        assert len({reduce(common_minor_type, order) for order in permutations(three)}) == 1


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        ("INT", "BIGINT", "BIGINT"),
        ("UINT4", "INT", "BIGINT"),
        ("UINT8", "INT", "DECIMAL(20, 0)"),
        ("INT", "DECIMAL(5, 2)", "DECIMAL(12, 2)"),
        ("INT", "DOUBLE", "DOUBLE"),
        ("INT", "FLOAT", "DOUBLE"),
        ("DECIMAL(38, 0)", "DECIMAL(38, 30)", "DOUBLE"),
        ("DATE", "INT", "VARCHAR"),
        ("NULL", "DATE", "DATE"),
        ("STRUCT<>", "STRUCT<`a` INT NOT NULL>", "STRUCT<`a` INT>"),
        ("INTERVAL DAY", "INTERVAL YEAR", "VARCHAR"),
        ("STRUCT<`a` INT NOT NULL>", "STRUCT<`a` BIGINT, `b` DATE>", "STRUCT<`a` BIGINT, `b` DATE>"),
    ],
)
def test_common_types(left: str, right: str, common: str) -> None:
    """The narrowest type that holds both."""
    assert common_type(left, right) == common


def test_minor_types() -> None:
    """Statistics name Drill's minor types."""
    names = {
        "INTERVAL DAY": "INTERVALDAY",
        "INTERVAL YEAR": "INTERVALYEAR",
        "BOOLEAN": "BIT",
        "FLOAT": "FLOAT4",
        "DOUBLE": "FLOAT8",
        "DECIMAL(9, 2)": "VARDECIMAL",
        "DATE": "DATE",
    }
    assert {name: minor_type(name) for name in names} == names
