"""Rows that stand together, as slices of their table: what one batch after the other is cut into without a copy.

Units are kilobytes each, so bringing them together by copies would cost more than most of what is done with them. Only
Arrow is needed here: tasks use it where nothing of Iceberg is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def runs(table: pa.Table, column: str) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """The rows in slices of one value of ``column`` each, with it; a value may have several. Nothing is copied."""
    for batch in table.to_batches():
        encoded = pc.call_function("run_end_encode", [batch[column]])
        start = 0
        for value, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
            yield value, batch.slice(start, end - start)
            start = end


def together(table: pa.Table, column: str) -> dict[Any, pa.Table]:
    """All rows of each value of ``column``, by it. Nothing is copied."""
    found: dict[Any, list[pa.RecordBatch]] = {}
    for value, rows in runs(table, column):
        found.setdefault(value, []).append(rows)
    return {value: pa.Table.from_batches(batches) for value, batches in found.items()}
