"""The epoch: stored numbers of days, milliseconds and microseconds count from this moment."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Final

EPOCH: Final = datetime(1970, 1, 1)
"""The epoch of local date-times, which have no zone."""

EPOCH_UTC: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)

EPOCH_DATE: Final = date(1970, 1, 1)
EPOCH_DAY: Final = EPOCH_DATE.toordinal()

MICROSECOND: Final = timedelta(microseconds=1)
MILLISECOND: Final = timedelta(milliseconds=1)


def micros_since_epoch(moment: datetime) -> int:
    """Returns the whole microseconds from the epoch to a moment with a zone."""
    return (moment - (EPOCH if moment.tzinfo is None else EPOCH_UTC)) // MICROSECOND


def millis_since_epoch(moment: datetime) -> int:
    """Returns the whole milliseconds from the epoch to a moment with a zone."""
    return (moment - (EPOCH if moment.tzinfo is None else EPOCH_UTC)) // MILLISECOND


def moment_of_millis(millis: int) -> datetime | None:
    """Returns the moment in UTC; None if it is beyond the years 1 to 9999, as times of other programs may be."""
    try:
        return EPOCH_UTC + timedelta(milliseconds=millis)
    except OverflowError:
        return None
