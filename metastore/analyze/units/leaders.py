"""Tracks which top-level segments have a column's outermost bounds, so that the table's bound survives their removal.

Place in the flow: a table's unit keeps a few leaders for each side of each column
(:mod:`metastore.analyze.units.total`). Leaders leave when their segments are removed, as the oldest day often is, or
rebuilt. The remaining leaders then give the table's bounds, and no other segment need be opened. Only if all leaders
of a side have left are all segments ranked again. Promise: no segment outside the leaders reaches further than the last
leader (a property test compares).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any, Final, NamedTuple

from metastore.model.statistics import ColumnStatistics, Value, merge, parse_many

_KEPT: Final = 4
"""Leaders of a side. With more, a ranking lasts longer; each takes some 100 bytes of the table's unit."""

_SIDES: Final = (False, True)
"""The low side and the high side; True is the high side."""

OfSegments = Mapping[str, ColumnStatistics]
"""Statistics of one column, by segment key."""


class Leader(NamedTuple):
    """The bound of the segment ``key``."""

    key: str
    bound: Value
    exact: bool


Ranking = tuple[Leader, ...]
"""The furthest bound comes first; of equal bounds, an exact one. Ties are settled by key, not by order of arrival."""


@dataclass(frozen=True)
class Leaders:
    """The leaders of one column. A side is empty if it has no bound, or if its leaders are not known any more."""

    lows: Ranking = ()
    highs: Ranking = ()

    @classmethod
    def of_all(cls, segments: OfSegments, type_: str) -> Leaders:
        """Ranks every segment of a table whose column is of ``type_``."""
        return cls(*(_first(_bounds(segments, type_, high), high) for high in _SIDES))

    def exchange_segments(self, gone: Collection[str], come: OfSegments, type_: str) -> Leaders:
        """The leaders when ``come`` replace the segments ``gone``."""
        low, high = (_bounds(come, type_, high) for high in _SIDES)
        return Leaders(_exchange_ranking(self.lows, gone, low, False), _exchange_ranking(self.highs, gone, high, True))

    def to_json(self, type_: str) -> dict[str, list[str]]:
        """A JSON object: the keys, and one text of statistics for each pair of a low and a high leader's bounds."""
        return {
            "low": [leader.key for leader in self.lows],
            "high": [leader.key for leader in self.highs],
            "bounds": [_text(type_, low, high) for low, high in zip_longest(self.lows, self.highs)],
        }


def leaders_in(columns: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, Leaders]:
    """The leaders by column name, from the form of :meth:`Leaders.to_json`."""
    bounds = iter(parse_many([text for column in columns.values() for text in column["bounds"]]))
    found = {}
    for name, column in columns.items():
        own = [one for one in islice(bounds, len(column["bounds"])) if one is not None]
        lows, highs = (dict(zip(column[side], own, strict=False)) for side in ("low", "high"))
        found[name] = Leaders(tuple(_bounds(lows, None, False)), tuple(_bounds(highs, None, True)))
    return found


def _text(type_: str, low: Leader | None, high: Leader | None) -> str:
    bounds: dict[str, Any] = {}
    if low is not None:
        bounds |= {"min": low.bound, "min_exact": low.exact}
    if high is not None:
        bounds |= {"max": high.bound, "max_exact": high.exact}
    return ColumnStatistics(type_, **bounds).to_json()


def _bounds(segments: OfSegments, type_: str | None, high: bool) -> list[Leader]:
    """The bounds of the ``segments`` that have one, as values of ``type_``; None leaves values as they are."""
    leaders = []
    for key, own in segments.items():
        known = own
        if type_ is not None and type_ != own.type:
            known = merge([own, ColumnStatistics(type_, nulls=0, non_nulls=0, rows=0)])
        bound, exact = (known.max, known.max_exact) if high else (known.min, known.min_exact)
        if bound is not None:
            leaders.append(Leader(key, bound, exact))
    return leaders


def _first(leaders: Sequence[Leader], high: bool) -> Ranking:
    """The first leaders in order; none if values have no common order (local and UTC date-times).

    No bound exists then.
    """
    try:
        return tuple(sorted(leaders, key=lambda leader: (*_rank(leader, high), leader.key), reverse=high)[:_KEPT])
    except TypeError:
        return ()


def _exchange_ranking(ranking: Ranking, gone: Collection[str], come: Sequence[Leader], high: bool) -> Ranking:
    """The known leaders without ``gone``, and those of ``come`` that reach as far as the last known leader.

    Unknown segments reach no further than that one, so the ranking is certain up to there.
    """
    if not ranking:
        return ()
    try:
        reaching = [leader for leader in come if _reaches(leader, ranking[-1], high)]
    except TypeError:
        return ()
    return _first([*(leader for leader in ranking if leader.key not in gone), *reaching], high)


def _reaches(leader: Leader, limit: Leader, high: bool) -> bool:
    rank, of_limit = _rank(leader, high), _rank(limit, high)
    return bool(rank >= of_limit if high else rank <= of_limit)


def _rank(leader: Leader, high: bool) -> tuple[Any, bool]:
    return leader.bound, leader.exact is high
