"""Columns that a statement leaves out."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, LongType, NestedField, StringType

from metastore.errors import InvalidRequestError
from metastore.writes.conforming import conformed


def test_columns_that_are_left_out_have_their_write_default() -> None:
    """A column without one is NULL; a column that is given keeps its values, NULL among them."""
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "n", LongType(), write_default=7),
        NestedField(3, "k", StringType(), write_default="x"),
        NestedField(4, "m", LongType()),
    )
    rows = conformed({"id": pa.array([1, 2]), "k": pa.array([None, "y"])}, schema, schema_to_pyarrow(schema), 2)
    assert rows.to_pylist() == [{"id": 1, "n": 7, "k": None, "m": None}, {"id": 2, "n": 7, "k": "y", "m": None}]


def test_a_required_column_with_a_default_may_be_left_out() -> None:
    """Without one it may not."""
    given = Schema(NestedField(1, "n", LongType(), required=True, write_default=7))
    assert conformed({}, given, schema_to_pyarrow(given), 1)["n"].to_pylist() == [7]
    without = Schema(NestedField(1, "n", LongType(), required=True))
    with pytest.raises(InvalidRequestError, match="column n is required"):
        conformed({}, without, schema_to_pyarrow(without), 1)


def test_a_default_that_does_not_fit_is_named() -> None:
    """No value is made up."""
    schema = Schema(NestedField(1, "d", DateType(), write_default="no date"))
    with pytest.raises(InvalidRequestError, match="column d has a write default that cannot be stored here"):
        conformed({}, schema, schema_to_pyarrow(schema), 1)
