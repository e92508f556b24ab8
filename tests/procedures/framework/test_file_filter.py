"""A procedure's filter is read as prune reads a condition, and refused where it cannot choose files."""

from __future__ import annotations

import pytest
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, EqualTo, GreaterThanOrEqual, LessThan
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, IntegerType, NestedField, StringType, TimestampType, TimestamptzType

from metastore.errors import InvalidRequestError
from metastore.procedures.framework.file_filter import files_by

SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=False),
    NestedField(2, "ts", TimestampType(), required=False),
    NestedField(3, "utc", TimestamptzType(), required=False),
    NestedField(4, "city name", StringType(), required=False),
    NestedField(5, "d", DecimalType(9, 2), required=False),
)
SINCE = GreaterThanOrEqual("ts", "2021-04-05T00:00:00.000000")


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("TRUE", AlwaysTrue()),
        ("false", AlwaysFalse()),
        ("ts >= '2021-04-05T00:00:00'", SINCE),
        ("ts >= '2021-04-05 00:00:00'", SINCE),
        ("ts >= '2021-04-05'", SINCE),
        ("ts >= TIMESTAMP '2021-04-05 00:00:00'", SINCE),
        ("ts >= TIMESTAMP_NTZ '2021-04-05 00:00:00'", SINCE),
        ("ts >= CAST('2021-04-05' AS TIMESTAMP)", SINCE),
        ("ts >= DATE '2021-04-05'", SINCE),
        ("ts >= DATE '2021-04-04' + INTERVAL 1 DAY", SINCE),
        ("date(ts) = '2021-04-05'", And(SINCE, LessThan("ts", "2021-04-06T00:00:00.000000"))),
        ("utc >= '2021-04-05'", GreaterThanOrEqual("utc", "2021-04-05T00:00:00.000000+00:00")),
        ("ID = 5", EqualTo("id", 5)),
        ("NOT (id < 5)", GreaterThanOrEqual("id", 5)),
        ("id = 5.5", AlwaysFalse()),
        ("id < -3000000000", AlwaysFalse()),
        ("`city name` = 'Ulm'", EqualTo("city name", "Ulm")),
        ("\"city name\" = 'Ulm'", EqualTo("city name", "Ulm")),
        ('`city name` = "Ulm"', EqualTo("city name", "Ulm")),
    ],
)
def test_every_spelling_is_taken(text: str, chosen: BooleanExpression) -> None:
    """Times without a zone are in UTC; names stand in backquotes or double quotes, or in any case."""
    assert files_by(text, SCHEMA) == chosen


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lower(`city name`) = 'ulm'", "lower of a column is not unwrapped"),
        ("id = 5 OR id = d", "columns are compared with each other"),
        ("month(ts) = 4", "Iceberg has no test for it"),
        ("ts > now()", "is no constant that is known when planning"),
        ("nothing = 1", "unknown column 'nothing'"),
        ("id =", "syntax error at line 1"),
        ("id = 1; id = 2", "one predicate is expected"),
    ],
)
def test_what_cannot_choose_files_is_refused(text: str, message: str) -> None:
    """More files would be chosen than were asked for."""
    with pytest.raises(InvalidRequestError, match=message):
        files_by(text, SCHEMA)
