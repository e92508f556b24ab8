"""What pruning decided: which segments, files and row groups are to be read, and the reason for each decision.

Plain values without I/O. Reasons are kept as causes and become text when read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from metastore.notebook import grid
from metastore.predicates.columns import PredicateColumn
from metastore.pruning.evaluate import Exclusion

_NOTHING: Final[Mapping[int, Exclusion]] = {}
"""One for all: most files have no such row groups, and there may be a million of them."""


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


@dataclass(frozen=True, slots=True)
class KeptFile:
    """One file to read: all of it, or the row groups of ``row_groups`` (ascending) only.

    ``schema`` is the file's in Drill's JSON; None for files that are new or have changed.
    """

    path: str
    row_groups: tuple[int, ...] | None
    reason: str
    size: int | None = None
    skipped_row_groups: Mapping[int, Exclusion] = field(default_factory=lambda: _NOTHING, compare=False, repr=False)
    schema: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """One file not to read, decided by its own statistics or directories; files of skipped segments are not listed."""

    path: str
    exclusion: Exclusion

    @property
    def reason(self) -> str:
        """Why no row of it matches."""
        return str(self.exclusion)


@dataclass(frozen=True)
class PruneResult:
    """The decision over a whole table.

    ``files`` are all that must be read. ``files_count`` counts the files that exist now; ``row_groups_count`` those
    that are known, so of unchanged files; ``bytes_count`` is None where a size is not known. ``unknown`` files were not
    there at ANALYZE, ``changed`` ones have another size or time since, ``missing`` ones are gone (and need no reading).
    ``directory_columns`` are those that the question could name, of the types that the decision took them to have.
    """

    predicate: str
    notes: Sequence[str]
    segments: Sequence[SegmentDecision]
    files: Sequence[KeptFile]
    skipped_files: Sequence[SkippedFile]
    files_count: Count
    row_groups_count: Count
    bytes_count: Count | None
    directory_columns: Sequence[PredicateColumn] = field(default=(), repr=False)
    unknown: Sequence[str] = ()
    changed: Sequence[str] = ()
    missing: Sequence[str] = ()
    skipped_in_segments: Mapping[str, int] = field(default_factory=dict)
    """Number of files skipped with their segment, by what excluded the segment."""

    @property
    def paths(self) -> list[str]:
        """Paths of all files that must be read."""
        return [file.path for file in self.files]

    @property
    def segments_count(self) -> Count:
        """Segments in all, and those that may match."""
        return Count(len(self.segments), sum(segment.kept for segment in self.segments))

    @cached_property
    def skipped_by(self) -> Mapping[str, int]:
        """Number of skipped files by the part of the predicate that excluded them, the most effective first."""
        counts = Counter(self.skipped_in_segments)
        counts.update(skipped.exclusion.tests for skipped in self.skipped_files)
        return dict(counts.most_common())

    def _repr_html_(self) -> str:
        """The screen of `metastore prune` as a notebook shows it."""
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
