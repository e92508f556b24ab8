"""The names used on disk: kinds of metadata, reserved keys, names of statistics.

Everything here is part of the format shared with Apache Drill's metastore; a changed value is a changed format.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class MetadataType(str, Enum):
    """The kind of one metadata unit; ``ALL`` is for requests only and is never stored."""

    ALL = "ALL"
    TABLE = "TABLE"
    SEGMENT = "SEGMENT"
    FILE = "FILE"
    ROW_GROUP = "ROW_GROUP"
    PARTITION = "PARTITION"
    VIEW = "VIEW"
    MATERIALIZED_VIEW = "MATERIALIZED_VIEW"

    def __str__(self) -> str:
        return self.value


GENERAL_INFO: Final = "GENERAL_INFO"
"""Metadata key and identifier of the one TABLE unit of a table."""

DEFAULT_SEGMENT: Final = "DEFAULT_SEGMENT"
"""Metadata key of files that are in no directory of the table."""

IDENTIFIER_SEPARATOR: Final = "/"


class Statistic:
    """Names of statistics kinds, as used in the JSON forms."""

    MIN_VALUE: Final = "minValue"
    MAX_VALUE: Final = "maxValue"
    NULLS_COUNT: Final = "nullsCount"
    NON_NULLS_COUNT: Final = "nonNullValuesCount"
    ROW_COUNT: Final = "rowCount"
    START: Final = "start"
    LENGTH: Final = "length"
    HAS_DESCRIPTIVE: Final = "hasDescriptiveStatistics"
    ESTIMATED_ROWS: Final = "rowcount"
    ESTIMATED_NON_NULLS: Final = "nonnullrowcount"
    DISTINCT: Final = "approx_count_distinct"
    AVERAGE_WIDTH: Final = "avg_width"
    HISTOGRAM: Final = "histogram"
    ANALYZE_LEVEL: Final = "analyzeMetadataLevel"
    MODIFICATION_TIME_NANOS: Final = "modificationTimeNanos"
    """Our extension: a file's modification time in epoch nanoseconds; with ``length``, the file's fingerprint."""
