"""Rows of a batch by the number of their group."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa


def by_group(
    batch: pa.RecordBatch, groups: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the rows of each group in their order; ``groups`` has one number for each row."""
    order = np.argsort(groups, kind="stable")
    numbers, starts = np.unique(groups[order], return_index=True)
    for number, rows in zip(numbers, np.split(order, starts[1:]), strict=True):
        yield int(number), batch.take(pa.array(rows, pa.int64()))
