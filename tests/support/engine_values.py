"""Values of Spark and of DuckDB in one form, so that they can be compared."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any


def comparable(value: Any) -> Any:
    """A value as both engines' Python has it."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float, Decimal)):
        return "NaN" if math.isnan(value) else float(f"{float(value):.12g}")
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)  # both sessions are in UTC
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    return [comparable(one) for one in value] if isinstance(value, list) else value
