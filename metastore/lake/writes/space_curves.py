"""Places rows on a curve through several columns, so that a range of any of them lies in few stretches. Pure.

Each column is cut into ranges with about equally many rows of a sample. So columns of any types have the same weight,
whatever their values and common prefixes are. The place of a row on a Z-order curve interleaves the bits of its ranges'
numbers. A Hilbert curve never jumps: two neighbours on it are neighbours in one column and equal in all others. Its
places are those of a Z-order of transformed numbers (J. Skilling, "Programming the Hilbert curve", 2004).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MOST_COLUMNS: Final = 16

_PLACE_BITS: Final = 63
_MOST_BITS: Final = 12
_BORDER: Final = "is_row"
"""This column sorts a border before the rows that are equal to it."""

CurveKind = Literal["zorder", "hilbert"]

Numbers = Any
"""A NumPy array of int64."""


@dataclass(frozen=True)
class Curve:
    """The ascending borders between ranges of each column, as rows of a table of sortable columns."""

    borders: tuple[pa.Table, ...]
    kind: CurveKind = "zorder"

    @classmethod
    def through(cls, columns: Sequence[pa.Table], kind: CurveKind = "zorder") -> Curve:
        """Return the curve for rows like those of a sample, whose ranks are ``columns``: one table for each column."""
        ranges = 1 << _bits(len(columns))
        return cls(tuple(_borders(ranks, ranges) for ranks in columns), kind)

    def places(self, columns: Sequence[pa.Table]) -> Any:
        """Return the place of each row as an Arrow array of int64; ``columns`` are as in :meth:`through`."""
        bits = _bits(len(columns))
        numbers = [_spread(*pair, bits) for pair in zip(self.borders, columns, strict=True)]
        return pa.array(interleave_bits(along_hilbert(numbers, bits) if self.kind == "hilbert" else numbers, bits))


def interleave_bits(numbers: Sequence[Numbers], bits: int) -> Numbers:
    """Return numbers made of the ``bits`` lowest bits of each of ``numbers`` in turn, the first and highest first."""
    place: Numbers = np.zeros(len(numbers[0]), dtype=np.int64)
    for bit in reversed(range(bits)):
        for number in numbers:
            place = (place << 1) | ((number >> bit) & 1)
    return place


def along_hilbert(numbers: Sequence[Numbers], bits: int) -> list[Numbers]:
    """Return the numbers that are, after :func:`interleave_bits`, the places on a Hilbert curve through ``numbers``.

    ``numbers`` has the coordinates of all points, from 0 to 2 ** ``bits`` - 1: one array for each dimension.
    """
    axes = [number.copy() for number in numbers]
    for bit in reversed(range(1, bits)):
        lower = (1 << bit) - 1
        for axis in axes:
            is_set = (axis >> bit) & 1 == 1
            swapped = np.where(is_set, 0, (axes[0] ^ axis) & lower)
            axes[0] ^= np.where(is_set, lower, swapped)
            np.bitwise_xor(axis, swapped, out=axis)
    axes = list(accumulate(axes, np.bitwise_xor))
    flipped = np.zeros_like(axes[0])
    for bit in reversed(range(1, bits)):
        flipped ^= np.where((axes[-1] >> bit) & 1 == 1, (1 << bit) - 1, 0)
    return [axis ^ flipped for axis in axes]


def _bits(columns: int) -> int:
    return min(_MOST_BITS, _PLACE_BITS // columns)


def _borders(ranks: pa.Table, ranges: int) -> pa.Table:
    in_order = ranks.take(pc.sort_indices(ranks, sort_keys=_ascending(ranks)))
    picked = in_order.take(pa.array(sorted({ranks.num_rows * number // ranges for number in range(1, ranges)})))
    distinct = picked.group_by(picked.column_names).aggregate([])
    return distinct.take(pc.sort_indices(distinct, sort_keys=_ascending(distinct)))


def _spread(borders: pa.Table, ranks: pa.Table, bits: int) -> Numbers:
    """Return the number of each row's range, spread over ``bits`` bits if there are fewer ranges."""
    count = borders.num_rows
    marked = [
        table.append_column(_BORDER, pa.repeat(is_row, table.num_rows)) for table, is_row in _both(borders, ranks)
    ]
    together = pa.concat_tables(marked)
    indices = pc.sort_indices(together, sort_keys=_ascending(together)).to_numpy()
    is_row = indices >= count
    numbers = np.empty(ranks.num_rows, dtype=np.int64)
    numbers[indices[is_row] - count] = np.cumsum(~is_row)[is_row]
    return (numbers << bits) // (count + 1)


def _both(borders: pa.Table, ranks: pa.Table) -> tuple[tuple[pa.Table, bool], tuple[pa.Table, bool]]:
    return (borders.cast(ranks.schema), False), (ranks, True)


def _ascending(table: pa.Table) -> list[tuple[str, Any]]:
    return [(name, "ascending") for name in table.column_names]
