"""Calendar units: adding an interval to a day or time, and the start and end of the unit that contains a time.

Pure functions over Python's dates and local date-times. Weeks begin on Mondays, as in Spark and DuckDB.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final, TypeVar

from sqlglot import exp

Day = TypeVar("Day", date, datetime)

_MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_MICROS: Final = {"MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6}
_DAYS: Final = {"DAY": 1, "WEEK": 7}
UNITS: Final = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
"""Units to which times can be truncated, finest first."""

_OTHER_NAMES: Final = {"YYYY": "YEAR", "YY": "YEAR", "MON": "MONTH", "MM": "MONTH", "DD": "DAY"}
_PIECE: Final = re.compile(r"\s*([+-]?\d{1,6})\s+([A-Za-z]+?)[sS]?(?=\s|$)", re.ASCII)


@dataclass(frozen=True)
class Steps:
    """The parts of an interval: whole months, then days, then microseconds."""

    months: int = 0
    days: int = 0
    micros: int = 0


def unit_named(name: str) -> str | None:
    """The unit called ``name``, in any case, in the plural, or in Spark's short form; None if it is no unit."""
    upper = name.upper()
    upper = _OTHER_NAMES.get(upper, upper)
    if upper not in (*_MONTHS, *_DAYS, *_MICROS) and upper.endswith("S"):
        upper = upper[:-1]
    return upper if upper in (*_MONTHS, *_DAYS, *_MICROS) else None


def steps_of(interval: exp.Interval) -> Steps | None:
    """The steps of ``interval``; None if it is not a whole number of known units."""
    amount, unit = interval.this, interval.args.get("unit")
    sign = 1
    if isinstance(amount, exp.Neg):
        amount, sign = amount.this, -1
    if not isinstance(amount, exp.Literal):
        return None
    text = amount.name if unit is None else f"{amount.name.strip()} {unit.name}"
    steps, end = Steps(), 0
    while match := _PIECE.match(text, end):
        end = match.end()
        name = unit_named(match.group(2))
        if name is None:
            return None
        number = sign * int(match.group(1))
        steps = Steps(
            steps.months + number * _MONTHS.get(name, 0),
            steps.days + number * _DAYS.get(name, 0),
            steps.micros + number * _MICROS.get(name, 0),
        )
    return steps if end and not text[end:].strip() else None


def later(moment: Day, steps: Steps, sign: int = 1) -> Day:
    """``moment`` plus ``steps``, or minus with ``sign`` -1; uses the last day of a month that has fewer days.

    Raises OverflowError beyond the years 1 to 9999.
    """
    months = moment.year * 12 + moment.month - 1 + sign * steps.months
    year, month = divmod(months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    moved = moment.replace(year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1]))
    if isinstance(moved, datetime):
        return moved + sign * timedelta(days=steps.days, microseconds=steps.micros)
    return moved + sign * timedelta(days=steps.days)


def start_of(moment: datetime, unit: str) -> datetime:
    """The start of the ``unit`` (of :data:`UNITS`) that contains ``moment``."""
    if unit in ("SECOND", "MINUTE", "HOUR"):
        zeros = {"microsecond": 0, "second": 0, "minute": 0}
        kept = {"SECOND": ("second", "minute"), "MINUTE": ("minute",), "HOUR": ()}[unit]
        return moment.replace(**{name: 0 for name in zeros if name not in kept})  # type: ignore[arg-type]
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "WEEK":
        return day - timedelta(days=day.weekday())
    if unit == "MONTH":
        return day.replace(day=1)
    if unit == "QUARTER":
        return day.replace(day=1, month=(day.month - 1) // 3 * 3 + 1)
    return day.replace(day=1, month=1) if unit == "YEAR" else day


def next_start(start: datetime, unit: str) -> datetime:
    """The start of the ``unit`` after the one that begins at ``start``. Raises OverflowError beyond the year 9999."""
    return later(start, Steps(months=_MONTHS.get(unit, 0), days=_DAYS.get(unit, 0), micros=_MICROS.get(unit, 0)))
