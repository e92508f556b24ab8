"""Parses durations and sizes of HOCON. Pure functions.

Promises: an unknown unit is an error that lists the known units. No size is rounded. No duration is longer than
calendars can subtract and threads can wait. Functions raise ValueError with the reason only; the caller adds the key
and the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import ROUND_UP, Decimal
from typing import TypeVar

_Scale = TypeVar("_Scale", int, Decimal)

_QUANTITY = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*,?")
_DAYS, _TIME = ("".join(rf"(?:\d+(?:\.\d+)?{unit})?" for unit in units) for units in ("WD", "HMS"))
_ISO = re.compile(rf"\s*([+-]?)P(?=.)({_DAYS})(?:T(?=.)({_TIME}))?\s*", re.IGNORECASE)
_BARE = re.compile(r"\s*([+-]?(?:\d+|\d*\.\d+)(?:[eE][+-]?\d{1,2})?)\s*()")

_LONGEST = timedelta(days=100_000)
"""The longest duration, 273 years: now plus or minus it is still a date, and a thread can wait that long."""

_DAY_MILLIS = 86_400_000
_PERIOD_MILLIS = {
    "nanos": Decimal(1).scaleb(-6),
    "micros": Decimal(1).scaleb(-3),
    "millis": Decimal(1),
    "seconds": Decimal(1_000),
    "minutes": Decimal(60_000),
    "hours": Decimal(3_600_000),
    "half_days": Decimal(_DAY_MILLIS // 2),
    "days": Decimal(_DAY_MILLIS),
}
"""Those of Java's ChronoUnit whose length is not estimated, as in Drill, with days of 24 hours; names in any case."""

_DURATION_NANOS = {
    spelling: nanos
    for spellings, nanos in (
        ("ms msec msecs milli millis millisecond milliseconds", 10**6),
        ("s sec secs second seconds", 10**9),
        ("m min mins minute minutes", 60 * 10**9),
        ("h hr hrs hour hours", 3_600 * 10**9),
        ("d day days", 86_400 * 10**9),
        ("w week weeks", 7 * 86_400 * 10**9),
        ("us usec usecs micro micros microsecond microseconds", 10**3),
        ("ns nano nanos nanosecond nanoseconds", 1),
    )
    for spelling in spellings.split()
}

_SPELLED = {
    unit: timedelta(**{unit: 1}) for unit in ("days", "hours", "minutes", "seconds", "milliseconds", "microseconds")
}

# HOCON's rule: kB, MB, … count in thousands; KiB, MiB, … and the single letters of `java -Xmx` count in 1024s.
_SIZE_BYTES = {
    spelling: size
    for spellings, size in (
        ("B b byte bytes", 1),
        ("kB kilobyte kilobytes", 1000),
        ("MB megabyte megabytes", 1000**2),
        ("GB gigabyte gigabytes", 1000**3),
        ("TB terabyte terabytes", 1000**4),
        ("KiB K k Ki kibibyte kibibytes", 1024),
        ("MiB M m Mi mebibyte mebibytes", 1024**2),
        ("GiB G g Gi gibibyte gibibytes", 1024**3),
        ("TiB T t Ti tebibyte tebibytes", 1024**4),
    )
    for spelling in spellings.split()
}


def parse_duration(text: str) -> timedelta:
    """Parse ``10 days``, ``1.5h``, ``1 h 30 min``, ISO 8601's ``PT10M``, or ``250`` (milliseconds)."""
    sign, parts = _parts(text)
    # Names in any case, like Java's. A single letter keeps its case, because HOCON has letters of its own.
    units = [(Decimal(number), unit.lower() if len(unit) > 2 else unit or "ms") for number, unit in parts]
    try:
        nanos = sum((number * _scale(unit, _DURATION_NANOS) for number, unit in units), Decimal())
        return _timedelta(sign * nanos / 1000)
    except ValueError as error:
        known = "unknown unit" in str(error)
        raise ValueError(f"{error}, or ISO 8601 such as PT10M, without years and months") if known else error from None


def _parts(text: str) -> tuple[int, list[tuple[str, str]]]:
    """Returns the sign of a duration, and its amounts with their units."""
    if (iso := _ISO.fullmatch(text)) is not None:
        parts = [(number, unit.lower()) for part in (iso[2], iso[3] or "") for number, unit in _PART.findall(part)]
        return -1 if iso[1] == "-" else 1, parts
    whole = text.strip().removeprefix("-")
    if len(found := _PART.findall(whole)) > 1 and not _PART.sub("", whole):
        return -1 if whole != text.strip() else 1, found
    number, unit = _quantity(text)
    return 1, [(str(number), unit)]


def format_duration(duration: timedelta) -> str:
    """Returns ``duration`` as text for :func:`parse_duration`, in the largest unit without a fraction: ``36 hours``."""
    fitting = [unit for unit, length in _SPELLED.items() if not duration % length]
    unit = fitting[0] if duration else "seconds"
    count = duration // _SPELLED[unit]
    return f"{count} {unit.removesuffix('s') if count == 1 else unit}"


def parse_size(text: str) -> int:
    """Parse ``256 MB`` (powers of 1,000), ``256 MiB`` or ``256m`` (powers of 1,024), or plain bytes."""
    number, unit = _quantity(text)
    size = number * _scale(unit or "B", _SIZE_BYTES)
    if size < 0 or size != int(size):
        raise ValueError("a size is a whole number of bytes, not below zero")
    return int(size)


def parse_period(amounts: Iterable[tuple[str, int]]) -> timedelta:
    """Add up amounts such as ``("days", 7), ("HOURS", 12)``; the units are the names of Java's ChronoUnit.

    A fraction of a microsecond is rounded up, so that no period above zero becomes zero.
    """
    total = sum((amount * _period_unit(unit) for unit, amount in amounts), Decimal()) * 1000
    return _timedelta(total.to_integral_value(ROUND_UP))


def _period_unit(unit: str) -> Decimal:
    if unit.lower() == "forever":
        raise ValueError("forever is not a duration; leave the period empty for no limit")
    return _scale(unit.lower() if unit.lower() in _PERIOD_MILLIS else unit, _PERIOD_MILLIS)


def _quantity(text: str) -> tuple[Decimal, str]:
    match = _QUANTITY.fullmatch(text) or _BARE.fullmatch(text)
    if match is None:
        raise ValueError("a number and a unit are expected")
    return Decimal(match[1]), match[2]


def _scale(unit: str, scales: Mapping[str, _Scale]) -> _Scale:
    if unit not in scales:
        first_spellings = {scale: spelling for spelling, scale in reversed(list(scales.items()))}
        raise ValueError(f"unknown unit {unit!r}; known are {', '.join(reversed(list(first_spellings.values())))}")
    return scales[unit]


def _timedelta(microseconds: Decimal) -> timedelta:
    if abs(microseconds) > _LONGEST // timedelta(microseconds=1):
        raise ValueError(f"the duration is too long: at most {_LONGEST.days} days are expected")
    return timedelta(microseconds=int(microseconds))
