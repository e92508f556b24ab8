"""Finds columns with one value per file, from the files' statistics; PARTITION units are made of these."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, time
from decimal import Decimal

from metastore.model.drill_types import FLOAT_TYPES
from metastore.model.statistics import ColumnStatistics, Value


def constant_values(files: Sequence[ColumnStatistics]) -> list[str | None] | None:
    """The single value of each file as text (None for null); None unless every file has just one value.

    A file without rows has no value and does not count; its place in the list holds None.
    """
    values: list[str | None] = []
    for statistics in files:
        if statistics.all_null:
            values.append(None)
        elif _is_constant(statistics):
            assert statistics.min is not None
            values.append(_text(statistics.min))
        else:
            return None
    return values


def _is_constant(statistics: ColumnStatistics) -> bool:
    if statistics.nulls != 0 or statistics.min is None or statistics.min != statistics.max:
        return False
    # If the lower bound equals the upper bound, it is the value, even if the writer may have shortened bounds. But
    # bounds ignore NaNs, so NaNs must be known to be absent.
    return statistics.type not in FLOAT_TYPES or statistics.nans == 0


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return repr(value + 0.0)  # the lower bound of a zero is -0.0
    return value.isoformat() if isinstance(value, (date, time)) else str(value)
