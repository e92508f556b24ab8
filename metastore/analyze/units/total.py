"""The sum of a table's top-level segments, and how it changes when some of them are replaced.

Place in the flow: a run that rebuilds a few of many segments starts from the table's earlier total. It subtracts the
old values of these segments and adds the new ones. If a bound goes with a segment, the next segment's bound takes its
place (:mod:`metastore.analyze.units.leaders`). The other segments' units are not read, so the cost of an increment
depends on what changed, not on the table's size. Promise: the result equals the sum of all segments (a property test
compares). If the result cannot be determined without the other segments, there is no total, and all segments are added
up.
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
"""Parts of top-level segments by key."""

_MODIFIED: Final = "lastModifiedTime"
"""Key of the time of modification among the leaders; keys of columns have backquotes, so none is equal."""

_TIME: Final = "BIGINT"


@dataclass(frozen=True)
class Total:
    """All top-level segments added up; ``alike`` means that every segment has the schema of all.

    ``leaders`` holds the leaders of each column, and of the time of modification.
    """

    part: Part
    alike: bool
    leaders: Mapping[str, Leaders]

    @classmethod
    def sum_of(cls, tops: Sequence[Part]) -> Total:
        """The sum of ``tops``; no tops give no rows."""
        part, by_key = Part.sum_of((), tops), _by_key(tops)
        alike = all(top.schema == part.schema for top in tops)
        if not _counts_everything([part]):
            return cls(part, alike, {})  # Nothing will be subtracted from it, so leaders are not needed.
        leaders = {key: Leaders.of_all(_column(by_key, key), known.type) for key, known in part.statistics.items()}
        leaders[_MODIFIED] = Leaders.of_all(_times(by_key), _TIME)
        return cls(part, alike, leaders)

    @classmethod
    def from_unit(cls, unit: pa.Table, states: SegmentStates) -> Total:
        """Reads a stored TABLE unit, whose partition columns must not share a name with its other columns."""
        [part] = segment_parts(unit)
        partition_columns = {name for name, _ in unit["partitionKeys"][0].as_py() or ()}
        own = (column for column in part.schema.columns if column.name not in partition_columns)
        schema = TupleSchema(tuple(own), part.schema.properties)
        statistics = {key: known for key, known in part.statistics.items() if parse(key)[0] not in partition_columns}
        return cls(replace(part, schema=schema, statistics=statistics), states.alike, leaders_in(states.leaders))

    def segment_states(self, states: Mapping[str, str | None]) -> SegmentStates:
        """The states and leaders that :meth:`from_unit` needs beside the unit, for segments in ``states``."""
        types = {_MODIFIED: _TIME} | {key: known.type for key, known in self.part.statistics.items()}
        leaders = {key: known.to_json(types[key]) for key, known in self.leaders.items()}
        return SegmentStates(short_states(states), self.alike, leaders)

    def exchange_segments(self, before: Iterable[Part], after: Iterable[Part]) -> Total | None:
        """The total with ``after`` in place of ``before``.

        Returns None if it cannot be determined without the other segments.
        """
        gone, come = _by_key(before), _by_key(after)
        if not self._keeps_schema(gone, come) or not _counts_everything([self.part, *gone.values(), *come.values()]):
            return None
        times = self.leaders.get(_MODIFIED, Leaders()).exchange_segments(gone.keys() | come.keys(), _times(come), _TIME)
        if not times.highs:
            return None
        statistics: dict[str, ColumnStatistics] = {}
        leaders = {_MODIFIED: times}
        try:
            for key, known in self.part.statistics.items():
                ranked = self.leaders.get(key, Leaders())
                statistics[key], leaders[key] = _exchange_column(known, ranked, _column(gone, key), _column(come, key))
        except _UndecidedError:
            return None
        rows = self.part.rows + sum(part.rows for part in come.values()) - sum(part.rows for part in gone.values())
        part = replace(self.part, statistics=statistics, rows=rows, modified=cast("int", times.highs[0].bound))
        return replace(self, part=part, leaders=leaders)

    def _keeps_schema(self, gone: _Parts, come: _Parts) -> bool:
        """Whether the merged schema and :attr:`alike` certainly stay the same.

        A replaced segment must keep its schema; a new segment must have the table's. A removed segment may take columns
        with it, or change their order, unless all segments are alike.
        """
        for key, part in come.items():
            model = gone.get(key, self.part)
            if part.schema != model.schema or part.statistics.keys() != model.statistics.keys():
                return False
        return self.alike or gone.keys() <= come.keys()


class _UndecidedError(Exception):
    """The result cannot be determined without the unchanged segments."""


def _by_key(tops: Iterable[Part]) -> _Parts:
    return {metadata_key(top.directories): top for top in tops}


def _column(parts: _Parts, key: str) -> OfSegments:
    path = parse(key)
    return {name: statistics_of(part, key, path) for name, part in parts.items()}


def _counts_everything(parts: Iterable[Part]) -> bool:
    """Whether rows are counted exactly and no column is described, so that every figure can be subtracted."""
    return all(part.whole and not part.descriptions for part in parts)


def _exchange_column(
    statistics: ColumnStatistics, leaders: Leaders, gone: OfSegments, come: OfSegments
) -> tuple[ColumnStatistics, Leaders]:
    """A column's statistics and leaders with ``come`` in place of ``gone``.

    Raises _UndecidedError if they depend on the other segments.
    """
    lost, found = merge(gone.values()), merge(come.values())
    if not {lost.type, found.type} <= {statistics.type, NO_TYPE}:
        raise _UndecidedError
    left = replace(
        statistics,
        nulls=_left(statistics.nulls, lost.nulls, found.nulls),
        non_nulls=_left(statistics.non_nulls, lost.non_nulls, found.non_nulls),
        rows=_left(statistics.rows, lost.rows, found.rows),
        nans=_left(_nans(statistics), _nans(lost), _nans(found)),
    )
    if not _is_bounded(left):
        return merge([replace(left, min=None, max=None), found]), Leaders.of_all(come, statistics.type)
    following = leaders.exchange_segments(gone.keys() | come.keys(), come, statistics.type)
    sides = (("min", "min_exact", following.lows), ("max", "max_exact", following.highs))
    bounds: dict[str, Any] = {}
    for bound, exact, ranking in sides:
        if getattr(found, bound) is None and _is_bounded(found):
            continue  # unknown, whatever the other segments have
        if getattr(statistics, bound) is None or not ranking:
            raise _UndecidedError
        bounds |= {bound: ranking[0].bound, exact: ranking[0].exact}
    return merge([replace(left, **bounds), found]), following


def _left(known: int | None, gone: int | None, come: int | None) -> int | None:
    """The count in the other segments; None if the sum is unknown anyway, _UndecidedError if it is not stored."""
    if come is None or (known is None and gone is not None):
        return None
    if known is None or gone is None or known < gone:
        raise _UndecidedError
    return known - gone


def _nans(statistics: ColumnStatistics) -> int | None:
    return statistics.nans if statistics.type in FLOAT_TYPES and statistics.non_nulls != 0 else 0


def _is_bounded(statistics: ColumnStatistics) -> bool:
    """Whether there may be a value that has an order."""
    return statistics.non_nulls is None or statistics.non_nulls != _nans(statistics)


def _times(parts: _Parts) -> OfSegments:
    return {name: ColumnStatistics(_TIME, part.modified, part.modified) for name, part in parts.items()}
