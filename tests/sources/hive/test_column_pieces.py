"""Two readings of a column are equal only if every piece of it is: found by changing one value at any depth."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from metastore.procedures.hive.migration.column_pieces import PieceMeasures, paths, pieces

TYPE: Any = pa.struct(
    [
        ("texts", pa.list_(pa.string())),
        ("structs", pa.list_(pa.struct([("x", pa.int32()), ("d", pa.float64())]))),
        ("by", pa.map_(pa.string(), pa.list_(pa.decimal128(9, 2)))),
        ("day", pa.date32()),
        ("raw", pa.binary()),
    ]
)


def values(type_: Any) -> st.SearchStrategy[Any]:
    """Values of a type, nulls at every depth."""
    return st.none() | _held(type_)


def _held(type_: Any) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(type_):
        return st.fixed_dictionaries(
            {type_.field(n).name: values(type_.field(n).type) for n in range(type_.num_fields)}
        )
    if pa.types.is_map(type_):
        return st.lists(st.tuples(_held(type_.key_type), values(type_.item_type)), max_size=2)
    if pa.types.is_list(type_):
        return st.lists(values(type_.value_type), max_size=3)
    return LEAVES[type_]


LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    pa.string(): st.sampled_from(["", "a", "b"]),
    pa.int32(): st.integers(-2, 2),
    pa.float64(): st.sampled_from([0.0, 1.5, float("inf"), float("nan")]),
    pa.decimal128(9, 2): st.decimals(-10, 10, places=2),
    pa.date32(): st.integers(-800_000, 5_000_000),
    pa.binary(): st.sampled_from([b"", b"\x00", b"\xff"]),
}


def measured(rows: list[Any]) -> dict[str, PieceMeasures]:
    """What the pieces of a column come to."""
    found = {path: PieceMeasures() for path, _ in paths("c", TYPE)}
    for path, array in pieces("c", pa.array(rows, TYPE), TYPE):
        found[path].add(array)
    return found


@given(st.lists(values(TYPE), max_size=4), st.lists(values(TYPE), max_size=4))
def test_equal_rows_and_no_others_are_measured_alike(left: list[Any], right: list[Any]) -> None:
    """In any order; rows that differ in one null, one empty list or one value are not."""
    assert measured(left) == measured(left[::-1])
    if measured(left) == measured(right):
        one, other = (sorted(_leaves(rows)) for rows in (left, right))
        assert one == other


def _leaves(rows: list[Any]) -> list[str]:
    """Each piece's values, in any order, by another way than the one that is tested."""
    found: list[str] = []

    def walk(path: str, value: Any, type_: Any) -> None:
        inner: Any = type_
        if value is None or not pa.types.is_nested(type_):
            found.append(f"{path}={value!r}")
            return
        found.append(f"{path} is there")
        if pa.types.is_struct(type_):
            for field in (type_.field(n) for n in range(type_.num_fields)):
                walk(f"{path}.{field.name}", value[field.name], field.type)
        elif pa.types.is_map(type_):
            for key, item in value:
                walk(f"{path}.key", key, type_.key_type)
                walk(f"{path}.value", item, type_.item_type)
        else:
            for item in value:
                walk(f"{path}.element", item, inner.value_type)

    # A struct that is null has fields that are, as everywhere else in Arrow and Parquet.
    for row in rows:
        walk("c", dict.fromkeys(TYPE.names) if row is None else row, TYPE)
        found.append(f"row {row is None}")
    return found


def test_a_null_list_is_not_an_empty_one() -> None:
    """Nor one of a null."""
    three = [measured([{"structs": each}]) for each in (None, [], [None])]
    assert all(one != other for at, one in enumerate(three) for other in three[:at])
