"""Types of arguments: written in any case, cast without loss, a point in time only with its zone."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.errors import InvalidRequestError
from metastore.procedures.framework.types import cast_to, parse_timestamp, parse_type

UTC = timezone.utc
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)

WRITTEN = {
    "varchar": "VARCHAR",
    " Boolean ": "BOOLEAN",
    "decimal": "DECIMAL(38, 0)",
    "decimal(9)": "DECIMAL(9, 0)",
    "DECIMAL( 9,2 )": "DECIMAL(9, 2)",
    "array(bigint)": "ARRAY(BIGINT)",
    "map(varchar, array(decimal(5,2)))": "MAP(VARCHAR, ARRAY(DECIMAL(5, 2)))",
}


@pytest.mark.parametrize(("text", "canonical"), WRITTEN.items())
def test_a_type_is_read_in_any_case(text: str, canonical: str) -> None:
    """And written in one way, which reads as the same type."""
    assert str(parse_type(text)) == canonical
    assert parse_type(canonical) == parse_type(text)


@pytest.mark.parametrize(
    "text",
    ["", "int4", "array", "array()", "array(x)", "map(varchar)", "decimal(39)", "decimal(2,3)", "bigint x", "()"],
)
def test_there_is_no_other_type(text: str) -> None:
    """It is said which there are."""
    with pytest.raises(InvalidRequestError, match="Unknown procedure argument type: "):
        parse_type(text)


CASTS: list[tuple[str, Any, Any]] = [
    ("VARCHAR", "x", "x"),
    ("BOOLEAN", True, True),
    ("INTEGER", 2**31 - 1, 2**31 - 1),
    ("BIGINT", -(2**63), -(2**63)),
    ("DOUBLE", 1, 1.0),
    ("DOUBLE", Decimal("1.5"), 1.5),
    ("DECIMAL(4, 2)", Decimal("12.340"), Decimal("12.34")),
    ("DECIMAL(4, 2)", 12, Decimal(12)),
    ("DECIMAL(2, 2)", Decimal(0), Decimal(0)),
    ("DECIMAL(38, 0)", 10**38 - 1, Decimal(10**38 - 1)),
    ("DATE", date(2026, 1, 31), date(2026, 1, 31)),
    ("DATE", "2026-01-31", date(2026, 1, 31)),
    ("TIMESTAMP", NOON, NOON),
    ("TIMESTAMP", NOON.astimezone(ZoneInfo("Asia/Tokyo")), NOON),
    ("TIMESTAMP", "2026-01-31 12:00:00 UTC", NOON),
    ("TIMESTAMP", "2026-01-31T12:00Z", NOON),
    ("TIMESTAMP", "2026-01-31 13:00:00 Europe/Berlin", NOON),
    ("TIMESTAMP", "2026-01-31 07:00:00.000-05", NOON),
    ("TIMESTAMP", "2026-01-31 17:30:00.25 +0530", NOON + timedelta(milliseconds=250)),
    ("TIMESTAMP", "2026-01-31 UTC", NOON - timedelta(hours=12)),
    ("DOUBLE", float("-inf"), float("-inf")),
    ("ARRAY(BIGINT)", (1, 2), [1, 2]),
    ("MAP(VARCHAR, ARRAY(DOUBLE))", {"a": [1]}, {"a": [1.0]}),
    ("BIGINT", None, None),
]


@pytest.mark.parametrize(("kind", "value", "expected"), CASTS)
def test_a_cast(kind: str, value: Any, expected: Any) -> None:
    """What comes out has the value, and the type that is declared for it."""
    found = cast_to(kind, value)
    assert found == expected
    assert type(found) is type(expected)


REFUSED: list[tuple[str, Any, str]] = [
    ("VARCHAR", 1, "Cannot cast type integer to varchar"),
    ("VARCHAR", NOON, "Cannot cast type timestamp to varchar"),
    ("BOOLEAN", 1, "Cannot cast type integer to boolean"),
    ("INTEGER", True, "Cannot cast type boolean to integer"),
    ("INTEGER", 1.0, "Cannot cast type double to integer"),
    ("INTEGER", "1", "Cannot cast type varchar to integer"),
    ("INTEGER", 2**31, "2147483648 is out of range for integer"),
    ("BIGINT", 2**63, "9223372036854775808 is out of range for bigint"),
    ("DOUBLE", True, "Cannot cast type boolean to double"),
    ("DECIMAL(4, 2)", 1.5, "Cannot cast type double to decimal(4, 2)"),
    ("DECIMAL(4, 2)", Decimal("1.234"), "1.234 does not fit DECIMAL(4, 2) without loss"),
    ("DECIMAL(4, 2)", 100, "100 does not fit DECIMAL(4, 2) without loss"),
    ("DECIMAL(4, 2)", Decimal("NaN"), "NaN is no number that DECIMAL(4, 2) can hold"),
    ("DATE", NOON, "Cannot cast type timestamp to date"),
    ("DATE", "2026-02-30", "'2026-02-30' is not a date: day is out of range for month"),
    ("DATE", "31.1.2026", "'31.1.2026' is not a date such as '2026-01-31'"),
    ("TIMESTAMP", date(2026, 1, 31), "Cannot cast type date to timestamp"),
    (
        "TIMESTAMP",
        datetime(2026, 1, 31, 12),
        "the timestamp '2026-01-31 12:00:00' has no time zone, and a program's own may be any; ",
    ),
    ("TIMESTAMP", "2026-01-31 12:00 Mars/Base", "'2026-01-31 12:00 Mars/Base': there is no time zone Mars/Base"),
    ("TIMESTAMP", "2026-01-31 12:00 +99:99", "'2026-01-31 12:00 +99:99': there is no offset +99:99"),
    ("TIMESTAMP", "2026-01-31 25:00 UTC", "'2026-01-31 25:00 UTC' is not a timestamp: hour must be in 0..23"),
    ("TIMESTAMP", "yesterday", "'yesterday' is not a timestamp such as "),
    ("TIMESTAMP", "0001-01-01 00:00 +14:00", "0001-01-01 00:00:00+14:00 is out of range in UTC"),
    ("ARRAY(BIGINT)", "1", "Cannot cast type varchar to array(bigint)"),
    ("ARRAY(BIGINT)", ["1"], "Cannot cast type varchar to bigint"),
    ("ARRAY(BIGINT)", [5, None], "an element of an array cannot be NULL"),
    ("ARRAY(ARRAY(BIGINT))", [[None]], "an element of an array cannot be NULL"),
    ("MAP(VARCHAR, BIGINT)", {"a": None}, "a value of a map cannot be NULL"),
    ("DOUBLE", Decimal("1e400"), "1E+400 is out of range for double"),
    ("DOUBLE", 10**400, "1000"),
    ("DOUBLE", 2**53 + 1, "9007199254740993 does not fit double without loss"),
    ("MAP(VARCHAR, BIGINT)", {None: 1}, "a key of a map cannot be NULL"),
    ("MAP(ARRAY(BIGINT), BIGINT)", {}, "a key of a map cannot be of type array(bigint)"),
    ("VARCHAR", object(), "Cannot cast type object to varchar"),
]


@pytest.mark.parametrize(("kind", "value", "said"), REFUSED)
def test_a_refused_cast(kind: str, value: Any, said: str) -> None:
    """Nothing is rounded, guessed or read as another type."""
    with pytest.raises(InvalidRequestError) as raised:
        cast_to(kind, value)
    assert str(raised.value).startswith(said)


@given(st.datetimes(timezones=st.sampled_from([UTC, ZoneInfo("Asia/Kolkata"), timezone(-timedelta(hours=5))])))
def test_a_point_in_time_survives_being_written(value: datetime) -> None:
    """Whatever zone it was in."""
    try:
        expected = value.astimezone(UTC)
    except OverflowError:
        return
    assert parse_timestamp(value.isoformat(sep=" ")) == expected


@given(st.text(max_size=40))
def test_any_text_is_a_timestamp_or_an_error_of_ours(text: str) -> None:
    """No text breaks the reading."""
    with suppress(InvalidRequestError):
        assert parse_timestamp(text).tzinfo is UTC
