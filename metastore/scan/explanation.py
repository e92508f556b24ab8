"""What a scan reads, what it leaves unread, and why: for programs as values, for people as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metastore.notebook import lines
from metastore.pruning.result import Count
from metastore.scan.plan import ScanPlan

_MOST_LISTED = 10


@dataclass(frozen=True)
class Explanation:
    """How a scan was decided. ``used_metastore`` is False where the metadata speaks for none of the files that exist.

    ``segments`` counts those of ANALYZE, ``files`` the ones that exist, ``row_groups`` those of unchanged files.
    ``skipped_by`` says how many files each part of the question excluded. ``read_in_doubt`` are files that had to be
    read for being new or changed, ``notes`` what of the question could not be used.
    """

    table: str
    predicate: str
    used_metastore: bool
    segments: Count
    files: Count
    row_groups: Count
    skipped_by: Mapping[str, int]
    read: Mapping[str, str]
    """Path of each file that is read, and why, with the row groups that are left of it."""
    read_in_doubt: Sequence[str]
    notes: Sequence[str]

    def _repr_html_(self) -> str:
        """Its text, as a notebook shows it."""
        return lines(str(self))

    @classmethod
    def of(cls, plan: ScanPlan) -> Explanation:
        """What ``plan`` decided."""
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
        lines = [
            f"Scan(table={self.table}, usedMetastore={str(self.used_metastore).lower()})",
            f"  predicate: {self.predicate or 'none'}",
            f"  segments:   {counted(self.segments)}",
            f"  files:      {counted(self.files)}",
            f"  row groups: {counted(self.row_groups)}",
        ]
        if self.skipped_by:
            lines.append("  skipped by:")
            lines += listed([f"{number} files: {test}" for test, number in self.skipped_by.items()])
        if self.read:
            lines.append("  read:")
            lines += listed([f"{path}: {reason}" for path, reason in self.read.items()])
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


def _groups(groups: Sequence[int]) -> str:
    return f"row group{'s' if len(groups) > 1 else ''} {', '.join(map(str, groups))}"


def counted(count: Count) -> str:
    """A count for people."""
    return f"{count.kept} of {count.total} read, {count.skipped} skipped"


def listed(lines: Sequence[str]) -> list[str]:
    """The first ``lines``, indented, and how many more there are."""
    more = len(lines) - _MOST_LISTED
    return [f"    {line}" for line in lines[:_MOST_LISTED]] + ([f"    … and {more} more"] if more > 0 else [])
