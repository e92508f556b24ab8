"""Names of time zones: places and offsets, each read once and the same everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.errors import InvalidRequestError
from metastore.predicates.time_zones import zone_named

NOON = datetime(2020, 7, 1, 12)


@pytest.mark.parametrize(
    ("name", "minutes"),
    [
        ("UTC", 0), ("Z", 0), ("Europe/Berlin", 120), ("+02:00", 120), ("+2", 120), ("-0530", -330), ("GMT+2", 120),
        ("UTC-05:30", -330), ("UT+1", 60), ("+18:00", 1080), ("+0", 0),
    ],
)  # fmt: skip
def test_zones_are_as_far_from_utc_as_their_name_says(name: str, minutes: int) -> None:
    """In summer."""
    assert zone_named(name).utcoffset(NOON) == timedelta(minutes=minutes)


@pytest.mark.parametrize("name", ["Mars", "", "+19:00", "+02:60", "GMT+0230", "../etc", "/etc/passwd", "\0", "x" * 300])
def test_what_is_no_zone_is_refused(name: str) -> None:
    """The error says what a zone looks like."""
    with pytest.raises(InvalidRequestError, match=r"Europe/Berlin or UTC, or \+02:00"):
        zone_named(name)


@given(st.integers(-18 * 3600, 18 * 3600))
def test_a_zones_text_is_its_name(seconds: int) -> None:
    """It is read again as that zone."""
    zone = timezone(timedelta(seconds=seconds))
    assert zone_named(str(zone)).utcoffset(NOON) == zone.utcoffset(NOON)


def test_zones_have_names_where_the_system_has_no_data_of_them() -> None:
    """As in small images: PYTHONTZPATH without a folder."""
    names = "print(zone_named('Europe/Berlin'), zone_named('UTC'))"
    done = subprocess.run(
        [sys.executable, "-c", f"from metastore.predicates.time_zones import zone_named; {names}"],
        env={**os.environ, "PYTHONTZPATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["Europe/Berlin", "UTC"]
