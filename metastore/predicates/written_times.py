"""Parses days, times of day and date-times in the spellings that all engines read alike, and in no others.

Place in the flow: literals of a question are parsed here, both typed ones and texts beside columns of days or times.
Any other spelling gives None, and nothing is concluded from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)(Z|[+-]\d\d(?::\d\d)?)?)?", re.ASCII
)

_FINER = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\.\d{6})(\d{1,3})0*(Z|[+-]\d\d(?::\d\d)?|)", re.ASCII)


def date_of(text: str) -> date | None:
    """The day that ``text`` writes as yyyy-mm-dd, or None."""
    found: date | None = _parse_or_none(date.fromisoformat, text) if _DATE.fullmatch(text) else None
    return found


def time_of(text: str) -> time | None:
    """The time of day that ``text`` writes as hh:mm, hh:mm:ss or with a fraction of up to six digits, or None."""
    found: time | None = _parse_or_none(time.fromisoformat, _iso(text)) if _TIME.fullmatch(text) else None
    return found


def timestamp_of(text: str) -> datetime | None:
    """The date-time that ``text`` writes: a day, or a day and a time, optionally with Z or an offset; or None."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    day, clock, offset = match.groups()
    iso = f"{day}T{_iso(clock or '00:00')}{_offset(offset or '')}"
    found: datetime | None = _parse_or_none(datetime.fromisoformat, iso)
    return found


def fine_time_of(text: str) -> tuple[datetime, int] | None:
    """A date-time with more than six digits after the point: cut to microseconds, and the rest.

    The rest is in nanoseconds, 0 to 999. Returns None for a text of another form, or one finer than nanoseconds.
    """
    match = _FINER.fullmatch(text)
    moment = None if match is None else timestamp_of(f"{match[1]}{match[3]}")
    return None if match is None or moment is None else (moment, int(match[2].ljust(3, "0")))


def _offset(text: str) -> str:
    """``text`` with minutes added to an offset in hours: Python before 3.11 cannot read hours alone."""
    if text == "Z":
        return "+00:00"
    return f"{text}:00" if len(text) == len("+00") else text


def _iso(clock: str) -> str:
    """``clock`` with its fraction, if any, padded to six digits: Python before 3.11 reads no others."""
    whole, _, fraction = clock.partition(".")
    return f"{whole}.{fraction.ljust(6, '0')}" if fraction else whole


def _parse_or_none(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ValueError:
        return None
