"""Runs: adjacent rows with the same value, as slices of their table, without a copy.

Units have kilobytes each, so copying them would cost more than most of the work on them. Very short runs are the
exception: a slice of each column costs more than a copy of a few rows. This module imports only Arrow, because tasks
use it in processes that do not load Iceberg.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_SHORT: Final = 8
"""Runs of fewer rows on average are copied. A file is often followed by its only row group: runs of one row."""


def runs(table: pa.Table, column: str) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """Yields each run of rows with one value of ``column``, with that value; a value may have several runs."""
    for batch in table.to_batches():
        encoded = _encode_runs(batch[column])
        start = 0
        for value, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
            yield value, batch.slice(start, end - start)
            start = end


def together(table: pa.Table, column: str) -> dict[Any, pa.Table]:
    """Returns all rows of each value of ``column``, by value in order of appearance; only short runs are copied."""
    values: Any = table[column]
    distinct: list[Any] = values.unique().to_pylist()
    number = sum(len(_encode_runs(chunk).values) for chunk in values.chunks)
    if number > len(distinct) and number * _SHORT > table.num_rows:
        return {value: table.filter(_is(values, value)) for value in distinct}
    found: dict[Any, list[pa.RecordBatch]] = {}
    for value, rows in runs(table, column):
        found.setdefault(value, []).append(rows)
    return {value: pa.Table.from_batches(batches) for value, batches in found.items()}


def _encode_runs(values: pa.Array[Any]) -> Any:
    return pc.call_function("run_end_encode", [values])


def _is(values: Any, value: Any) -> Any:
    return values.is_null() if value is None else pc.equal(values, pa.scalar(value, values.type))
