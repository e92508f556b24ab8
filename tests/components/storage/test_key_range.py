"""Which keys a filter asks for, and which manifests may hold them, told by their ranges alone."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    In,
    IsNull,
    LessThan,
    Not,
    NotEqualTo,
    Or,
    StartsWith,
)
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField, StringType

from metastore.components.storage.key_range import KeyRange, Required, SplitFilter, may_hold, split
from metastore.model.mapping.filters import bind_filter

COLUMNS = ("plugin", "table")
SCHEMA = Schema(*(NestedField(n, name, StringType(), required=False) for n, name in enumerate(COLUMNS, 1)))
SPEC = PartitionSpec(*(PartitionField(n, 999 + n, IdentityTransform(), name) for n, name in enumerate(COLUMNS, 1)))
VALUES = st.sampled_from(["", "a", "b", "bé", "c", "'", "z"])
NAMES = st.sampled_from(COLUMNS)
TERMS = st.one_of(
    st.tuples(NAMES, VALUES).map(lambda t: EqualTo(*t)),
    st.tuples(NAMES, VALUES).map(lambda t: NotEqualTo(*t)),
    st.tuples(NAMES, VALUES).map(lambda t: LessThan(*t)),
    st.tuples(NAMES, VALUES).map(lambda t: StartsWith(*t)),
    st.tuples(NAMES, st.sets(VALUES, min_size=1, max_size=3)).map(lambda t: In(*t)),
    st.tuples(NAMES).map(lambda t: IsNull(*t)),
)
EXPRESSIONS: st.SearchStrategy[BooleanExpression] = st.recursive(
    TERMS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda t: And(*t)), st.tuples(inner, inner).map(lambda t: Or(*t)), inner.map(Not)
    ),
)
KEYS = st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=5)


def required_values(expression: BooleanExpression) -> Required:
    """What the filter asks of each column."""
    return split(expression, SPEC).keys


@given(EXPRESSIONS, st.lists(st.tuples(VALUES | st.none(), VALUES), min_size=1, max_size=5))
def test_both_parts_of_a_filter_are_the_filter(
    expression: BooleanExpression, keys: list[tuple[str | None, str]]
) -> None:
    """Keys with the values that pass the rest are those that pass the whole, by Arrow's answer; of nulls as well."""
    columns = [pa.array(column, pa.string()) for column in zip(*keys, strict=True)]
    table = pa.table([*columns, pa.array(range(len(keys)))], names=[*COLUMNS, "position"])
    wanted = split(expression, SPEC)
    rest = table.filter(expression_to_pyarrow(bind_filter(SCHEMA, wanted.rest)))["position"].to_pylist()
    whole = table.filter(expression_to_pyarrow(bind_filter(SCHEMA, expression)))["position"].to_pylist()
    assert [position for position in wanted.among(keys) if position in rest] == whole  # type: ignore[arg-type]


def test_terms_over_the_key_leave_no_rest() -> None:
    """A filter for one table's key costs no expression; what is no string or no column of it stays."""
    wanted = split(And(And(EqualTo("plugin", "a"), In("table", {"b", "c"})), EqualTo("table", "b")), SPEC)
    assert (wanted.keys, wanted.rest) == ((frozenset("a"), frozenset("b")), AlwaysTrue())
    left = And(EqualTo("plugin", 1), EqualTo("owner", "me"))
    assert split(left, SPEC) == SplitFilter((None, None), left)


@given(EXPRESSIONS, KEYS)
def test_no_manifest_with_a_matching_key_is_left_out(
    expression: BooleanExpression, keys: list[tuple[str, str]]
) -> None:
    """Whatever the filter, against Arrow's answer over the keys themselves."""
    columns = list(zip(*keys, strict=True))
    table = pa.table([pa.array(column) for column in columns], names=list(COLUMNS))
    matching = table.filter(expression_to_pyarrow(bind_filter(SCHEMA, expression))).num_rows
    held = KeyRange(tuple(map(min, columns)), tuple(map(max, columns)))
    assert may_hold(held, required_values(expression)) or not matching


@given(KEYS, st.tuples(VALUES, VALUES))
def test_a_key_outside_the_range_of_a_column_leaves_the_manifest_out(
    keys: list[tuple[str, str]], wanted: tuple[str, str]
) -> None:
    """A filter for one key, as most reads have it, keeps just the manifests whose ranges hold it."""
    columns = list(zip(*keys, strict=True))
    held = KeyRange(tuple(map(min, columns)), tuple(map(max, columns)))
    inside = all(min(column) <= value <= max(column) for column, value in zip(columns, wanted, strict=True))
    expression = And(EqualTo("plugin", wanted[0]), In("table", {wanted[1]}))
    assert may_hold(held, required_values(expression)) == inside


def test_contradicting_terms_leave_every_manifest_out() -> None:
    """A column cannot have two values at once; a manifest whose range is not known is kept all the same."""
    nothing = required_values(And(EqualTo("table", "a"), EqualTo("table", "b")))
    assert not may_hold(KeyRange(("", ""), ("z", "z")), nothing)
    assert may_hold(None, nothing)
