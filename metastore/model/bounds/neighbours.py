"""The neighbours of a literal among the values of an array's form: the last not above it, the first not below it."""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from metastore.ground.epoch import EPOCH_DATE
from metastore.model.statistics_json import micros

LONGS: Final = (-(2**63), 2**63 - 1)
FAR: Final = 60
"""Most digits before or after the point; a decimal beyond is outside, or between, all 64-bit values at a usual scale.
"""


def as_long(value: Any) -> int:
    """A boolean as 0 or 1, a date as days, a time or date-time as microseconds; keeps the order of the values."""
    if isinstance(value, (datetime, time)):
        return micros(value)
    return int((value - EPOCH_DATE).days) if isinstance(value, date) else int(value)


def longs_around(value: float | Decimal, scale: int) -> tuple[Any, Any]:
    """The whole numbers around ``value`` times ten to the power of ``scale``."""
    if isinstance(value, int) and not scale:
        return int(value), int(value)
    if isinstance(value, float) and not math.isfinite(value):
        return value, value
    if isinstance(value, Decimal) and value and abs(value.adjusted()) > FAR:
        if value.adjusted() > 0:
            return (math.inf, math.inf) if value > 0 else (-math.inf, -math.inf)
        return (0, 1) if value > 0 else (-1, 0)
    exact = Fraction(value) * 10**scale
    return math.floor(exact), math.ceil(exact)


def floats_around(value: float | Decimal) -> tuple[float, float]:
    """The doubles around ``value``."""
    try:
        nearest = float(value)
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    if nearest > value:
        return math.nextafter(nearest, -math.inf), nearest
    return (nearest, math.nextafter(nearest, math.inf)) if nearest < value else (nearest, nearest)
