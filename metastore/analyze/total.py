"""What the top-level segments of a table come to, and what that becomes when some of them are exchanged.

Place in the flow: a run that makes few of many segments anew takes what the table came to before, subtracts what these
segments came to, and adds what they come to now. So the other segments' units are not even read, and an increment costs
what has changed, however large the table is. Promise: the result is that of adding up all segments (a property test
compares); where that cannot be told without the others, there is none, and they are added up.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa

from metastore.analyze.parts import Directories, Part, segment_parts, statistics_of
from metastore.model.column_path import parse
from metastore.model.drill_types import FLOAT_TYPES, NO_TYPE
from metastore.model.statistics import ColumnStatistics, Value, merge
from metastore.model.tuple_schema import TupleSchema

_Parts = Mapping[Directories, Part]


@dataclass(frozen=True)
class Total:
    """All top-level segments added up; ``alike`` tells that every one has the schema of all."""

    part: Part
    alike: bool

    @classmethod
    def added(cls, tops: Sequence[Part]) -> Total:
        """The total of ``tops``; for none, no rows."""
        part = Part.added((), tops)
        return cls(part, all(top.schema == part.schema for top in tops))

    @classmethod
    def stored(cls, unit: pa.Table, *, alike: bool) -> Total:
        """From a stored TABLE unit whose partition columns are called like no other of its columns."""
        [part] = segment_parts(unit)
        partition_columns = {name for name, _ in unit["partitionKeys"][0].as_py() or ()}
        own = (column for column in part.schema.columns if column.name not in partition_columns)
        return cls(replace(part, schema=TupleSchema(tuple(own), part.schema.properties)), alike)

    def exchanged(self, before: Iterable[Part], after: Iterable[Part]) -> Total | None:
        """The total when ``after`` are in the place of ``before``; None if it cannot be told without the others."""
        gone, come = {part.directories: part for part in before}, {part.directories: part for part in after}
        if not self._keeps_schema(gone, come) or not _counts_everything([self.part, *gone.values(), *come.values()]):
            return None
        newest, newest_gone = (max((part.modified for part in parts.values()), default=0) for parts in (come, gone))
        if newest < self.part.modified <= newest_gone:
            return None
        try:
            statistics = {
                key: _exchanged(known, *(_merged(parts, key) for parts in (gone, come)))
                for key, known in self.part.statistics.items()
            }
        except _UndecidedError:
            return None
        rows = self.part.rows + sum(part.rows for part in come.values()) - sum(part.rows for part in gone.values())
        part = replace(self.part, statistics=statistics, rows=rows, modified=max(newest, self.part.modified))
        return replace(self, part=part)

    def _keeps_schema(self, gone: _Parts, come: _Parts) -> bool:
        """Whether the merged schema stays for certain, and :attr:`alike` with it.

        A segment in the place of another must have its schema, a new one that of the table. When a segment goes and
        none comes, columns may go with it, or change their order, unless all segments are alike.
        """
        for directories, part in come.items():
            model = gone.get(directories, self.part)
            if part.schema != model.schema or part.statistics.keys() != model.statistics.keys():
                return False
        return self.alike or gone.keys() <= come.keys()


class _UndecidedError(Exception):
    """It cannot be told without the segments that stay."""


def _counts_everything(parts: Iterable[Part]) -> bool:
    """Whether all rows are counted exactly, and nothing is told that cannot be subtracted."""
    return all(part.whole and not part.descriptions for part in parts)


def _merged(parts: _Parts, key: str) -> ColumnStatistics:
    return merge(statistics_of(part, key, parse(key)) for part in parts.values())


def _exchanged(known: ColumnStatistics, gone: ColumnStatistics, come: ColumnStatistics) -> ColumnStatistics:
    """A column's statistics with ``come`` in the place of ``gone``.

    Raises _UndecidedError where those of others are needed to tell them.
    """
    if not {gone.type, come.type} <= {known.type, NO_TYPE}:
        raise _UndecidedError
    left = replace(
        known,
        nulls=_left(known.nulls, gone.nulls, come.nulls),
        non_nulls=_left(known.non_nulls, gone.non_nulls, come.non_nulls),
        rows=_left(known.rows, gone.rows, come.rows),
        nans=_left(_nans(known), _nans(gone), _nans(come)),
    )
    if not _is_bounded(left):
        return merge([replace(left, min=None, max=None), come])
    if not all(_is_settled(known, gone, come, bound, is_beyond) for bound, is_beyond in _SIDES):
        raise _UndecidedError
    return merge([left, come])


def _left(known: int | None, gone: int | None, come: int | None) -> int | None:
    """How many there are in others, where that is asked for: with an unknown number, the sum is unknown anyway."""
    if come is None or (known is None and gone is not None):
        return None
    if known is None or gone is None or known < gone:
        raise _UndecidedError
    return known - gone


def _nans(known: ColumnStatistics) -> int | None:
    return known.nans if known.type in FLOAT_TYPES and known.non_nulls != 0 else 0


def _is_bounded(known: ColumnStatistics) -> bool:
    """Whether there may be a value that has an order."""
    return known.non_nulls is None or known.non_nulls != _nans(known)


_Bound = Callable[[ColumnStatistics], tuple[Value | None, bool]]
_Order = Callable[[Any, Any], bool]
_SIDES: Final[Sequence[tuple[_Bound, _Order]]] = (
    (attrgetter("min", "min_exact"), operator.lt),
    (attrgetter("max", "max_exact"), operator.gt),
)


def _is_settled(
    known: ColumnStatistics, gone: ColumnStatistics, come: ColumnStatistics, bound: _Bound, is_beyond: _Order
) -> bool:
    """Whether the bound of all is certain: that of ``come``, or the ``known`` one, which others reach too."""
    (value, exact), (lost, _), (found, found_exact) = map(bound, (known, gone, come))
    if found is None and _is_bounded(come):
        return True  # unknown, whatever the others have
    if value is None:
        return False
    try:
        if lost is None or is_beyond(value, lost):
            return True
        return found is not None and (is_beyond(found, value) or (found == value and (found_exact or not exact)))
    except TypeError:  # a local date-time beside one in UTC
        return False
