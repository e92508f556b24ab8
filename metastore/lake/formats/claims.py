"""The one rule by which numbers of a writer are believed: footers, logs and manifests state claims, not facts.

Place in the flow: whoever reads statistics that a writer left calls :func:`check_claims` before it uses them: the
readers of Parquet and ORC footers here, and those of Delta's log and Iceberg's manifests. What
:mod:`metastore.lake.formats.parquet.writer_faults` says of the writer comes before. Promise: numbers that contradict
the rows, the type or each other are unknown (None). An unknown number prunes nothing and answers no aggregate.

* Nulls and values add up to the rows.
* A column without values has no bounds; if it has, the null count and the bounds are unknown.
* The lower bound is not above the upper one, and neither is NaN.
* The type can hold both bounds.
* NaNs are values, and a column of nothing else has no bounds.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias

from metastore.model.drill_types import INTEGER_LIMITS, minor_type, parse_type

Believed: TypeAlias = tuple[Any, Any, int | None, int | None]
"""Low and high bound, nulls, values; None is "unknown". A plain tuple, since there are sixty per Parquet file."""

Limits: TypeAlias = tuple[Any, Any]
"""The smallest and the largest value of a type."""


@lru_cache(maxsize=1024)
def limits_of(sql_type: str) -> Limits | None:
    """Returns the limits of numbers of Drill's ``sql_type``; None if it has none."""
    parsed = parse_type(sql_type)
    if parsed.name == "DECIMAL" and parsed.arguments:
        return decimal_limits(*parsed.arguments)
    return INTEGER_LIMITS.get(minor_type(sql_type))


def decimal_limits(precision: int, scale: int = 0) -> Limits:
    """Returns the limits of decimals with ``precision`` digits, ``scale`` of them after the point."""
    largest = Decimal(f"{10**precision - 1}e{-scale}")
    return -largest, largest


def check_claims(low: Any, high: Any, nulls: int | None, rows: int, limits: Limits | None = None) -> Believed:
    """Returns what is believed of a column that has ``rows`` values and nulls together.

    Bounds are in any form that has the order of the column's values, and ``limits`` in the same.
    """
    if nulls is None or not 0 <= nulls <= rows:
        nulls = values = None
    else:
        values = rows - nulls
    if low is None and high is None:
        return None, None, nulls, values
    if values == 0:
        return None, None, None, None
    if low is not None and high is not None and not low <= high:
        return None, None, nulls, values
    if limits is not None:
        first, last = limits
        if (low is not None and not first <= low <= last) or (high is not None and not first <= high <= last):
            return None, None, nulls, values
    return low, high, nulls, values


def believed_nans(nans: int | None, low: Any, high: Any, values: int | None) -> int | None:
    """Returns the count of NaNs, which are among the ``values``, if bounds and values agree with it."""
    if nans is None or nans < 0 or (values is not None and nans > values):
        return None
    is_all = values is not None and nans == values > 0
    return None if is_all and (low is not None or high is not None) else nans
