"""What is left of a directory's files when some of them go, without adding up all that stay.

Place in the flow: an incremental run keeps most files of a segment. Counts of those that go are subtracted from the
segment's. A bound stays if no file that goes has reached it, or if one that stays is found to reach it as well; only
where that fails, the column is added up anew. Promise: the result is that of adding up (a property test compares).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from metastore.analyze.units.parts import (
    Part,
    column_statistics,
    file_parts,
    file_statistics,
    row_counts,
    schema_of,
)
from metastore.analyze.units.unit_rows import values
from metastore.mapping.runs import together
from metastore.model.drill_types import FLOAT_TYPES
from metastore.model.statistics import ColumnStatistics, merge
from metastore.sources.directories import directories_of


@dataclass(frozen=True)
class Before:
    """What was known of some segments, by key: the segments themselves, and FILE rows that are true no more."""

    segments: Mapping[str, Part]
    gone: Mapping[str, pa.Table]

    @classmethod
    def of(cls, segments: Mapping[str, Part], gone: pa.Table) -> Before:
        """From parts of top-level segments, and FILE rows."""
        return cls(segments, together(gone, "metadataKey"))

    def remaining(self, key: str, kept: pa.Table, root: str) -> list[Part]:
        """The parts of the segment's files that stay, of which ``kept`` are the FILE rows."""
        segment, gone = self.segments.get(key), self.gone.get(key, kept.slice(0, 0))
        if segment is None or not kept.num_rows or not _is_plain(segment, pa.concat_tables([gone, kept]), root):
            return file_parts(kept, root)
        return [_remaining(segment, gone, kept)]


def _remaining(segment: Part, gone: pa.Table, files: pa.Table) -> Part:
    lost = file_statistics(gone)
    return Part(
        segment.directories,
        segment.schema,
        {
            key: _left(known, [of_file.get(key) for of_file in lost], files, key)
            for key, known in segment.statistics.items()
        },
        segment.rows - sum(row_counts(gone)),
        pc.max(files["lastModifiedTime"]).as_py(),
        sorted(values(files, "path")),
    )


def _is_plain(segment: Part, files: pa.Table, root: str) -> bool:
    """Whether all ``files`` are of one directory and schema, and the segment's, so that each says the same things."""
    places, schemas = pc.unique(files["location"]).to_pylist(), pc.unique(files["schema"]).to_pylist()
    return (
        len(places) == len(schemas) == 1
        and directories_of(f"{places[0]}/", root) == segment.directories
        and schema_of(schemas[0]) == segment.schema
        and len(segment.files) == files.num_rows
        and segment.whole
        and not segment.descriptions
    )


def _left(
    known: ColumnStatistics, lost: Sequence[ColumnStatistics | None], files: pa.Table, key: str
) -> ColumnStatistics:
    """A column's statistics over ``files``; those of ``lost`` ones with them are the ``known`` ones."""
    looked_at: list[ColumnStatistics] = []
    gone = [one for one in lost if one is not None and one.type == known.type]
    questions = _questions(known, gone) if len(gone) == len(lost) else None
    if questions == []:
        return _without(known, gone)
    for some in (files.slice(0, _FEW), files.slice(_FEW)):
        for one in column_statistics(some, key):
            if one is None:
                continue
            looked_at.append(one)
            if questions:
                questions = [question for question in questions if not question(one)]
                if not questions:
                    return _without(known, gone)
    return merge(looked_at)


_FEW: Final = 4
"""Files looked at first: most have what many have."""

_Question = Callable[[ColumnStatistics], bool]


def _questions(known: ColumnStatistics, gone: Sequence[ColumnStatistics]) -> list[_Question] | None:
    """What some file that stays must answer with yes, so that subtracting is right; None if it cannot be."""
    values = known.non_nulls
    if known.nulls is None or values is None or known.min is None or known.max is None:
        return None
    for one in gone:
        if one.nulls is None or one.non_nulls is None:
            return None
        values -= one.non_nulls
    low, high = known.min, known.max
    questions: list[_Question] = []
    if any(one.min is not None and not _is_less(low, one.min) for one in gone):
        questions.append(lambda one: one.min == low and (one.min_exact or not known.min_exact))
    if any(one.max is not None and not _is_less(one.max, high) for one in gone):
        questions.append(lambda one: one.max == high and (one.max_exact or not known.max_exact))
    if known.type in FLOAT_TYPES and known.nans is None:
        questions.append(lambda one: one.nans is None and one.non_nulls != 0)
    elif any(one.nans is None for one in gone) and known.type in FLOAT_TYPES:
        return None
    return questions if values else None


def _is_less(low: Any, high: Any) -> bool:
    return bool(low < high)


def _without(known: ColumnStatistics, gone: Sequence[ColumnStatistics]) -> ColumnStatistics:
    """Counts subtracted, bounds as they are."""
    assert known.nulls is not None
    assert known.non_nulls is not None
    nulls = known.nulls - sum(one.nulls or 0 for one in gone)
    non_nulls = known.non_nulls - sum(one.non_nulls or 0 for one in gone)
    nans = None if known.nans is None else known.nans - sum(one.nans or 0 for one in gone)
    return replace(known, nulls=nulls, non_nulls=non_nulls, rows=nulls + non_nulls, nans=nans)
