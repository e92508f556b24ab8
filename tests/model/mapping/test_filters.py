"""Filters: what does not fit the columns says so, and pruning never loses a row."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    In,
    IsNull,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from pyiceberg.expressions.visitors import expression_evaluator
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, StringType, StructType

from metastore.errors import InvalidRequestError
from metastore.model.mapping.filters import (
    all_of,
    bind_filter,
    columns_read,
    partition_schema,
    project_on_partitions,
    to_arrow_filter,
)
from metastore.model.mapping.rows import by_partition, to_arrow
from metastore.model.mapping.schema import iceberg_schema, partition_spec
from metastore.model.table_unit import TableMetadataUnit

SCHEMA = iceberg_schema(TableMetadataUnit)
SPEC = partition_spec(TableMetadataUnit)
UNITS = [
    TableMetadataUnit(plugin, "tmp", table, owner=owner, metadata_key=key, last_modified_time=time)
    for plugin in ("dfs", "s3")
    for table in ("a", "ab", "b")
    for key, owner, time in (("GENERAL_INFO", "a", 1), ("1994", None, 2), ("1994", "ab", None))
]
ROWS = to_arrow(TableMetadataUnit, UNITS)


class TestBound:
    @pytest.mark.parametrize("name", ["noSuchColumn", "tablename", "hostAffinity.host", "locations.first"])
    def test_an_unknown_column_is_named(self, name: str) -> None:
        """Beside those that there are; the case of letters counts."""
        with pytest.raises(InvalidRequestError, match=f"{name}.*does not fit the columns .storagePlugin, .*hostAff"):
            bind_filter(SCHEMA, And(EqualTo("owner", "a"), EqualTo(name, "b")))

    def test_columns_read_are_those_at_the_top(self) -> None:
        """Each once; what is always true reads none, and a field within a column reads the column."""
        asked = Or(EqualTo("owner", "a"), And(NotNull("owner"), GreaterThan("lastModifiedTime", 1)))
        assert columns_read(SCHEMA, bind_filter(SCHEMA, asked)) == {"owner", "lastModifiedTime"}
        assert columns_read(SCHEMA, AlwaysTrue()) == frozenset()
        nested = Schema(NestedField(1, "outer", StructType(NestedField(2, "inner", StringType()))))
        assert columns_read(nested, bind_filter(nested, EqualTo("outer.inner", "a"))) == {"outer"}


def test_all_of_nothing_is_everything() -> None:
    """And of one it is that one, of several all must hold."""
    one, two = EqualTo("owner", "a"), EqualTo("path", "b")
    assert all_of([]) == AlwaysTrue()
    assert all_of(iter([one])) == one
    assert all_of([one, two]) == And(one, two)


_TEXTS = ("storagePlugin", "tableName", "metadataKey", "owner")
_values = st.sampled_from(["dfs", "a", "ab", "b", "1994", ""])


def _leaves(name: str) -> st.SearchStrategy[BooleanExpression]:
    both = st.sets(_values, min_size=1, max_size=3)
    of_one = [EqualTo, NotEqualTo, GreaterThan, LessThanOrEqual, StartsWith, NotStartsWith]
    return st.one_of(
        *(_values.map(lambda value, kind=kind: kind(name, value)) for kind in of_one),  # type: ignore[misc]
        both.map(lambda values: In(name, values)),
        both.map(lambda values: NotIn(name, values)),
        st.sampled_from([IsNull(name), NotNull(name)]),
    )


_expressions = st.recursive(
    st.one_of(*map(_leaves, _TEXTS)),
    lambda inner: st.one_of(st.builds(And, inner, inner), st.builds(Or, inner, inner), st.builds(Not, inner)),
    max_leaves=5,
)


@given(_expressions)
def test_projection_never_excludes_a_partition_with_a_matching_row(expression: BooleanExpression) -> None:
    """Whatever is asked of whichever columns; and asked of partition columns alone, it excludes all others."""
    required = project_on_partitions(SCHEMA, SPEC, expression)
    may_match = expression_evaluator(partition_schema(SCHEMA, SPEC), required, case_sensitive=True)
    row_filter = to_arrow_filter(bind_filter(SCHEMA, expression))
    groups = by_partition(TableMetadataUnit, ROWS)
    holding = {group.key for group in groups if group.rows.filter(row_filter).num_rows}
    passing = {group.key for group in groups if may_match(Record(*group.key))}
    assert holding <= passing
    if "owner" not in columns_read(SCHEMA, bind_filter(SCHEMA, expression)):
        assert holding == passing


def test_partition_values_have_a_schema_of_their_own() -> None:
    """One optional text a partition column, under the spec's ids."""
    fields = partition_schema(SCHEMA, SPEC).fields
    assert [(f.field_id, f.name) for f in fields] == [
        (1000, "storagePlugin"),
        (1001, "workspace"),
        (1002, "tableName"),
        (1003, "metadataKey"),
    ]
    assert all(isinstance(f.field_type, StringType) and not f.required for f in fields)
