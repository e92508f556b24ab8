"""The private names of PyIceberg do what we lean on: no matching row is excluded."""

from __future__ import annotations

import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import (
    AlwaysTrue,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    In,
    IsNull,
    LessThan,
    Not,
    NotEqualTo,
    NotIn,
    NotNull,
    NotStartsWith,
    StartsWith,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from metastore.lake.iceberg.catalogs.iceberg_private import metrics_evaluator

SCHEMA = Schema(
    NestedField(1, "n", LongType(), required=False),
    NestedField(2, "text", StringType(), required=False),
    NestedField(3, "unknown", StringType(), required=False),
    NestedField(4, "one", LongType(), required=False),
    NestedField(5, "some", LongType(), required=False),
    NestedField(6, "nulls", LongType(), required=False),
    NestedField(7, "name", StringType(), required=False),
)


def data_file(rows: int = 2) -> DataFile:
    """N is 10 to 20, text "b" to "d" or null, one 7, some 7 or null, nulls null, name "aba" to "abd"."""
    text, number = StringType(), LongType()
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path="f",
        file_format=FileFormat.PARQUET,
        record_count=rows,
        value_counts={1: rows, 2: rows, 4: rows, 5: rows, 6: rows, 7: rows},
        null_value_counts={1: 0, 2: 1, 4: 0, 5: 1, 6: rows, 7: 0},
        lower_bounds={
            **dict.fromkeys((4, 5), to_bytes(number, 7)),
            1: to_bytes(number, 10),
            2: to_bytes(text, "b"),
            7: to_bytes(text, "aba"),
        },
        upper_bounds={
            **dict.fromkeys((4, 5), to_bytes(number, 7)),
            1: to_bytes(number, 20),
            2: to_bytes(text, "d"),
            7: to_bytes(text, "abd"),
        },
    )


@pytest.mark.parametrize(
    ("expression", "may_match"),
    [
        (AlwaysTrue(), True),
        (EqualTo("n", 10), True),
        (EqualTo("n", 9), False),
        (EqualTo("n", 21), False),
        (LessThan("n", 10), False),
        (LessThan("n", 11), True),
        (GreaterThan("n", 20), False),
        (In("n", {1, 15}), True),
        (In("n", {1, 25}), False),
        (IsNull("n"), False),
        (IsNull("text"), True),
        (NotNull("text"), True),
        (NotEqualTo("n", 15), True),
        (NotEqualTo("one", 7), False),
        (NotEqualTo("one", 8), True),
        (NotIn("one", {6, 7}), False),
        (NotIn("one", {6, 8}), True),
        (NotIn("some", {6, 7}), True),  # a null matches it
        (NotEqualTo("some", 7), False),
        (NotEqualTo("nulls", 7), False),
        (NotStartsWith("name", "ab"), False),
        (NotStartsWith("name", "abc"), True),
        (NotStartsWith("text", "b"), True),
        (StartsWith("text", "c"), True),
        (StartsWith("text", "e"), False),
        (Not(EqualTo("text", "a")), True),
        (EqualTo("unknown", "a"), True),
        (IsNull("unknown"), True),
        (NotNull("unknown"), True),
    ],
    ids=str,
)
def test_bounds_and_counts_exclude_what_cannot_match(expression: BooleanExpression, may_match: bool) -> None:
    """And a column that the entry says nothing of excludes nothing."""
    assert metrics_evaluator(SCHEMA, expression)(data_file()) is may_match


def test_a_file_without_rows_matches_nothing() -> None:
    """There is nothing in it to open it for."""
    assert metrics_evaluator(SCHEMA, AlwaysTrue())(data_file(rows=0)) is False
