"""Explains a scan: what it reads, what it skips, and why. As values for programs, as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metastore.ground.notebook import lines
from metastore.scan.plan import ScanPlan
from metastore.scan.pruning.result import Count

_MOST_LISTED = 10


@dataclass(frozen=True)
class Explanation:
    """The decisions of a scan. ``used_metastore`` is False if no existing file is covered by the metadata.

    ``segments`` counts the segments of ANALYZE, ``files`` the existing files, ``row_groups`` those of unchanged files.
    ``skipped_by`` is the number of files that each part of the question excluded. ``read_in_doubt`` are files that are
    read because they are new or changed. ``notes`` lists the parts of the question that could not be used.
    """

    table: str
    predicate: str
    used_metastore: bool
    segments: Count
    files: Count
    row_groups: Count
    skipped_by: Mapping[str, int]
    read: Mapping[str, str]
    """The path of each file that is read, with the reason and the remaining row groups."""
    read_in_doubt: Sequence[str]
    notes: Sequence[str]

    def _repr_html_(self) -> str:
        """Show the text in a notebook."""
        return lines(str(self))

    @classmethod
    def of(cls, plan: ScanPlan) -> Explanation:
        """Create the explanation of ``plan``."""
        pruned = plan.pruned
        doubtful = {*pruned.unknown, *pruned.changed}
        return cls(
            str(plan.table),
            "" if plan.question is None else pruned.predicate,
            pruned.files_count.total > len(doubtful) or not pruned.files_count.total,
            pruned.segments_count,
            pruned.files_count,
            pruned.row_groups_count,
            pruned.skipped_by,
            {
                file.path: file.reason if file.row_groups is None else f"{file.reason}; {_groups(file.row_groups)}"
                for file in plan.files
            },
            [path for path in pruned.paths if path in doubtful],
            pruned.notes,
        )

    def __str__(self) -> str:
        """Several lines for people; files and row groups are named up to a limit."""
        lines = [
            f"Scan(table={self.table}, usedMetastore={str(self.used_metastore).lower()})",
            f"  predicate: {self.predicate or 'none'}",
            f"  segments:   {format_count(self.segments)}",
            f"  files:      {format_count(self.files)}",
            f"  row groups: {format_count(self.row_groups)}",
        ]
        if self.skipped_by:
            lines.append("  skipped by:")
            lines += format_lines([f"{number} files: {test}" for test, number in self.skipped_by.items()])
        if self.read:
            lines.append("  read:")
            lines += format_lines([f"{path}: {reason}" for path, reason in self.read.items()])
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


def _groups(groups: Sequence[int]) -> str:
    return f"row group{'s' if len(groups) > 1 else ''} {', '.join(map(str, groups))}"


def format_count(count: Count) -> str:
    """Return a count as text."""
    return f"{count.kept} of {count.total} read, {count.skipped} skipped"


def format_lines(lines: Sequence[str]) -> list[str]:
    """Return the first ``lines``, indented, and the number of further ones."""
    more = len(lines) - _MOST_LISTED
    return [f"    {line}" for line in lines[:_MOST_LISTED]] + ([f"    … and {more} more"] if more > 0 else [])
