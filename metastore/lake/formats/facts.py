"""The contents of one data file's footer, in the same form for every format.

They are the rows, the structure, and the statistics of columns. Readers of formats make :class:`FileFacts`; Iceberg's
metrics are built from them, independent of the format. Promise: a bound is never too narrow for the values that
Iceberg's readers find in the file, and None if that is not certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa

GREGORIAN: Final = date(1582, 10, 15)
"""Earlier days differ in the old calendar, and some readers move them. So they are not used as bounds."""

INT96: Final = b"metastore.int96"
"""In the metadata of a field of a file's schema: its times are INT96."""

OLD_CALENDAR: Final = b"metastore.old-calendar"
"""In the metadata of a field: its days or times may be of the Julian calendar before 1582, which Spark shifts."""


class ElementFacts(NamedTuple):
    """What a footer states of the elements of a list, or the keys or values of a map; bounds as in LeafFacts."""

    is_empty: bool
    """Whether there certainly is no element but null."""
    low: Any = None
    high: Any = None


class LeafFacts(NamedTuple):
    """One leaf column of a file: its bytes on disk, its values (including nulls), its nulls, and bounds; or None.

    Bounds are Python values: int, float, str, bytes, Decimal, date, datetime (naive, also for times in UTC).
    ``is_exact``: the bounds are values of the file, as every reader finds them.
    """

    size: int | None = None
    values: int | None = None
    nulls: int | None = None
    low: Any = None
    high: Any = None
    is_exact: bool = False
    elements: ElementFacts | None = None
    """For what a list or map holds, which has no other facts but its size; Iceberg keeps no bounds of these."""


class FileFacts(NamedTuple):
    """One file. ``leaves`` are in depth-first order of ``schema``; ``splits`` are offsets at which reading can begin.

    ``schema`` has Arrow's names and types of the file's columns; timestamps that are instants, and INT96, have the zone
    UTC.
    """

    records: int
    schema: pa.Schema
    leaves: Sequence[LeafFacts]
    splits: Sequence[int] = ()


def without_old_calendar(bound: Any) -> Any:
    """Returns ``bound``, or None if it is a day or time of the old calendar."""
    if isinstance(bound, datetime):
        return bound if bound.date() >= GREGORIAN else None
    return None if isinstance(bound, date) and bound < GREGORIAN else bound
