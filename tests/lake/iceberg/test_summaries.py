"""Summaries of snapshots: counts and totals, for every operation."""

from __future__ import annotations

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.typedef import Record

from metastore.lake.iceberg.snapshots.summaries import count_changes, summarize


def file_of(content: DataFileContent, rows: int, *partition: int) -> DataFile:
    """A file of 10 bytes a row, in a table that is partitioned if it has a ``partition``."""
    file = DataFile.from_args(
        content=content, file_path="f", record_count=rows, file_size_in_bytes=10 * rows, partition=Record(*partition)
    )
    file.spec_id = 0
    return file


def snapshot_with(summary: Summary | None) -> Snapshot:
    """The snapshot before."""
    return Snapshot(snapshot_id=1, timestamp_ms=1, manifest_list="l", summary=summary)


def test_changes_are_counted_by_kind() -> None:
    """Rows of delete files are not rows of the table; what is zero is left out."""
    new = [file_of(DataFileContent.DATA, 3, 1), file_of(DataFileContent.DATA, 4, 2)]
    gone = [file_of(DataFileContent.POSITION_DELETES, 2, 1)]
    assert count_changes(new, gone) == {
        "added-data-files": "2",
        "added-records": "7",
        "added-files-size": "70",
        "removed-delete-files": "1",
        "removed-position-delete-files": "1",
        "removed-position-deletes": "2",
        "removed-files-size": "20",
        "changed-partition-count": "2",
    }


def test_a_table_without_partitions_is_one_partition() -> None:
    """As Iceberg for Java counts; PyIceberg leaves the count out."""
    assert count_changes([file_of(DataFileContent.DATA, 3)] * 2, ())["changed-partition-count"] == "1"


def test_each_operation_has_totals() -> None:
    """Also ``replace``, for which PyIceberg has none."""
    first = summarize(Operation.APPEND, count_changes([file_of(DataFileContent.DATA, 5)], ()), None)
    assert (first["total-data-files"], first["total-records"], first["total-delete-files"]) == ("1", "5", "0")
    counts = count_changes([file_of(DataFileContent.DATA, 3)] * 2, [file_of(DataFileContent.DATA, 5)])
    for operation in (Operation.REPLACE, Operation.OVERWRITE):
        second = summarize(operation, {**counts, "note": "a"}, snapshot_with(first))
        assert (second.operation, second["note"]) == (operation, "a")
        assert (second["total-data-files"], second["total-records"], second["total-files-size"]) == ("2", "6", "60")


def test_totals_are_left_out_after_a_snapshot_without() -> None:
    """They would begin at zero, although the table has files."""
    counts = count_changes([file_of(DataFileContent.DATA, 5)], ())
    for before in (None, Summary(Operation.APPEND)):
        summary = summarize(Operation.APPEND, counts, snapshot_with(before))
        assert summary.additional_properties == counts
