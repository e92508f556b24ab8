"""Durations, sizes and periods are read exactly, and refused with the reason."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.config.units import format_duration, parse_duration, parse_period, parse_size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 days", timedelta(days=10)),
        ("1.5h", timedelta(minutes=90)),
        ("2m", timedelta(minutes=2)),
        (" 60 seconds ", timedelta(seconds=60)),
        ("250", timedelta(milliseconds=250)),
        ("-1 d", timedelta(days=-1)),
        ("3us", timedelta(microseconds=3)),
        ("5000 nanos", timedelta(microseconds=5)),
        ("10 min", timedelta(minutes=10)),
        ("10 Mins", timedelta(minutes=10)),
        ("30 sec", timedelta(seconds=30)),
        ("2 hrs", timedelta(hours=2)),
        ("2 weeks", timedelta(days=14)),
        ("1w", timedelta(days=7)),
        ("1h30m", timedelta(minutes=90)),
        ("1 day, 2 hours", timedelta(hours=26)),
        ("-1h 30min", timedelta(minutes=-90)),
        ("PT10M", timedelta(minutes=10)),
        ("P1DT12H", timedelta(hours=36)),
        ("pt0.5s", timedelta(milliseconds=500)),
        ("P2W", timedelta(days=14)),
        ("-PT1M", timedelta(minutes=-1)),
    ],
)
def test_duration_text(text: str, expected: timedelta) -> None:
    """A duration is a number and one of HOCON's units; a bare number counts milliseconds."""
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(), "0 seconds"),
        (timedelta(days=1), "1 day"),
        (timedelta(hours=36), "36 hours"),
        (timedelta(seconds=90), "90 seconds"),
        (timedelta(microseconds=1_500), "1500 microseconds"),
        (timedelta(minutes=-1), "-1 minutes"),
    ],
)
def test_a_duration_is_told_in_the_largest_unit(duration: timedelta, text: str) -> None:
    """Without a fraction."""
    assert format_duration(duration) == text


def test_an_unknown_unit_lists_what_is_known() -> None:
    """With the other way to write a duration."""
    with pytest.raises(ValueError, match="known are ms, s, m, h, d, w, us, ns, or ISO 8601 such as PT10M"):
        parse_duration("1 fortnight")


@given(st.timedeltas(min_value=timedelta(days=-100_000), max_value=timedelta(days=100_000)))
def test_what_is_told_is_read_back(duration: timedelta) -> None:
    """Whatever the duration."""
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("256 MB", 256_000_000),
        ("256 MiB", 256 * 1024**2),
        ("256m", 256 * 1024**2),
        ("256M", 256 * 1024**2),
        ("1kB", 1000),
        ("1.5 KiB", 1536),
        ("2 gigabytes", 2 * 10**9),
        ("0", 0),
        ("77 B", 77),
    ],
)
def test_size_text(text: str, expected: int) -> None:
    """Units spelled with B count in thousands; those with i, and single letters, in 1024s."""
    assert parse_size(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "days", "1 2 days", "1 fortnight", "1e3 s", "999999999999 days", "100001 days", "-100001 days"),
        *("P", "PT", "P1DT", "P1M", "P1Y", "PT1D", "P1H", "1 M", "1h 30", "1h -30m", "P1.2.3D", "1 month", "10 Min s"),
    ],
)
def test_duration_refused(text: str) -> None:
    """What is no number with a known unit, or more than clocks and calendars can hold, is refused."""
    with pytest.raises(ValueError, match="unit|too long"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "MB", "-1 MB", "0.5 B", "1 Mb", "1 minute"])
def test_size_refused(text: str) -> None:
    """A size is a whole, non-negative number of bytes; units are case-sensitive, as in HOCON."""
    with pytest.raises(ValueError, match="unit|whole number of bytes"):
        parse_size(text)


@given(
    st.dictionaries(st.sampled_from(["millis", "seconds", "minutes", "hours", "days"]), st.integers(-(10**4), 10**4))
)
def test_period_adds_up(amounts: dict[str, int]) -> None:
    """A period is the sum of its amounts, as timedelta itself adds them."""
    named = {("milliseconds" if unit == "millis" else unit): amount for unit, amount in amounts.items()}
    assert parse_period(amounts.items()) == timedelta(**named)


@pytest.mark.parametrize("unit", ["day", "ms", "HALF-DAYS", ""])
def test_period_unit_refused(unit: str) -> None:
    """Only Java's units make a period, and the reason lists them."""
    with pytest.raises(ValueError, match="millis, seconds, minutes, hours, half_days, days"):
        parse_period([(unit, 1)])


CHRONO_UNITS = {
    "MICROS": timedelta(microseconds=1),
    "MILLIS": timedelta(milliseconds=1),
    "SECONDS": timedelta(seconds=1),
    "MINUTES": timedelta(minutes=1),
    "HOURS": timedelta(hours=1),
    "HALF_DAYS": timedelta(hours=12),
    "DAYS": timedelta(days=1),
}
"""Java's ChronoUnit with the durations that its documentation gives."""


@pytest.mark.parametrize("unit", CHRONO_UNITS)
@pytest.mark.parametrize("spelling", [str.upper, str.lower, str.title])
def test_a_unit_of_java_counts_in_any_case(unit: str, spelling: Callable[[str], str]) -> None:
    """As Drill, which puts the name into capitals."""
    assert parse_period([(spelling(unit), 2)]) == 2 * CHRONO_UNITS[unit]
    assert parse_period([(unit, 1), (unit.lower(), 1)]) == 2 * CHRONO_UNITS[unit]


def test_nanoseconds_are_no_empty_period() -> None:
    """Less than a clock can tell is the least that it can: nothing expires without a period."""
    assert parse_period([("NANOS", 7)]) == timedelta(microseconds=1)
    assert parse_period([("nanos", 2_000_000)]) == timedelta(milliseconds=2)


@pytest.mark.parametrize("unit", ["weeks", "MONTHS", "years", "decades", "centuries", "MILLENNIA", "Eras"])
def test_a_unit_of_estimated_length_is_refused(unit: str) -> None:
    """As in Drill, whose period is a Duration of Java; the units that there are are named."""
    with pytest.raises(ValueError, match=f"unknown unit '{unit}'; known are nanos, .*, half_days, days$"):
        parse_period([(unit, 1)])


def test_a_period_has_an_end() -> None:
    """Nothing can be waited for so long."""
    with pytest.raises(ValueError, match="not a duration"):
        parse_period([("FOREVER", 1)])


def test_names_of_units_count_in_any_case_in_text() -> None:
    """A single letter, and two, keep their meaning."""
    assert parse_duration("7 Days") == parse_duration("7 DAYS") == timedelta(days=7)
    with pytest.raises(ValueError, match="unknown unit 'H'"):
        parse_duration("1 H")
