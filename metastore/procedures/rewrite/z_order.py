"""Places rows on a Z-order curve through several columns, so that a range of any of them lies in few stretches. Pure.

Each column is cut into ranges with about equally many rows of a sample. The place of a row interleaves the bits of its
ranges' numbers. So columns of any types have the same weight, whatever their values and common prefixes are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MOST_COLUMNS: Final = 16

_PLACE_BITS: Final = 63
_MOST_BITS: Final = 12
_BORDER: Final = "is_row"
"""This column sorts a border before the rows that are equal to it."""

Numbers = Any
"""A NumPy array of int64."""


@dataclass(frozen=True)
class Curve:
    """The ascending borders between ranges of each column, as rows of a table of sortable columns."""

    borders: tuple[pa.Table, ...]

    @classmethod
    def through(cls, columns: Sequence[pa.Table]) -> Curve:
        """Return the curve for rows like those of a sample, whose ranks are ``columns``: one table for each column."""
        ranges = 1 << _bits(len(columns))
        return cls(tuple(_borders(ranks, ranges) for ranks in columns))

    def places(self, columns: Sequence[pa.Table]) -> Any:
        """Return the place of each row as an Arrow array of int64; ``columns`` are as in :meth:`through`."""
        bits = _bits(len(columns))
        numbers = [_spread(*pair, bits) for pair in zip(self.borders, columns, strict=True)]
        place: Numbers = np.zeros(len(numbers[0]), dtype=np.int64)
        for bit in reversed(range(bits)):
            for number in numbers:
                place = (place << 1) | ((number >> bit) & 1)
        return pa.array(place)


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
