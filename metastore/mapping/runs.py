"""Runs: adjacent rows with the same value, as slices of their table, without a copy.

Units have kilobytes each, so copying them would cost more than most of the work on them. This module imports only
Arrow, because tasks use it in processes that do not load Iceberg.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def runs(table: pa.Table, column: str) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """Yields each run of rows with one value of ``column``, with that value; a value may have several runs."""
    for batch in table.to_batches():
        encoded = pc.call_function("run_end_encode", [batch[column]])
        start = 0
        for value, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
            yield value, batch.slice(start, end - start)
            start = end


def together(table: pa.Table, column: str) -> dict[Any, pa.Table]:
    """Returns all rows of each value of ``column``, by value, without a copy."""
    found: dict[Any, list[pa.RecordBatch]] = {}
    for value, rows in runs(table, column):
        found.setdefault(value, []).append(rows)
    return {value: pa.Table.from_batches(batches) for value, batches in found.items()}
