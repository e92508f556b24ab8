"""Moments of stored numbers; what no calendar has is unknown."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from metastore.ground.epoch import millis_since_epoch, moment_of_millis


@pytest.mark.parametrize("millis", [0, 1, 1_700_000_000_123, -1, -62_135_596_800_000, 253_402_300_799_999])
def test_moments_and_milliseconds_are_each_other(millis: int) -> None:
    """From the year 1 to 9999, to the millisecond."""
    moment = moment_of_millis(millis)
    assert moment is not None
    assert millis_since_epoch(moment) == millis


@pytest.mark.parametrize("millis", [2**63 - 1, -(2**63), 253_402_300_800_000, -62_135_596_800_001])
def test_a_time_that_no_calendar_has_is_unknown(millis: int) -> None:
    """Another program may have written microseconds there."""
    assert moment_of_millis(millis) is None


def test_the_epoch_is_in_utc() -> None:
    """Whatever zone the machine is in."""
    assert moment_of_millis(0) == datetime(1970, 1, 1, tzinfo=timezone.utc)
