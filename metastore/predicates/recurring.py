"""A test of a recurring part of the calendar: the month, the quarter or the day of a month.

It excludes a container if its bounds are so close that they determine the parts between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any, Final

from pyiceberg.expressions import BooleanExpression, Reference

from metastore.predicates.time_spans import is_calm


@dataclass(frozen=True)
class DatePart:
    """A part: ``of`` maps a day to its number, from 1 to ``most``. Bounds ``days`` or more apart exclude nothing."""

    name: str
    most: int
    days: int
    of: Callable[[date], int]


PARTS: Final[Mapping[str, DatePart]] = {
    "MONTH": DatePart("month", 12, 334, lambda day: day.month),
    "QUARTER": DatePart("quarter", 4, 272, lambda day: (day.month + 2) // 3),
    "DAY": DatePart("day", 31, 27, lambda day: day.day),
}


class Recurring(BooleanExpression):
    """True if the column's part is one of ``values``; ``zone`` is the zone in which parts of instants are taken."""

    term: Reference
    part: str
    values: tuple[int, ...]
    zone: Any

    def __init__(self, name: str, part: str, values: tuple[int, ...], zone: tzinfo | None) -> None:
        super().__init__(term=Reference(name), part=part, values=values, zone=zone)

    def __invert__(self) -> BooleanExpression:
        others = sorted(set(range(1, PARTS[self.part].most + 1)).difference(self.values))
        return Recurring(self.term.name, self.part, tuple(others), self.zone)


def excludes(test: Recurring, low: Any, high: Any) -> bool:
    """Whether no time from ``low`` to ``high`` is in the requested parts."""
    part, first, last = PARTS[test.part], _day(low, test.zone, -1), _day(high, test.zone, 1)
    if first is None or last is None or (last - first).days >= part.days:
        return False
    return _between(test.part, first, last).isdisjoint(test.values)


@lru_cache(maxsize=4096)
def _between(part: str, first: date, last: date) -> frozenset[int]:
    of = PARTS[part].of
    return frozenset(of(first + timedelta(days=days)) for days in range((last - first).days + 1))


def _day(bound: Any, zone: tzinfo | None, side: int) -> date | None:
    """The day of a bound; 26 hours further out on its ``side`` for an instant if its local day is uncertain.

    The local day is uncertain if the zone is unknown or clocks may change near the instant. Returns None if there is no
    day.
    """
    if not isinstance(bound, datetime):
        return bound if isinstance(bound, date) else None
    if bound.tzinfo is None:
        return bound.date()
    try:
        local = bound.astimezone(zone or timezone.utc).replace(tzinfo=None)
        return local.date() if is_calm(local, zone) else (local + side * timedelta(hours=26)).date()
    except OverflowError:
        return None
