"""The difference of two sets of rows, in which equal rows count: what was removed, and what was added.

Values are compared as :mod:`metastore.lake.iceberg.rows.equal_rows` compares them: NULL equals NULL, NaN equals NaN,
and 0.0 is not -0.0. Columns of every type, nested ones too, become numbers: equal values have equal numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_compute: Any = pc
"""Arrow's functions, for arguments that its stubs do not accept."""

Numbers = Any
"""A NumPy array of int64."""

Mask = Any
"""A NumPy array of booleans."""


def difference(before: pa.Table, after: pa.Table) -> tuple[Mask, Mask]:
    """Return which rows of ``before`` are not in ``after``, and which rows of ``after`` are not in ``before``.

    A row that is three times in one and once in the other is twice in the difference. Both have the same schema.
    """
    numbers = row_numbers(pa.concat_tables([before, after]))
    removed, added = np.split(numbers, [before.num_rows])
    count = int(numbers.max(initial=-1)) + 1
    shared = np.minimum(np.bincount(removed, minlength=count), np.bincount(added, minlength=count))
    return _occurrence(removed) >= shared[removed], _occurrence(added) >= shared[added]


def row_numbers(rows: pa.Table) -> Numbers:
    """Return a number for each row, from 0; two rows have the same number if they are equal in all columns."""
    found: Numbers = np.zeros(rows.num_rows, dtype=np.int64)
    for column in rows.columns:
        values = column.combine_chunks()
        # There are as many numbers as rows at most, so the product does not overflow.
        own = _value_numbers(values)
        found = _dense(found * (int(own.max(initial=0)) + 1) + own)
    return found


def _value_numbers(values: Any) -> Numbers:
    """Return a number for each value, from 0, the same for equal values."""
    type_ = values.type
    if isinstance(values, pa.ChunkedArray):  # an array of chunks that Arrow cannot join, such as long texts
        values = pa.concat_arrays(values.chunks)
    if isinstance(values, pa.ExtensionArray):
        return _value_numbers(values.storage)
    if pa.types.is_struct(type_):
        return row_numbers(
            pa.table([values.is_null(), *values.flatten()], [str(n) for n in range(type_.num_fields + 1)])
        )
    if pa.types.is_map(type_):
        return _list_numbers(values, pa.StructArray.from_arrays([values.keys, values.items], ["key", "value"]))
    if pa.types.is_fixed_size_list(type_):
        return _value_numbers(values.cast(pa.large_list(type_.value_field)))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _list_numbers(values, values.values)
    if pa.types.is_floating(type_):
        values = _compute.if_else(_compute.is_nan(values), pa.scalar(float("nan"), type_), values)
    if pa.types.is_null(type_):
        return np.zeros(len(values), dtype=np.int64)
    encoded = _compute.dictionary_encode(values, null_encoding="encode")
    return _compute.cast(encoded.indices, pa.int64()).to_numpy(zero_copy_only=False)


def _list_numbers(lists: Any, elements: Any) -> Numbers:
    """Return numbers for lists: each list is the bytes of its elements' numbers."""
    data = pa.py_buffer(_value_numbers(elements).tobytes())
    ends = pa.py_buffer((lists.offsets.to_numpy(zero_copy_only=False).astype(np.int64) * 8).tobytes())
    texts = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(lists), [None, ends, data])
    given: Any = _compute.if_else(lists.is_valid(), texts, pa.scalar(None, pa.large_binary()))
    return _value_numbers(given)


def _dense(numbers: Numbers) -> Numbers:
    return np.unique(numbers, return_inverse=True)[1].astype(np.int64)


def _occurrence(numbers: Numbers) -> Numbers:
    """Return how often each row's number stands in the rows before it."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else ordered
    lengths = np.diff(np.r_[starts, len(ordered)]).astype(np.int64)
    found = np.empty(len(numbers), dtype=np.int64)
    found[order] = np.arange(len(numbers)) - np.repeat(starts, lengths)
    return found
