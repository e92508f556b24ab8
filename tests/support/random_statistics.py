"""Statistics of every type as property tests draw them: bounds truncated and missing, odd counts, mixed types."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import Any

from hypothesis import strategies as st

from metastore.model.bounds.statistics_columns import StatisticsColumns
from metastore.model.statistics import ColumnStatistics

UTC = timezone.utc
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "INT": st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
    "UINT8": st.integers(0, 2**64 - 1),
    "FLOAT4": st.floats(width=32, allow_nan=False),
    "FLOAT8": st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.5, 2.0]),
    "VARDECIMAL": st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9)
    | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30),
    "VARCHAR": st.text(max_size=4) | st.sampled_from(["ab", "ab\uffff", "a\U0001f600", 'q"\\', "17", "", "\x00"]),
    "VARBINARY": st.binary(max_size=3),
    "BIT": st.booleans(),
    "DATE": st.dates() | st.dates(date(2024, 1, 1), date(2024, 3, 1)),
    "TIME": st.times(),
    "TIMESTAMP": st.datetimes() | st.datetimes(datetime(2024, 1, 1), datetime(2024, 1, 2)),
    "INSTANT": st.datetimes(timezones=st.just(UTC)),
}
"""By minor type, and one name for times with a zone."""

COUNTS = st.none() | st.integers(0, 3)


@st.composite
def statistics(draw: st.DrawFn, of: str) -> ColumnStatistics:
    """What may be known of one container with values of a type: truncated bounds, missing ones, odd counts."""
    bounds = sorted([draw(VALUES[of]), draw(VALUES[of])])
    low, high = (bound if draw(st.booleans()) else None for bound in bounds)
    if low is not None and draw(st.booleans()):
        high = low
    return ColumnStatistics(
        "TIMESTAMP" if of == "INSTANT" else of,
        low,
        high,
        draw(st.booleans()),
        draw(st.booleans()),
        draw(COUNTS),
        draw(COUNTS),
        draw(COUNTS),
        draw(COUNTS),
    )


@st.composite
def containers(draw: st.DrawFn, of: str) -> list[ColumnStatistics | None]:
    """Containers of one type mostly, with others among them, and some of which nothing is known."""
    other = draw(st.sampled_from(sorted(VALUES)))
    return draw(st.lists(statistics(of) | statistics(of) | statistics(other) | st.none(), min_size=1, max_size=8))


def told(columns: StatisticsColumns) -> list[Any]:
    """What columns say of each container, as plain values."""
    found: list[Any] = []
    for position in range(len(columns)):
        known = columns.at(position)
        flags = int(columns.flags[position])
        bits = [bool(flags & bit) for bit in (2, 4, 8, 16, 32)]
        found.append(
            None if known is None else (known.type, known.min, known.max, *bits, bool(columns.has_bounds[position]))
        )
    return found
