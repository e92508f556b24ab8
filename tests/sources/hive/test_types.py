"""Types as Hive spells them: read, spelled again, and in Iceberg's and Drill's words."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.errors import FormatError
from metastore.model.drill_types import parse_type
from metastore.sources.hive.types import HiveType, drill_type, iceberg_type, leaves_of, parse

PRIMITIVES = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date")
plain = st.one_of(
    st.sampled_from((*PRIMITIVES, "timestamp", "timestamptz")).map(HiveType),
    st.tuples(st.integers(1, 38), st.integers(0, 10)).map(lambda pair: HiveType("decimal", pair)),
    st.integers(1, 255).map(lambda length: HiveType("char", (length,))),
)
names = st.text(alphabet="abcXYZ_01é ", min_size=1).map(str.strip).filter(bool)
types = st.recursive(
    plain,
    lambda inner: st.one_of(
        inner.map(lambda each: HiveType("array", parts=(each,))),
        st.tuples(plain, inner).map(lambda pair: HiveType("map", parts=pair)),
        st.lists(st.tuples(names, inner), min_size=1, max_size=3).map(
            lambda own: HiveType("struct", fields=tuple(own))
        ),
    ),
    max_leaves=6,
)


@given(types)
def test_what_is_spelled_is_read_again(type_: HiveType) -> None:
    """Any type survives its own spelling."""
    assert parse(str(type_)) == type_


@given(types)
def test_drills_words_are_types_of_drill(type_: HiveType) -> None:
    """Drill's reader takes every one."""
    assert str(parse_type(str(drill_type(type_)))) == str(drill_type(type_))


@pytest.mark.parametrize(
    ("hive", "iceberg"),
    [
        ("tinyint", "int"),
        ("SMALLINT", "int"),
        ("integer", "int"),
        ("decimal", "decimal(10, 0)"),
        ("decimal(7)", "decimal(7, 0)"),
        ("decimal( 10 , 2 )", "decimal(10, 2)"),
        ("char(5)", "string"),
        ("varchar(10)", "string"),
        ("timestamp", "timestamp"),
        ("timestamp with local time zone", "timestamptz"),
        ("array<map<string,int>>", "list<map<string, int>>"),
        ("struct<userName:string,b:array<int>>", "struct<1: userName: optional string, 2: b: optional list<int>>"),
    ],
)
def test_in_icebergs_words(hive: str, iceberg: str) -> None:
    """Names of fields keep their case."""
    ids = count(1)
    assert str(iceberg_type(parse(hive), ("c",), is_moment=lambda _: False, next_id=lambda: next(ids))) == iceberg


@pytest.mark.parametrize(
    "text", ["", "uniontype<int>", "interval_day_time", "array<int", "array<int>>", "struct<a>", "map<int>", "int,int"]
)
def test_what_is_no_type(text: str) -> None:
    """It is refused with the type as it stands."""
    with pytest.raises(FormatError, match="cannot be used"):
        parse(text)


def test_leaves_are_depth_first() -> None:
    """Those in lists and maps are marked."""
    columns = [("a", parse("struct<x:int,y:array<struct<z:int>>>")), ("m", parse("map<string,int>"))]
    found = [(".".join(leaf.path), leaf.repeated) for leaf in leaves_of(columns)]
    assert found == [("a.x", False), ("a.y.element.z", True), ("m.key", True), ("m.value", True)]
