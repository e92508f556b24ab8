"""Columns that a statement leaves out."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from metastore.errors import InvalidRequestError
from metastore.lake.writes.conforming import conform_columns


def test_columns_that_are_left_out_have_their_write_default() -> None:
    """A column without one is NULL; a column that is given keeps its values, NULL among them."""
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "n", LongType(), write_default=7),
        NestedField(3, "k", StringType(), write_default="x"),
        NestedField(4, "m", LongType()),
    )
    rows = conform_columns({"id": pa.array([1, 2]), "k": pa.array([None, "y"])}, schema, schema_to_pyarrow(schema), 2)
    assert rows.to_pylist() == [{"id": 1, "n": 7, "k": None, "m": None}, {"id": 2, "n": 7, "k": "y", "m": None}]


def test_a_required_column_with_a_default_may_be_left_out() -> None:
    """Without one it may not."""
    given = Schema(NestedField(1, "n", LongType(), required=True, write_default=7))
    assert conform_columns({}, given, schema_to_pyarrow(given), 1)["n"].to_pylist() == [7]
    without = Schema(NestedField(1, "n", LongType(), required=True))
    with pytest.raises(InvalidRequestError, match="column n is required"):
        conform_columns({}, without, schema_to_pyarrow(without), 1)


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (DateType(), "2024-01-02", date(2024, 1, 2)),
        (DecimalType(9, 2), "1.50", Decimal("1.50")),
        (TimestamptzType(), "2024-01-02T00:00:00+00:00", datetime(2024, 1, 2, tzinfo=timezone.utc)),
        (BinaryType(), "00ff", b"\0\xff"),
    ],
)
def test_defaults_are_read_from_json(kind: Any, written: str, value: Any) -> None:
    """As the specification writes them."""
    schema = Schema(NestedField(1, "d", kind, write_default=written))
    assert conform_columns({}, schema, schema_to_pyarrow(schema), 2)["d"].to_pylist() == [value, value]


def test_decimals_become_the_nearest_doubles_and_integers_stay_whole() -> None:
    """A literal with a point is a decimal: 840.06 is stored as the double of that name; 2**53 + 1 is refused."""
    schema = Schema(NestedField(1, "d", DoubleType()))
    wanted = schema_to_pyarrow(schema)
    amounts = pa.array([Decimal("840.06"), Decimal("7771.98")], pa.decimal128(6, 2))
    assert conform_columns({"d": amounts}, schema, wanted, 2)["d"].to_pylist() == [840.06, 7771.98]
    with pytest.raises(InvalidRequestError, match="column d is double"):
        conform_columns({"d": pa.array([2**53 + 1], pa.int64())}, schema, wanted, 1)


VALUES: dict[str, Any] = {
    "boolean": pa.array([True]),
    "int": pa.array([1], pa.int32()),
    "long": pa.array([1], pa.int64()),
    "double": pa.array([1.0]),
    "decimal": pa.array([Decimal("1.00")], pa.decimal128(9, 2)),
    "whole decimal": pa.array([Decimal(1)], pa.decimal128(9, 0)),
    "string": pa.array(["1"]),
    "binary": pa.array([b"1"]),
    "date": pa.array([date(2024, 1, 2)]),
    "moment": pa.array([datetime(2024, 1, 2, tzinfo=timezone.utc)], pa.timestamp("us", "UTC")),
    "list": pa.array([[1]]),
    "struct": pa.array([{"a": 1}]),
    "untyped": pa.array([None], pa.null()),
}
KINDS = (BinaryType(), DateType(), DecimalType(9, 2), DoubleType(), LongType(), StringType(), TimestamptzType())


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("given", VALUES)
def test_a_type_fits_whether_there_are_rows_or_not(kind: Any, given: str) -> None:
    """No rows of a type are refused as one row is, so a statement by tasks is refused before a task has started."""
    schema = Schema(NestedField(1, "c", kind))
    whole, none = VALUES[given], pa.chunked_array([], VALUES[given].type)
    assert _said(schema, whole) == _said(schema, whole.slice(0, 0)) == _said(schema, none)


def _said(schema: Schema, values: Any) -> str:
    """The refusal of a column, or its types."""
    try:
        return str(conform_columns({"c": values}, schema, schema_to_pyarrow(schema), len(values)).schema.types)
    except InvalidRequestError as error:
        return str(error)
