"""How values look to people."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest

from metastore.model.statistics import Value
from metastore.overview import formats


@pytest.mark.parametrize(
    ("count", "shown"),
    [(None, "–"), (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB")],
)
def test_a_size_has_a_unit(count: int | None, shown: str) -> None:
    """In thousands, and never "1000.0" of a smaller one."""
    assert formats.size(count) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (True, "True"),
        (-5, "-5"),
        ("a\nb", r"'a\nb'"),
        ("x" * 60, "x" * 39 + "…"),
        (b"\x00\xff", "0x00ff"),
        (date(2013, 6, 15), "2013-06-15"),
        (datetime(2013, 6, 15, 12, tzinfo=timezone.utc), "2013-06-15 12:00:00Z"),
        (datetime(2013, 6, 15, 12), "2013-06-15 12:00:00"),
    ],
)
def test_a_bound_stays_on_one_short_line(value: Value | None, shown: str) -> None:
    """Whatever its type; a timestamp tells whether it is one of UTC."""
    assert formats.bound_text(value) == shown


def test_a_bound_that_need_not_be_reached_is_marked() -> None:
    """A tilde before it."""
    assert formats.bound_text("abc", exact=False) == "~abc"


def test_times_are_told_in_utc() -> None:
    """Whatever zone they are in."""
    east = timezone(timedelta(hours=5))
    assert formats.moment(datetime(2026, 1, 1, 2, 30, tzinfo=east)) == "2025-12-31 21:30:00"


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0124, "12 ms"), (1.25, "1.2 s"), (59.0, "59.0 s"), (75.2, "1 min 15 s")]
)
def test_a_duration_has_the_unit_that_suits_it(value: float, shown: str) -> None:
    """Milliseconds, seconds or minutes."""
    assert formats.seconds(value) == shown


def test_one_of_a_thing_is_no_plural() -> None:
    """None and many are."""
    assert [formats.plural(count, "file") for count in (0, 1, 2000)] == ["0 files", "1 file", "2,000 files"]
