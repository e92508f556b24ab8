"""What pruning decided: which segments, files and row groups are to be read, and the reason for each decision.

Plain values without I/O. Reasons are kept as causes and become text when read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from metastore.predicates.columns import PredicateColumn
from metastore.pruning.decided_files import KeptFiles, SkippedFiles
from metastore.pruning.evaluate import Exclusion


@dataclass(frozen=True)
class Count:
    """How many there are, and how many of them are to be read."""

    total: int
    kept: int

    @property
    def skipped(self) -> int:
        """How many need not be read."""
        return self.total - self.kept


@dataclass(frozen=True)
class SegmentDecision:
    """One segment; ``exclusion`` says why none of its files, as analyzed, holds a row. Changed and new ones may."""

    identifier: str
    exclusion: Exclusion | None

    @property
    def kept(self) -> bool:
        """True if rows may match."""
        return self.exclusion is None

    @property
    def reason(self) -> str:
        """Why it is skipped, or that it may match."""
        return "may match" if self.exclusion is None else str(self.exclusion)


@dataclass(frozen=True)
class PruneResult:
    """The decision over a whole table.

    ``files`` are all that must be read; ``files.table`` has them as Arrow columns.
    ``files_count`` counts the files that exist now; ``row_groups_count`` those
    that are known, so of unchanged files; ``bytes_count`` is None where a size is not known. ``unknown`` files were not
    there at ANALYZE, ``changed`` ones have another size or time since, ``missing`` ones are gone (and need no reading).
    ``directory_columns`` are those that the question could name, of the types that the decision took them to have.
    """

    predicate: str
    notes: Sequence[str]
    segments: Sequence[SegmentDecision]
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
    """Number of files skipped with their segment, by what excluded the segment."""
    row_groups_skipped_by: Mapping[str, int] = field(default_factory=dict)
    """Number of row groups that are left out of kept files, by what excluded them, the most effective first."""

    @property
    def paths(self) -> list[str]:
        """Paths of all files that must be read."""
        return self.files.paths

    @property
    def segments_count(self) -> Count:
        """Segments in all, and those that may match."""
        return Count(len(self.segments), sum(segment.kept for segment in self.segments))

    @cached_property
    def skipped_by(self) -> Mapping[str, int]:
        """Number of skipped files by the part of the predicate that excluded them, the most effective first."""
        counts = Counter(self.skipped_in_segments)
        counts.update(self.skipped_files.by_tests)
        return dict(counts.most_common())
