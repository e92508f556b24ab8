"""``prune``: the files that a query must read, and why it can skip the rest."""

from __future__ import annotations

from itertools import islice

from metastore.overview.natural_order import natural_order
from metastore.overview.results import KeptFileReport, PruneReport, SegmentReport, SkippedFileReport, Skipping
from metastore.predicates.condition import SparkCondition
from metastore.session import Session


def prune(
    session: Session,
    table: str,
    where: str,
    *,
    list_files: bool = True,
    time_zone: str | None = None,
    with_files: bool = False,
    most_files: int | None = None,
    spark_quotes: bool = False,
) -> PruneReport:
    """Decide by the metadata of ``table``; ``with_files`` lists each file. Raises what :meth:`Session.prune` raises.

    ``most_files`` limits the list of files to read and that of skipped files. With ``spark_quotes``, double quotes
    enclose texts, even a column's name.
    """
    where = SparkCondition(where) if spark_quotes else where
    result = session.prune(table, where, list_files=list_files, time_zone=time_zone)
    return PruneReport(
        table=str(session.table_info(table)),
        predicate=result.predicate,
        notes=tuple(result.notes),
        segments=result.segments_count,
        files=result.files_count,
        row_groups=result.row_groups_count,
        bytes=result.bytes_count,
        skipped_by=tuple(Skipping(test, count) for test, count in result.skipped_by.items()),
        row_groups_skipped_by=tuple(Skipping(test, count) for test, count in result.row_groups_skipped_by.items()),
        new=len(result.unknown),
        changed=len(result.changed),
        missing=len(result.missing),
        segment_decisions=tuple(
            SegmentReport(each.identifier, each.may_match, each.reason)
            for each in sorted(result.segments, key=lambda each: natural_order(each.identifier))
        ),
        kept_files=tuple(
            KeptFileReport(each.path, each.reason, each.size, each.row_groups)
            for each in islice(result.files, most_files)
        )
        if with_files
        else None,
        skipped_files=tuple(
            SkippedFileReport(each.path, each.reason) for each in islice(result.skipped_files, most_files)
        )
        if with_files
        else None,
    )
