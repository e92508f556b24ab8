"""What the top-level segments of a table come to, and what that becomes when some of them are exchanged.

Place in the flow: a run that makes few of many segments anew takes what the table came to before, subtracts what these
segments came to, and adds what they come to now; bounds that go with them are those of the segments that follow
(:mod:`metastore.analyze.units.leaders`). So the other segments' units are not even read, and an increment costs what
has changed, however large the table is. Promise: the result is that of adding up all segments (a property test
compares); where that cannot be told without the others, there is none, and they are added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import pyarrow as pa

from metastore.analyze.states import SegmentStates, short_states
from metastore.analyze.units.leaders import Leaders, OfSegments, leaders_in
from metastore.analyze.units.partial_aggregates import Part, segment_parts, statistics_of
from metastore.model.column_path import parse
from metastore.model.drill_types import FLOAT_TYPES, NO_TYPE
from metastore.model.identity import metadata_key
from metastore.model.statistics import ColumnStatistics, merge
from metastore.model.tuple_schema import TupleSchema

_Parts = Mapping[str, Part]
"""Top-level segments by key."""

_MODIFIED: Final = "lastModifiedTime"
"""Leads like a column; columns' names have backticks."""

_TIME: Final = "BIGINT"


@dataclass(frozen=True)
class Total:
    """All top-level segments added up; ``alike`` tells that every one has the schema of all.

    ``leaders`` are those of each column, and of the time of modification.
    """

    part: Part
    alike: bool
    leaders: Mapping[str, Leaders]

    @classmethod
    def added(cls, tops: Sequence[Part]) -> Total:
        """The total of ``tops``; for none, no rows."""
        part, by_key = Part.added((), tops), _by_key(tops)
        alike = all(top.schema == part.schema for top in tops)
        if not _counts_everything([part]):
            return cls(part, alike, {})  # Nothing will be subtracted from it, so nobody asks who leads.
        leaders = {key: Leaders.of_all(_column(by_key, key), known.type) for key, known in part.statistics.items()}
        leaders[_MODIFIED] = Leaders.of_all(_times(by_key), _TIME)
        return cls(part, alike, leaders)

    @classmethod
    def stored(cls, unit: pa.Table, told: SegmentStates) -> Total:
        """From a stored TABLE unit whose partition columns are called like no other of its columns."""
        [part] = segment_parts(unit)
        partition_columns = {name for name, _ in unit["partitionKeys"][0].as_py() or ()}
        own = (column for column in part.schema.columns if column.name not in partition_columns)
        schema = TupleSchema(tuple(own), part.schema.properties)
        return cls(replace(part, schema=schema), told.alike, leaders_in(told.leaders))

    def segment_states(self, states: Mapping[str, str | None]) -> SegmentStates:
        """What :meth:`stored` asks for beside the unit, when the segments are in ``states``."""
        types = {_MODIFIED: _TIME} | {key: known.type for key, known in self.part.statistics.items()}
        leaders = {key: known.to_json(types[key]) for key, known in self.leaders.items()}
        return SegmentStates(short_states(states), self.alike, leaders)

    def exchanged(self, before: Iterable[Part], after: Iterable[Part]) -> Total | None:
        """The total when ``after`` are in the place of ``before``; None if it cannot be told without the others."""
        gone, come = _by_key(before), _by_key(after)
        if not self._keeps_schema(gone, come) or not _counts_everything([self.part, *gone.values(), *come.values()]):
            return None
        times = self.leaders.get(_MODIFIED, Leaders()).exchanged(gone.keys() | come.keys(), _times(come), _TIME)
        if not times.highs:
            return None
        statistics: dict[str, ColumnStatistics] = {}
        leaders = {_MODIFIED: times}
        try:
            for key, known in self.part.statistics.items():
                ranked = self.leaders.get(key, Leaders())
                statistics[key], leaders[key] = _exchanged(known, ranked, _column(gone, key), _column(come, key))
        except _UndecidedError:
            return None
        rows = self.part.rows + sum(part.rows for part in come.values()) - sum(part.rows for part in gone.values())
        part = replace(self.part, statistics=statistics, rows=rows, modified=cast("int", times.highs[0].bound))
        return replace(self, part=part, leaders=leaders)

    def _keeps_schema(self, gone: _Parts, come: _Parts) -> bool:
        """Whether the merged schema stays for certain, and :attr:`alike` with it.

        A segment in the place of another must have its schema, a new one that of the table. When a segment goes and
        none comes, columns may go with it, or change their order, unless all segments are alike.
        """
        for key, part in come.items():
            model = gone.get(key, self.part)
            if part.schema != model.schema or part.statistics.keys() != model.statistics.keys():
                return False
        return self.alike or gone.keys() <= come.keys()


class _UndecidedError(Exception):
    """It cannot be told without the segments that stay."""


def _by_key(tops: Iterable[Part]) -> _Parts:
    return {metadata_key(top.directories): top for top in tops}


def _column(parts: _Parts, key: str) -> OfSegments:
    path = parse(key)
    return {name: statistics_of(part, key, path) for name, part in parts.items()}


def _counts_everything(parts: Iterable[Part]) -> bool:
    """Whether all rows are counted exactly, and every figure can be subtracted."""
    return all(part.whole and not part.descriptions for part in parts)


def _exchanged(
    known: ColumnStatistics, leaders: Leaders, gone: OfSegments, come: OfSegments
) -> tuple[ColumnStatistics, Leaders]:
    """A column's statistics and leaders with ``come`` in the place of ``gone``.

    Raises _UndecidedError where those of others are needed to tell them.
    """
    lost, found = merge(gone.values()), merge(come.values())
    if not {lost.type, found.type} <= {known.type, NO_TYPE}:
        raise _UndecidedError
    left = replace(
        known,
        nulls=_left(known.nulls, lost.nulls, found.nulls),
        non_nulls=_left(known.non_nulls, lost.non_nulls, found.non_nulls),
        rows=_left(known.rows, lost.rows, found.rows),
        nans=_left(_nans(known), _nans(lost), _nans(found)),
    )
    if not _is_bounded(left):
        return merge([replace(left, min=None, max=None), found]), Leaders.of_all(come, known.type)
    following = leaders.exchanged(gone.keys() | come.keys(), come, known.type)
    sides = (("min", "min_exact", following.lows), ("max", "max_exact", following.highs))
    bounds: dict[str, Any] = {}
    for bound, exact, ranking in sides:
        if getattr(found, bound) is None and _is_bounded(found):
            continue  # unknown, whatever the others have
        if getattr(known, bound) is None or not ranking:
            raise _UndecidedError
        bounds |= {bound: ranking[0].bound, exact: ranking[0].exact}
    return merge([replace(left, **bounds), found]), following


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


def _times(parts: _Parts) -> OfSegments:
    return {name: ColumnStatistics(_TIME, part.modified, part.modified) for name, part in parts.items()}
