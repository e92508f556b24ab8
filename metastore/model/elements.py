"""Paths and statistics of what lists and maps hold: elements, keys and values. Pure.

They stand among the column statistics under a path of their own: the path of the list or map, and one more segment.
ANALYZE writes them, pruning reads them, and no reader of columns asks for them. Only lists and maps of plain values
have them, also inside structs; what is nested deeper has none.

Promises: bounds contain every element that is not null. Counts are unknown, but for "no value at all": writers disagree
on how null lists, empty lists and null elements count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from metastore.model.column_path import ColumnPath
from metastore.model.drill_types import FLOAT_TYPES, INTEGER_TYPES, DrillType, minor_type, parse_type
from metastore.model.statistics import ColumnStatistics

ELEMENT: Final = "[element]"
KEY: Final = "[key]"
VALUE: Final = "[value]"

_SEGMENTS: Final = {"ARRAY": (ELEMENT,), "MAP": (KEY, VALUE)}
_COMPARED: Final = frozenset({*INTEGER_TYPES, *FLOAT_TYPES, "VARDECIMAL", "VARCHAR", "DATE"})
"""Minor types with one order in every engine. Times are missing: a schema does not say the zone of elements."""


def segments_of(container: str) -> Sequence[str]:
    """The last segments of the paths inside a type by its name; none if it is no list and no map."""
    return _SEGMENTS.get(container, ())


def has_order(minor: str) -> bool:
    """Whether elements of a minor type have bounds."""
    return minor in _COMPARED


def elements_of(path: ColumnPath, type_: DrillType) -> Iterator[tuple[ColumnPath, DrillType]]:
    """The paths inside the list or map at ``path``, with their types; only those that can have bounds."""
    for segment, part in zip(segments_of(type_.name), type_.parts, strict=False):
        if has_order(minor_type(str(part))):
            yield (*path, segment), part


def with_elements(leaves: Iterable[tuple[ColumnPath, str]]) -> Iterator[tuple[ColumnPath, str]]:
    """``leaves`` with their SQL types, each followed by the paths inside it."""
    for path, type_ in leaves:
        yield path, type_
        yield from ((inside, str(part)) for inside, part in elements_of(path, parse_type(type_)))


def is_element(path: ColumnPath) -> bool:
    """Whether ``path`` is that of elements, keys or values."""
    return len(path) > 1 and path[-1] in (ELEMENT, KEY, VALUE)


def of_elements(statistics: ColumnStatistics) -> ColumnStatistics:
    """``statistics`` without counts, except that there is no value."""
    return replace(statistics, nulls=None, non_nulls=0 if statistics.non_nulls == 0 else None, rows=None)
