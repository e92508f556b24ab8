"""Decides whether files that a statement wrote can still be committed after other writers' commits.

Place in the flow: a commit lost its race. If nothing that the statement read has changed, only the commit is tried
again, as Iceberg does it for deletes of rows. Otherwise the statement is planned again on the newest version. So a
steady stream of appends does not starve a long statement.

A statement's files fit if each data file that it rewrites, removes or marks is still in the table, with the same
deletes. With isolation level ``serializable``, no new data file may have a row of the condition, either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from pyiceberg.expressions import BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from metastore.lake.iceberg.columns.version_3_fields import content_offset, first_row_id
from metastore.lake.iceberg.rows.live_files import EntryKey, LiveFile, live_files
from metastore.lake.writes.row_changes import LiveRows


def is_written_alike(one: TableMetadata, other: TableMetadata) -> bool:
    """Returns whether files that were written for ``one`` are the same as files for ``other`` would be."""
    return (
        one.table_uuid == other.table_uuid
        and one.location == other.location
        and one.properties == other.properties
        and one.current_schema_id == other.current_schema_id
        and one.default_spec_id == other.default_spec_id
        and one.default_sort_order_id == other.default_sort_order_id
        and one.format_version == other.format_version
    )


def still_gone(
    before: LiveRows, now: LiveRows, touched: Collection[int], gone: Sequence[LiveFile]
) -> list[LiveFile] | None:
    """Returns the files ``gone`` as they are in ``now``; None if the work on the files ``touched`` does not fit.

    ``touched`` are the numbers of the data files in ``before`` that the statement rewrites, removes or marks.
    """
    standing: dict[EntryKey, list[int]] = {}
    for number, data in enumerate(now.files):
        standing.setdefault(data.entry, []).append(number)
    found: dict[EntryKey, list[LiveFile]] = {}
    for number in touched:
        data = before.files[number]
        numbers = standing.get(data.entry)
        if not numbers:
            return None
        match = numbers.pop()
        is_same = first_row_id(now.files[match].file) == first_row_id(data.file)
        if not is_same or _deletes(now, match) != _deletes(before, number):
            return None
        found.setdefault(data.entry, []).append(now.files[match])
    for delete in now.deletes:
        found.setdefault(delete.entry, []).append(delete)
    placed = []
    for file in gone:
        matches = found.get(file.entry)
        if not matches:
            return None
        placed.append(matches.pop())
    return placed


def adds_no_match(
    before: LiveRows, now: LiveRows, metadata: TableMetadata, io: FileIO, condition: BooleanExpression | None
) -> bool:
    """Returns whether no data file of ``now`` that is not in ``before`` may have a row of ``condition``.

    None stands for a statement that may depend on every row: then no file may have come or gone. Raises StorageError.
    """
    if condition is None:
        return _entries(before.files) == _entries(now.files) and _entries(before.deletes) == _entries(now.deletes)
    new = _entries(now.files) - _entries(before.files)
    current = metadata.current_snapshot()
    if not new or current is None:
        return True
    matching = _entries(live_files(metadata, io, current, condition).data)
    return not new & matching


def _entries(files: Collection[LiveFile]) -> Counter[EntryKey]:
    return Counter(file.entry for file in files)


def _deletes(live: LiveRows, number: int) -> set[tuple[str, int | None]]:
    return {(file.file_path, content_offset(file)) for file in live.tasks[number].delete_files}
