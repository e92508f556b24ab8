"""The order of names for people: numbers in names are compared as numbers, so ``month=2`` precedes ``month=10``."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NUMBER: Final = re.compile(r"[0-9]+")
_NUMBER_IN_BYTES: Final = re.compile(rb"0+")
_DIGITS: Final = 20
_AT_ONCE: Final = 1 << 16
"""Number of names whose keys are made together."""
_MOST_SHAPES: Final = 1_000
"""With more shapes than this, keys are made name by name."""


def natural_order(name: str) -> str:
    """A sort key that puts ``month=2`` before ``month=10``: numbers get zeros in front, and come before letters."""
    return _NUMBER.sub(lambda found: f"\0{found.group().lstrip('0'):0>{_DIGITS}}", name)


def naturally_sorted(names: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """The positions of ``names``, which have no null, in the order of their keys; equal names keep their order."""
    batches = pa.Table.from_arrays([names], ["name"]).combine_chunks().to_batches(max_chunksize=_AT_ONCE)
    keys: Any = pa.chunked_array([_keys(batch.column("name")) for batch in batches], pa.binary())
    found: pa.Array[Any] = (
        pa.array(np.arange(len(keys), dtype=np.uint64)) if _is_sorted(keys) else pc.sort_indices(keys)
    )
    return found


def _is_sorted(keys: Any) -> bool:
    return len(keys) < 2 or bool(pc.all(pc.less_equal(keys.slice(0, len(keys) - 1), keys.slice(1))).as_py())


def _keys(names: Any) -> Any:
    """The keys of all names, in binary form.

    Names with digits at the same positions have one shape. All keys of a shape get their zeros at the same positions,
    so they are made together. A shape with a number of over :data:`_DIGITS` digits is not.
    """
    shapes = _shapes(names).dictionary_encode()
    found: list[Any] = shapes.dictionary.to_pylist()
    if len(found) > _MOST_SHAPES:
        return pa.array([natural_order(name).encode() for name in names.to_pylist()], pa.binary())
    codes = shapes.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    runs = np.searchsorted(codes[order], np.arange(len(found) + 1))
    parts = [
        _keys_of_shape(shape, names.take(pa.array(order[start:end])))
        for shape, (start, end) in zip(found, pairwise(runs.tolist()), strict=True)
    ]
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_arrays([pa.array([], pa.binary()), *parts]).take(pa.array(back))


def _shapes(names: Any) -> Any:
    """The names with zeros for their digits, in binary form."""
    if not len(names):
        return pa.array([], pa.binary())
    whole = pa.concat_arrays([names])
    _, offsets, data = whole.buffers()
    content: Any = np.frombuffer(data, np.uint8).copy() if data else np.zeros(0, np.uint8)
    content[(content >= ord("0")) & (content <= ord("9"))] = ord("0")
    return pa.Array.from_buffers(pa.binary(), len(whole), [None, offsets, pa.py_buffer(content)], offset=whole.offset)


def _keys_of_shape(shape: bytes, names: Any) -> Any:
    """The keys of ``names``, all of which have one ``shape``."""
    numbers = list(_NUMBER_IN_BYTES.finditer(shape))
    if any(found.end() - found.start() > _DIGITS for found in numbers):
        return pa.array([natural_order(name).encode() for name in names.to_pylist()], pa.binary())
    _, offsets, data = names.buffers()
    first = np.frombuffer(offsets, np.int32)[names.offset]
    content = np.frombuffer(data, np.uint8)[first : first + len(names) * len(shape)] if shape else np.zeros(0, np.uint8)
    matrix = content.reshape(len(names), len(shape))
    pieces, start = [], 0
    for found in numbers:
        zeros = b"\0" + b"0" * (_DIGITS - found.end() + found.start())
        pieces += [matrix[:, start : found.start()], np.tile(np.frombuffer(zeros, np.uint8), (len(names), 1))]
        start = found.start()
    keys: Any = np.ascontiguousarray(np.hstack([*pieces, matrix[:, start:]]))
    width = keys.shape[1]
    ends: Any = np.arange(len(names) + 1, dtype=np.int32) * width
    return pa.Array.from_buffers(pa.binary(), len(names), [None, pa.py_buffer(ends), pa.py_buffer(keys)])
