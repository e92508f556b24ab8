"""What the footer of one data file says of it, the same for every format: rows, structure, and each column's numbers.

Readers of formats make :class:`FileFacts`; whoever builds Iceberg's metrics of them sees no format any more. Promise:
a bound is never too narrow for the values that Iceberg's readers find in the file, and None where that is not certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa

GREGORIAN: Final = date(1582, 10, 15)
"""Days before it are other days to writers of the old calendar, and some readers move them: they make no bounds."""

INT96: Final = b"metastore.int96"
"""In the metadata of a field of a file's schema: its times are INT96."""

OLD_CALENDAR: Final = b"metastore.old-calendar"
"""In the metadata of a field: its days or times may be those of the calendar before 1582, which Spark shifts."""


class LeafFacts(NamedTuple):
    """One leaf column of a file: its bytes on the disk, its values (nulls counted), its nulls, and bounds; or None.

    Bounds are Python's own values: int, float, str, bytes, Decimal, date, datetime (naive, also for moments in UTC).
    ``is_exact``: the bounds are values of the file, as every reader finds them.
    """

    size: int | None = None
    values: int | None = None
    nulls: int | None = None
    low: Any = None
    high: Any = None
    is_exact: bool = False


class FileFacts(NamedTuple):
    """One file. ``leaves`` are in depth-first order of ``schema``; ``splits`` are offsets at which reading can begin.

    ``schema`` has Arrow's names and types of what is in the file; a moment, those of INT96 too, has the zone UTC.
    """

    records: int
    schema: pa.Schema
    leaves: Sequence[LeafFacts]
    splits: Sequence[int] = ()


def trusted(bound: Any) -> Any:
    """``bound``, or None where it is a day or a moment of the old calendar."""
    if isinstance(bound, datetime):
        return bound if bound.date() >= GREGORIAN else None
    return None if isinstance(bound, date) and bound < GREGORIAN else bound
