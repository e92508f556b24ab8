"""The result of pruning: which segments, files and row groups to read, and the reason for each decision.

Plain values without I/O. Reasons are kept as causes and become text when read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import overload

from metastore.ground.notebook import grid
from metastore.predicates.columns import PredicateColumn
from metastore.scan.pruning.decided_files import KeptFiles, SkippedFiles
from metastore.scan.pruning.evaluate import Exclusion, Exclusions


@dataclass(frozen=True)
class Count:
    """A total, and how many of it must be read."""

    total: int
    kept: int

    @property
    def skipped(self) -> int:
        """The number that need not be read."""
        return self.total - self.kept


@dataclass(frozen=True)
class SegmentDecision:
    """One segment; ``exclusion`` says why no analyzed file has a matching row. Changed and new files may have one."""

    identifier: str
    exclusion: Exclusion | None

    @property
    def may_match(self) -> bool:
        """True if rows may match."""
        return self.exclusion is None

    @property
    def reason(self) -> str:
        """Why the segment is skipped, or that it may match."""
        return "may match" if self.exclusion is None else str(self.exclusion)


class SegmentDecisions(Sequence[SegmentDecision]):
    """The segments in the order of the metadata; each is made on access."""

    def __init__(self, identifiers: Sequence[str], excluded: Exclusions) -> None:
        self._identifiers = identifiers
        self._excluded = excluded

    def __len__(self) -> int:
        return len(self._identifiers)

    @overload
    def __getitem__(self, which: int) -> SegmentDecision: ...
    @overload
    def __getitem__(self, which: slice) -> list[SegmentDecision]: ...
    def __getitem__(self, which: int | slice) -> SegmentDecision | list[SegmentDecision]:
        if isinstance(which, slice):
            return [self[position] for position in range(*which.indices(len(self)))]
        position = range(len(self))[which]
        is_excluded = self._excluded.codes[position] >= 0
        return SegmentDecision(self._identifiers[position], self._excluded.why(position) if is_excluded else None)

    @property
    def kept_count(self) -> int:
        """The number of segments that may match."""
        return len(self) - int(self._excluded.mask.sum())


@dataclass(frozen=True)
class PruneResult:
    """The decision over a whole table.

    * ``files`` are all files that must be read; ``files.table`` has them as Arrow columns.
    * ``files_count`` counts the files that exist now, ``row_groups_count`` the row groups of unchanged files.
      ``bytes_count`` is None if a size is unknown.
    * ``unknown`` files were not there at ANALYZE. ``changed`` files have another size or time since. ``missing`` files
      are gone and need no reading.
    * ``directory_columns`` are the directory columns that the question could name, with the types used for the
      decision.
    """

    predicate: str
    notes: Sequence[str]
    segments: SegmentDecisions
    files: KeptFiles
    skipped_files: SkippedFiles
    files_count: Count
    row_groups_count: Count
    bytes_count: Count | None
    directory_columns: Sequence[PredicateColumn] = field(default=(), repr=False)
    unknown: Sequence[str] = ()
    changed: Sequence[str] = ()
    missing: Sequence[str] = ()
    skipped_in_segments: Mapping[str, int] = field(default_factory=dict)
    """Number of files skipped with their segment, by the tests that excluded the segment."""
    row_groups_skipped_by: Mapping[str, int] = field(default_factory=dict)
    """Number of row groups left out of kept files, by the tests that excluded them, the most effective first."""

    @property
    def paths(self) -> list[str]:
        """Paths of all files that must be read."""
        return self.files.paths

    @property
    def segments_count(self) -> Count:
        """The number of all segments, and of those that may match."""
        return Count(len(self.segments), self.segments.kept_count)

    @cached_property
    def skipped_by(self) -> Mapping[str, int]:
        """Number of skipped files by the tests that excluded them, the most effective first."""
        counts = Counter(self.skipped_in_segments)
        counts.update(self.skipped_files.by_tests)
        return dict(counts.most_common())

    def _repr_html_(self) -> str:
        """The output of `metastore prune` for a notebook."""
        counted = (
            ("segments", self.segments_count),
            ("files", self.files_count),
            ("row groups", self.row_groups_count),
            ("bytes", self.bytes_count),
        )
        rows = [(name, count.kept, count.total, _share(count)) for name, count in counted if count is not None]
        notes = [f"{count:,} files skipped by {test}" for test, count in self.skipped_by.items()]
        notes += [f"note: {note}" for note in self.notes]
        return grid(f"where {self.predicate}", ("", "to read", "of", "skipped"), rows, notes)


def _share(count: Count) -> str:
    return f"{100 * count.skipped / count.total:.1f}%" if count.total else "–"
