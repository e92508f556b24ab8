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


def _in_one_column(rows: Column, keys: Column) -> Mask:
    if pa.types.is_integer(keys.type):
        keys = _between_those_of(rows, keys)
        if keys.null_count < len(keys):
            low, high = (bound.as_py() for bound in _compute.min_max(keys).values())
            if high - low < _DENSE:
                return _among_dense(rows, keys, low, high)
    return _bools(_compute.is_in(rows, value_set=_whole(keys)))


def _between_those_of(rows: Column, keys: Column) -> Column:
    """Return keys that are null or within the range of ``rows``: few if the rows are sorted."""
    low, high = _compute.min_max(rows).values()
    if not low.is_valid:
        return keys.filter(keys.is_null())
    inside = _compute.and_(_compute.greater_equal(keys, low), _compute.less_equal(keys, high))
    return keys.filter(_compute.fill_null(inside, True))


def _among_dense(rows: Column, keys: Column, low: int, high: int) -> Mask:
    """As :func:`_in_one_column`, for integers between ``low`` and ``high``."""
    table = np.zeros(high - low + 1, dtype=bool)
    table[_numbers(keys.drop_null()) - low] = True
    values = _numbers(rows.fill_null(low))
    inside = (values >= low) & (values <= high)
    found = table[np.where(inside, values, low) - low] & inside
    if rows.null_count:
        found = np.where(_bools(rows.is_null()), keys.null_count > 0, found)
    return found


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
