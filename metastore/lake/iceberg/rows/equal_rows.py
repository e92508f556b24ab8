"""Finds rows that equal one of some keys, as equality deletes define it: exactly, and for whole columns at once.

Null equals null and NaN equals NaN, alone or in combinations; 0.0 and -0.0 differ, as in Iceberg for Java. Several
columns are compared as codes: the code of a value is its position among the keys' values, and the code of a combination
is its position among the keys' combinations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_compute: Any = pc
"""Arrow's functions, for arguments that its stubs do not accept."""

Column = Any
"""An Arrow array, in one piece or in chunks, of any plain type."""

Mask = Any
"""A NumPy array of booleans."""

Numbers = Any
"""A NumPy array of integers."""

_DENSE: Final = 1 << 26
"""Integer keys in a range up to this length are looked up in a table of one byte for each number."""


def equal_to_one(rows: Sequence[Column], keys: Sequence[Column]) -> Mask:
    """Return whether each row equals one of the ``keys`` in all columns; both have the same columns and types."""
    rows, keys = [_comparable(column) for column in rows], [_comparable(column) for column in keys]
    if not len(keys[0]):
        return np.zeros(len(rows[0]), dtype=bool)
    if len(keys) == 1:
        return _in_one_column(rows[0], keys[0])
    of_rows, of_keys = _codes(rows[0], keys[0])
    for row, key in zip(rows[1:], keys[1:], strict=True):
        more_of_rows, more_of_keys = _codes(row, key)
        count = int(more_of_keys.max()) + 1
        pairs = np.where((of_rows < 0) | (more_of_rows < 0), -1, of_rows * count + more_of_rows)
        # Codes of combinations stay below the number of keys, so no product overflows.
        of_rows, of_keys = _codes(pa.array(pairs), pa.array(of_keys * count + more_of_keys))
    return of_rows >= 0


def in_order(keys: list[Column]) -> list[Column]:
    """Return the same keys in the order in which they are looked up fastest: once for all rows of a table."""
    number = _as_integers(keys[0].type)
    if len(keys) > 1 or number is None or _is_ordered(_integers(keys[0], number)):
        return keys
    return [keys[0].take(_compute.sort_indices(keys[0]))]


def _in_one_column(rows: Column, keys: Column) -> Mask:
    number = _as_integers(keys.type)
    if number is None:
        return _bools(_compute.is_in(rows, value_set=_whole(keys)))
    held: list[Column] = rows.chunks if isinstance(rows, pa.ChunkedArray) else [rows]
    keys = _whole(keys)
    found = _in_integers([_integers(chunk, number) for chunk in held], _integers(keys.drop_null(), number))
    if any(chunk.null_count for chunk in held):
        null = np.concatenate([_bools(chunk.is_null()) for chunk in held])
        found[null] = keys.null_count > 0
    return found


def _as_integers(kind: pa.DataType) -> pa.DataType | None:
    """Return the type of integers that stores values of ``kind``; None if that is another type."""
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return pa.int64()
    return kind if pa.types.is_integer(kind) else None


def _integers(column: Column, kind: pa.DataType) -> Numbers:
    """Return the values of a column as integers of ``kind``; NULL as any number."""
    numbers: Column = column.view(kind)
    return _numbers(numbers.fill_null(0) if numbers.null_count else numbers)


def _in_integers(chunks: Sequence[Numbers], keys: Numbers) -> Mask:
    """Return whether each number is one of the ``keys``.

    Chunks are looked up one by one, so that their numbers stay in the processor's caches.
    """
    found = np.zeros(sum(map(len, chunks)), dtype=bool)
    some = [chunk for chunk in chunks if len(chunk)]
    if not some:
        return found
    low, high = min(int(chunk.min()) for chunk in some), max(int(chunk.max()) for chunk in some)
    keys = keys if _is_ordered(keys) else np.sort(keys)
    # The rows of a file are often near each other, so only few keys are between them.
    keys = keys[np.searchsorted(keys, low, "left") : np.searchsorted(keys, high, "right")]
    if not len(keys):
        return found
    first, last = int(keys[0]), int(keys[-1])
    if last - first >= _DENSE:
        every = pa.array(np.concatenate(some))
        return _bools(_compute.is_in(every, value_set=pa.array(keys)))
    if high - low < _DENSE:
        first, last = low, high
    table = np.zeros(last - first + 1, dtype=bool)
    table[keys - first] = True
    row = 0
    for chunk in chunks:
        into = found[row : row + len(chunk)]
        row += len(chunk)
        if (first, last) == (low, high):
            np.take(table, chunk - first, out=into, mode="clip")  # no place is outside; "raise" would copy
        else:
            inside = (chunk >= first) & (chunk <= last)
            np.logical_and(table[np.where(inside, chunk, first) - first], inside, out=into)
    return found


def _is_ordered(keys: Numbers) -> bool:
    return bool((keys[1:] >= keys[:-1]).all())


def _codes(rows: Column, keys: Column) -> tuple[Any, Any]:
    """Return the position of each row's and key's value among the keys' values; -1 if it is not there."""
    known = keys.unique()
    of_rows = _numbers(_compute.index_in(rows, value_set=known).cast(pa.int64()).fill_null(-1))
    return of_rows, _numbers(_compute.index_in(keys, value_set=known).cast(pa.int64()))


def _comparable(column: Column) -> Column:
    """Return the column with one bit pattern for NaN, because Arrow distinguishes others."""
    if not pa.types.is_floating(column.type):
        return column
    return _compute.if_else(_compute.is_nan(column), pa.scalar(float("nan"), column.type), column)


def _numbers(column: Column) -> Any:
    return _whole(column).to_numpy(zero_copy_only=False)


def _bools(column: Column) -> Mask:
    return _whole(column).to_numpy(zero_copy_only=False)


def _whole(column: Column) -> Column:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
