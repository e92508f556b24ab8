"""The possible meanings of a literal beside a column of days or times, in the session's zone or in any.

Place in the flow: :mod:`metastore.predicates.literals` calls this for columns of days and times.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Any, TypeAlias

from metastore.ground.epoch import EPOCH_UTC
from metastore.model.statistics_json import Value
from metastore.predicates.columns import PredicateColumn
from metastore.predicates.written_times import date_of, fine_time_of, time_of, timestamp_of


@dataclass(frozen=True)
class SessionTime:
    """A zone-less TIMESTAMP literal: the instant at which clocks in the session's time zone show ``local``."""

    local: datetime


@dataclass(frozen=True)
class FineTime:
    """A TIMESTAMP literal that is ``nanos`` nanoseconds, 0 to 999, later than ``moment``."""

    moment: datetime | SessionTime
    nanos: int


Literal: TypeAlias = Value | SessionTime | FineTime


@dataclass(frozen=True)
class Span:
    """All values that a literal may mean to some engine, both ends included; ``certain`` if there is only one."""

    low: Any
    high: Any
    certain: bool

    @classmethod
    def of(cls, value: Value) -> Span:
        """Exactly ``value``, to every engine."""
        return cls(value, value, certain=True)


_ANY_ZONE = timedelta(hours=18)
"""No session's clock is further from UTC: no place ever was, and Java allows no larger offset."""

_MICROSECOND = timedelta(microseconds=1)

_CLOCK_CHANGE = timedelta(hours=26)
"""Clocks were never moved by more than a day (Samoa skipped one); local time is unambiguous without a change this near.
"""


def date_span(_column: PredicateColumn, literal: Literal, _zone: tzinfo | None) -> Span | None:
    """The span of a literal beside a DATE."""
    if isinstance(literal, str):
        day = date_of(literal)
        return None if day is None else Span.of(day)
    if type(literal) is date:
        return Span.of(literal)
    if isinstance(literal, FineTime):
        around = date_span(_column, literal.moment, _zone)
        return around and Span(around.low, around.high + timedelta(days=1), certain=False)
    # A date beside a timestamp means its midnight, so the timestamp's day and the next day enclose it.
    moment = literal.local if isinstance(literal, SessionTime) else literal
    if not isinstance(moment, datetime):
        return None
    if moment.tzinfo is None:
        day = moment.date()
        return Span.of(day) if moment.time() == time.min else Span(day, day + timedelta(days=1), certain=False)
    return Span((moment - _ANY_ZONE).date(), (moment + _ANY_ZONE).date() + timedelta(days=1), certain=False)


def time_span(_column: PredicateColumn, literal: Literal, _zone: tzinfo | None) -> Span | None:
    """The span of a literal beside a TIME."""
    clock = time_of(literal) if isinstance(literal, str) else literal
    return Span.of(clock) if isinstance(clock, time) and clock.tzinfo is None else None


def timestamp_span(column: PredicateColumn, literal: Literal, zone: tzinfo | None) -> Span | None:
    """The span of a literal beside a local or UTC TIMESTAMP. Raises OverflowError near the ends of the calendar."""
    if (fine := _fine(literal)) is not None:
        # Spark cuts a literal to microseconds, DuckDB and Arrow compare nanoseconds.
        around = timestamp_span(column, fine.moment, zone)
        return around and Span(around.low, around.high + _MICROSECOND, certain=False)
    if isinstance(literal, str):
        moment = timestamp_of(literal)
        # Text beside a local date-time is read as a local one, and engines treat an offset in it differently.
        if moment is None or (moment.tzinfo and not column.zoned):
            return None
    elif type(literal) is date:
        moment = datetime(literal.year, literal.month, literal.day)
    elif isinstance(literal, SessionTime):
        if not column.zoned and not is_calm(literal.local, zone):
            return _around(literal.local, _CLOCK_CHANGE)
        moment = literal.local
    elif isinstance(literal, datetime):
        moment = literal
    else:
        return None
    return _in_utc(moment, zone) if column.zoned else _in_local_time(moment, zone)


def nanoseconds_of(column: PredicateColumn, literal: Literal, zone: tzinfo | None) -> int | None:
    """Nanoseconds since 1970 of a literal finer than a microsecond, beside a column in nanoseconds.

    Returns None for any other literal or column, and if the moment depends on the engine.
    """
    fine = _fine(literal) if column.nanos else None
    span = None if fine is None else timestamp_span(column, fine.moment, zone)
    if fine is None or span is None or not span.certain:
        return None
    moment: datetime = span.low
    return (moment.replace(tzinfo=timezone.utc) - EPOCH_UTC) // _MICROSECOND * 1000 + fine.nanos


def _fine(literal: Literal) -> FineTime | None:
    if isinstance(literal, str):
        found = fine_time_of(literal)
        return None if found is None else FineTime(*found)
    return literal if isinstance(literal, FineTime) else None


def _in_utc(moment: datetime, zone: tzinfo | None) -> Span | None:
    if moment.tzinfo is not None:
        return Span.of(moment.astimezone(timezone.utc))
    if zone is None:
        return _around(moment.replace(tzinfo=timezone.utc), _ANY_ZONE)
    instant = moment.replace(tzinfo=zone).astimezone(timezone.utc)
    return Span.of(instant) if is_calm(moment, zone) else _around(instant, _CLOCK_CHANGE)


def _in_local_time(moment: datetime, zone: tzinfo | None) -> Span | None:
    if moment.tzinfo is None:
        return Span.of(moment)
    if zone is None:
        return _around(moment.astimezone(timezone.utc).replace(tzinfo=None), _ANY_ZONE)
    local = moment.astimezone(zone).replace(tzinfo=None)
    return Span.of(local) if is_calm(local, zone) else _around(local, _CLOCK_CHANGE)


def is_calm(local: datetime, zone: tzinfo | None) -> bool:
    """Whether local time is unambiguous: True if ``zone`` is known and does not change its clocks near ``local``."""
    if zone is None:
        return False
    try:
        offsets = {zone.utcoffset(local + _CLOCK_CHANGE * i) for i in (-1, 0, 1)}
    except OverflowError:
        return False
    return len(offsets) == 1


def _around(moment: datetime, reach: timedelta) -> Span:
    return Span(moment - reach, moment + reach, certain=False)
