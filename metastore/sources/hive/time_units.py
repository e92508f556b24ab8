"""What readers of Iceberg read of times in Parquet files that are not in Iceberg's own unit: the one table of it.

Place in the flow: ``add_files``, ``migrate``, ``snapshot_table`` and ``add_files_from_hive`` decide by it. A unit is
refused if one reader reads it otherwise in every way that the reader has; it is taken and told if it has another way.
``tests/sources/hive/test_time_units_by_java.py`` measures each entry; the guide on maintenance prints the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow.types as pt

VECTORS: Final = "Iceberg in Spark, by vectors"
"""The default of Iceberg for Java; only columns of plain values are read so, and only in files without nested ones."""

ROWS: Final = "Iceberg in Spark, by rows"
DUCKDB: Final = "DuckDB"
PYICEBERG: Final = "PyIceberg"
POLARS: Final = "Polars"
CLICKHOUSE: Final = "ClickHouse"

READERS: Final = (VECTORS, ROWS, DUCKDB, PYICEBERG, POLARS, CLICKHOUSE)

_AS_MICROS: Final = "takes nanoseconds for microseconds"

READ_OTHERWISE: Final[Mapping[str, Mapping[str, str]]] = {
    "INT64 in milliseconds": {
        VECTORS: "takes milliseconds for microseconds where pages have a dictionary, which makes times of 1970"
    },
    "INT64 in microseconds": {},
    "INT64 in nanoseconds": {VECTORS: _AS_MICROS, ROWS: _AS_MICROS},
    "INT96": {},
}
"""What readers of :data:`READERS` read otherwise than the file says, by the physical type and unit of timestamps."""

_COUNTED_IN: Final = {"s": "milliseconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
"""Parquet's units by Arrow's, in which the schemas of files are; INT96 is microseconds there."""


def read_otherwise(type_: Any) -> Mapping[str, str]:
    """Returns what readers read otherwise in a column of a file, by its Arrow type."""
    return READ_OTHERWISE[f"INT64 in {_COUNTED_IN[type_.unit]}"] if pt.is_timestamp(type_) else {}


def why_refused(type_: Any) -> str | None:
    """Returns what a reader reads otherwise in each of its ways; None if every reader has a way that is right."""
    wrong = read_otherwise(type_)
    return f"Iceberg in Spark {wrong[ROWS]}" if {VECTORS, ROWS} <= wrong.keys() else None


def is_told(type_: Any) -> bool:
    """Whether a file is taken although a reader reads such times otherwise."""
    return bool(read_otherwise(type_)) and why_refused(type_) is None
