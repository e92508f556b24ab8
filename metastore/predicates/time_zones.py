"""Time zones by the names that sessions use: places, and offsets as Spark and Java write them.

This is the only reader of such names, so pruning, scans and Spark's sessions know the same zones. ``str`` of a zone is
a name that gives the same zone again.
"""

from __future__ import annotations

import re
from datetime import timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from metastore.errors import InvalidRequestError

_OFFSET: Final = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::(\d\d)(?::(\d\d))?)?|([+-])(\d\d)(\d\d)(\d\d)?", re.ASCII
)
_LIMIT: Final = timedelta(hours=18)
"""The largest offset from UTC in Java's zones."""


def zone_named(name: str) -> tzinfo:
    """The time zone called ``name``: a place, ``Z``, ``+02:00``, ``GMT+2``.

    Raises InvalidRequestError for an unknown one.
    """
    if name == "Z":
        return timezone.utc
    if match := _OFFSET.fullmatch(name):
        sign, *parts = [part for part in match.groups() if part is not None]
        hours, minutes, seconds = (*map(int, parts), 0, 0)[:3]
        offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if max(minutes, seconds) < 60 and offset <= _LIMIT:
            return timezone(-offset if sign == "-" else offset)
        raise _unknown(name)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError) as error:
        raise _unknown(name) from error


def _unknown(name: str) -> InvalidRequestError:
    return InvalidRequestError(f"unknown time zone {name!r}; use a name such as Europe/Berlin or UTC, or +02:00")
