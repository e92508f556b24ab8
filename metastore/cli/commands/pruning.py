"""``prune``: what a query must read, and why it need not read the rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from metastore.cli.commands.file_summaries import natural_order
from metastore.pruning.result import Count, PruneResult
from metastore.session import Session


@dataclass(frozen=True)
class Skipping:
    """So many files (or row groups of files that are read) were skipped because no row passes ``test``."""

    test: str
    count: int


@dataclass(frozen=True)
class SegmentDecision:
    """Whether the analyzed files of a segment may hold a row, and why."""

    segment: str
    kept: bool
    reason: str


@dataclass(frozen=True)
class KeptFile:
    """A file to read; ``row_groups`` are those to read in it, None for all of them."""

    path: str
    reason: str
    bytes: int | None
    row_groups: tuple[int, ...] | None


@dataclass(frozen=True)
class SkippedFile:
    """A file not to read, of a segment that is read."""

    path: str
    reason: str


@dataclass(frozen=True)
class Pruned:
    """The decision on a table. ``new``, ``changed`` and ``missing`` files are those since ANALYZE.

    ``kept_files`` and ``skipped_files`` are None unless they were asked for.
    """

    table: str
    predicate: str
    notes: tuple[str, ...]
    segments: Count
    files: Count
    row_groups: Count
    bytes: Count | None
    skipped_by: tuple[Skipping, ...]
    row_groups_skipped_by: tuple[Skipping, ...]
    new: int
    changed: int
    missing: int
    segment_decisions: tuple[SegmentDecision, ...]
    kept_files: tuple[KeptFile, ...] | None
    skipped_files: tuple[SkippedFile, ...] | None


def prune(
    session: Session,
    table: str,
    where: str,
    *,
    list_files: bool = True,
    time_zone: str | None = None,
    with_files: bool = False,
) -> Pruned:
    """Decide by the metadata of ``table``, with each file if ``with_files``. Raises as :meth:`Session.prune`."""
    result = session.prune(table, where, list_files=list_files, time_zone=time_zone)
    kept = tuple(KeptFile(each.path, each.reason, each.size, each.row_groups) for each in result.files)
    skipped = tuple(SkippedFile(each.path, each.reason) for each in result.skipped_files)
    return Pruned(
        table=str(session.table_info(table)),
        predicate=result.predicate,
        notes=tuple(result.notes),
        segments=result.segments_count,
        files=result.files_count,
        row_groups=result.row_groups_count,
        bytes=result.bytes_count,
        skipped_by=tuple(Skipping(test, count) for test, count in result.skipped_by.items()),
        row_groups_skipped_by=_row_groups_skipped_by(result),
        new=len(result.unknown),
        changed=len(result.changed),
        missing=len(result.missing),
        segment_decisions=tuple(
            SegmentDecision(each.identifier, each.kept, each.reason)
            for each in sorted(result.segments, key=lambda each: natural_order(each.identifier))
        ),
        kept_files=kept if with_files else None,
        skipped_files=skipped if with_files else None,
    )


def _row_groups_skipped_by(result: PruneResult) -> tuple[Skipping, ...]:
    tests = Counter(why.tests for file in result.files for why in file.skipped_row_groups.values())
    return tuple(Skipping(test, count) for test, count in tests.most_common())
