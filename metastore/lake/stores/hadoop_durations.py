"""Parses durations in Hadoop's keys: a number with or without a unit, ``30s`` or ``30000``; pure.

Used where keys of Hadoop's connectors are converted (``hadoop_properties``, ``hdfs_access``).
"""

from __future__ import annotations

import re
from typing import Final

_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(rf"(\d+)\s*({'|'.join(_SECONDS)})?", re.ASCII | re.IGNORECASE)


def seconds_of(duration: str) -> float | None:
    """Return ``duration`` in seconds; without a unit it is in milliseconds. None if it is not a duration."""
    found = _DURATION.fullmatch(duration.strip())
    return None if found is None else int(found[1]) * _SECONDS[(found[2] or "ms").lower()]
