"""``prune``: what a query must read, and why it need not read the rest."""

from __future__ import annotations

from collections import Counter

from metastore.cli.commands.file_summaries import natural_order
from metastore.cli.results import KeptFile, Pruned, SegmentDecision, SkippedFile, Skipping
from metastore.pruning.result import PruneResult
from metastore.session import Session


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
