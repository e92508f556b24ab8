"""Formats single values for people: numbers with separators, sizes with units, times to the second in UTC."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Final

from metastore.model.statistics_json import Value

UNKNOWN: Final = "–"
_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_CONTROLS: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_LONGEST: Final = 40


def number(value: int | None) -> str:
    """``336776`` as ``336,776``."""
    return UNKNOWN if value is None else f"{value:,}"


def tally(text: str | None) -> str:
    """As :func:`number`, for the text of a count in a snapshot's summary."""
    return number(int(text) if text and text.isdecimal() else None)


def size(count: int | None) -> str:
    """Bytes in decimal units: ``7912345`` as ``7.9 MB``."""
    if count is None:
        return UNKNOWN
    scaled, unit = float(count), 0
    while scaled >= 999.95 and unit < len(_UNITS) - 1:
        scaled, unit = scaled / 1000, unit + 1
    return f"{scaled:.1f} {_UNITS[unit]}" if unit else f"{count} B"


def moment(value: datetime | None) -> str:
    """A point in time, to the second, in UTC."""
    return UNKNOWN if value is None else value.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def seconds(value: float) -> str:
    """A duration: ``0.00123`` as ``1 ms``, ``75.2`` as ``1 min 15 s``."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 60:
        return f"{value:.1f} s"
    return f"{value // 60:.0f} min {value % 60:.0f} s"


def plural(count: int | None, noun: str) -> str:
    """``1 file``, ``1,234 files``, ``an unknown number of files``."""
    return f"an unknown number of {noun}s" if count is None else f"{count:,} {noun}{'' if count == 1 else 's'}"


def visible(text: str) -> str:
    """Returns ``text`` with control characters, except line breaks, written as escapes."""
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


def bound_text(value: Value | None, *, exact: bool = True) -> str:
    """A bound of a column; ``~`` marks a bound that is not exact."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bytes):
        text = "0x" + value.hex()
    elif isinstance(value, datetime):
        text = value.isoformat(" ").replace("+00:00", "Z")
    elif isinstance(value, str):
        text = value if value.isprintable() else repr(value)
    else:
        text = str(value)
    shortened = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return shortened if exact else f"~{shortened}"


def setting_value(value: object) -> str:
    """A configured value in HOCON."""
    if value is None:
        return UNKNOWN
    return str(value).lower() if isinstance(value, bool) else str(value)
