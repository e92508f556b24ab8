"""Statistics of one column in many containers (segments, files, row groups), as columns to run tests over.

Counts are reduced to what they prove, a few bits per container. Bounds are separate by kind. Nearly always there is one
kind; there are several if containers hold other types than the column's present one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from metastore.model.bounds.bound_arrays import BoundArray, Kind, Mask, Positions, bound_array, kind_of, take_values
from metastore.model.drill_types import NO_TYPE
from metastore.model.statistics import ColumnStatistics, Value

KNOWN: Final = 1
"""Something is known of the column."""
ALL_NULL: Final = 2
"""No row has a value."""
NO_NULL: Final = 4
NO_NAN: Final = 8
COUNTS_NULLS: Final = 16
"""The counts tell whether there are nulls."""
COUNTS_NANS: Final = 32

Flags = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, eq=False)
class BoundPair:
    """Lower and upper bounds of one kind and form; unknown for containers with bounds of another."""

    low: BoundArray
    high: BoundArray

    @property
    def kind(self) -> Kind:
        """The kind of both."""
        return self.low.kind

    def take(self, positions: Positions) -> BoundPair:
        """See :meth:`BoundArray.take`."""
        return BoundPair(self.low.take(positions), self.high.take(positions))


@dataclass(frozen=True, eq=False)
class StatisticsColumns:
    """One column's statistics in many containers; the bits of ``flags`` are the constants of this module.

    ``type_codes`` are indices into ``types`` (minor types); -1 means no type.
    """

    flags: Flags
    types: tuple[str, ...]
    type_codes: np.ndarray[Any, np.dtype[np.int16]]
    bounds: tuple[BoundPair, ...]

    def __len__(self) -> int:
        return len(self.flags)

    @classmethod
    def of(cls, statistics: Sequence[ColumnStatistics | None]) -> StatisticsColumns:
        """Converts ``statistics``, one for each container; None means unknown."""
        types = tuple(dict.fromkeys(known.type for known in statistics if known is not None))
        codes = {type_: code for code, type_ in enumerate(types)}
        by_kind: dict[Kind, tuple[list[Value | None], list[Value | None]]] = {}
        for position, known in enumerate(statistics):
            kinds = set() if known is None else {kind_of(one) for one in (known.min, known.max) if one is not None}
            if known is not None and len(kinds) == 1:
                sides = by_kind.setdefault(kinds.pop(), ([None] * len(statistics), [None] * len(statistics)))
                sides[0][position], sides[1][position] = known.min, known.max
        return cls(
            _flags(statistics),
            types,
            np.array([-1 if known is None else codes[known.type] for known in statistics], np.int16),
            tuple(bound_pair(kind, low, high) for kind, (low, high) in by_kind.items()),
        )

    @classmethod
    def nothing(cls, count: int) -> StatisticsColumns:
        """Unknown statistics for ``count`` containers."""
        return cls(np.zeros(count, np.uint8), (), np.full(count, -1, np.int16), ())

    def has(self, flag: int) -> Mask:
        """Which containers have ``flag``."""
        found: Mask = (self.flags & flag) != 0
        return found

    @cached_property
    def has_bounds(self) -> Mask:
        """Which containers have a bound, or no values at all."""
        found = self.has(ALL_NULL)
        for pair in self.bounds:
            found = found | pair.low.known | pair.high.known
        return found

    def of_types(self, minor_types: Iterable[str]) -> Mask:
        """Which containers hold one of the types."""
        return np.isin(self.type_codes, [code for code, type_ in enumerate(self.types) if type_ in set(minor_types)])

    def take(self, positions: Positions) -> StatisticsColumns:
        """The statistics at ``positions``; -1 gives unknown statistics."""
        codes = np.where(positions < 0, np.int16(-1), take_values(self.type_codes, positions))
        bounds = tuple(pair.take(positions) for pair in self.bounds)
        return StatisticsColumns(take_values(self.flags, positions), self.types, codes, bounds)

    def all_null_where(self, absent: Mask) -> StatisticsColumns:
        """These statistics, with all rows null in the containers ``absent``, which must be unknown so far."""
        if not absent.any():
            return self
        [flags] = _ABSENT.flags
        types = (*self.types, NO_TYPE)
        codes = np.where(absent, np.int16(len(self.types)), self.type_codes)
        return StatisticsColumns(np.where(absent, flags, self.flags), types, codes, self.bounds)

    def at(self, position: int) -> ColumnStatistics | None:
        """The displayed facts of one container: its bounds, and whether all rows are null; None if it is unknown."""
        if not self.flags[position] & KNOWN:
            return None
        low: Value | None = None
        high: Value | None = None
        for pair in self.bounds:
            low = pair.low.at(position) if low is None else low
            high = pair.high.at(position) if high is None else high
        is_null = bool(self.flags[position] & ALL_NULL)
        return ColumnStatistics(self.types[self.type_codes[position]], low, high, non_nulls=0 if is_null else None)

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        return int(
            self.flags.nbytes + self.type_codes.nbytes + sum(pair.low.nbytes + pair.high.nbytes for pair in self.bounds)
        )


def together(parts: Sequence[StatisticsColumns]) -> StatisticsColumns:
    """Joins statistics of the same containers; each container may be known in at most one part."""
    first, *rest = parts
    for part in rest:
        types = tuple(dict.fromkeys((*first.types, *part.types)))
        codes = np.array([*(types.index(type_) for type_ in part.types), -1], np.int16)
        own = np.array([*(types.index(type_) for type_ in first.types), -1], np.int16)
        merged = np.maximum(own[first.type_codes], codes[part.type_codes])
        first = StatisticsColumns(first.flags | part.flags, types, merged, (*first.bounds, *part.bounds))
    return first


def bound_pair(kind: Kind, low: Sequence[Value | None], high: Sequence[Value | None]) -> BoundPair:
    """Lower and upper bounds in one common form."""
    both = bound_array(kind, [*low, *high])
    middle, end = len(low), len(low) + len(high)
    return BoundPair(both.take(np.arange(middle)), both.take(np.arange(middle, end)))


def flags_of_counts(nulls: Any, non_nulls: Any, rows: Any, nans: Any) -> Any:
    """The flags that arrays of counts prove; a count of -1 is unknown."""
    all_null = (non_nulls == 0) | ((nulls >= 0) & (nulls == rows))
    counts_nulls = all_null | (nulls >= 0) | ((rows >= 0) & (non_nulls >= 0))
    no_null = (nulls == 0) | ((rows >= 0) & (rows == non_nulls))
    no_nan = (nans == 0) | all_null
    counts_nans = all_null | (nans >= 0)
    bits = (
        (all_null, ALL_NULL),
        (no_null, NO_NULL),
        (no_nan, NO_NAN),
        (counts_nulls, COUNTS_NULLS),
        (counts_nans, COUNTS_NANS),
    )
    return sum((bit.astype(np.uint8) * np.uint8(flag) for bit, flag in bits), np.uint8(KNOWN))


def _flags(statistics: Sequence[ColumnStatistics | None]) -> Flags:
    counts: list[Any] = [
        np.array([-1 if count is None else min(count, _MOST) for count in column], np.int64)
        for column in (
            [None if known is None else known.nulls for known in statistics],
            [None if known is None else known.non_nulls for known in statistics],
            [None if known is None else known.rows for known in statistics],
            [None if known is None else known.nans for known in statistics],
        )
    ]
    is_known = np.array([known is not None for known in statistics], np.bool_)
    found: Flags = flags_of_counts(*counts) * is_known
    return found


_MOST: Final = 2**63 - 1
_ABSENT: Final = StatisticsColumns.of([ColumnStatistics(NO_TYPE, non_nulls=0)])
"""A column that a file does not have reads as null."""
