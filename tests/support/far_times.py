"""Writes Parquet files with any twelve bytes as times of INT96, which no writer here would make."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from struct import pack
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

EPOCH = 2_440_588
"""The Julian day of 1970-01-01."""
DAY = 86_400_000_000
"""Microseconds."""


def write_int96(path: Path, values: Sequence[tuple[int, int] | None], more: dict[str, Any], **options: Any) -> None:
    """Write ``values`` (Julian day, nanoseconds) as columns ``at`` and ``many`` (a list a row), beside ``more``."""
    marks = [dt.datetime(1990, 1, 1) + dt.timedelta(days=n, microseconds=7 * n + 1) for n in range(len(values))]
    pairs = list(zip(values, marks, strict=True))
    times = pa.array([None if value is None else mark for value, mark in pairs], pa.timestamp("us"))
    columns = {"at": times, "many": pa.array([[each] for each in times.to_pylist()], pa.list_(times.type)), **more}
    pq.write_table(pa.table(columns), path, use_deprecated_int96_timestamps=True, compression="none", **options)
    content = path.read_bytes()
    for value, mark in pairs:
        if value is not None:
            since = mark - dt.datetime(1970, 1, 1)
            nanoseconds = (since.seconds * 10**6 + since.microseconds) * 1000
            written = pack("<QI", nanoseconds, EPOCH + since.days)
            assert content.count(written) == 2, "one for each column"
            content = content.replace(written, pack("<QI", value[1], value[0]))
    path.write_bytes(content)


def moment(value: tuple[int, int]) -> int:
    """Microseconds since 1970 of a Julian day and nanoseconds, with no limit."""
    return (value[0] - EPOCH) * DAY + value[1] // 1000
