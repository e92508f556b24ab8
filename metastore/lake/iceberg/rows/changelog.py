"""A changelog: the rows that a range of snapshots changed. It means the same rows however often it is read.

Place in the flow: the metadata table ``$changes`` is the changelog of all snapshots whose changes are known. The
procedure ``create_changelog_view`` chooses a range, and gives the changelog a name in SQL and in Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.rows.changed_files import ChangedFiles, changed_files, snapshots_between
from metastore.lake.iceberg.rows.changed_rows import RowChangeReader


@dataclass(frozen=True)
class SnapshotRange:
    """A range of snapshots by ids: behind ``after``, up to and with ``last``. None leaves an end open.

    An open beginning means the oldest snapshot whose changes are known.
    """

    after: int | None
    last: int | None

    @classmethod
    def of_times(cls, metadata: TableMetadata, io: FileIO, after_ms: int | None, last_ms: int | None) -> SnapshotRange:
        """The snapshots of the current history that were made after one time and not after the other.

        Raises InvalidRequestError if the history of the first time has expired.
        """
        line = list(ancestors_of(metadata.current_snapshot(), metadata))
        until = [each for each in line if last_ms is None or each.timestamp_ms <= last_ms]
        last = until[0].snapshot_id if until else None
        if after_ms is None or last is None:
            return cls(None, last)
        earlier = [each for each in until if each.timestamp_ms <= after_ms]
        if not earlier and snapshots_between(metadata, io, None, last)[:1] != until[-1:]:
            begin = datetime.fromtimestamp(until[-1].timestamp_ms / 1000, timezone.utc)
            raise InvalidRequestError(
                f"the history begins at {begin.isoformat(timespec='milliseconds')}; older snapshots have expired, so "
                "changes before are not known: choose a later start"
            )
        return cls(earlier[0].snapshot_id if earlier else None, last)


@dataclass(frozen=True)
class Changelog:
    """Changed rows of ``snapshots``; with ``net``, only the changes that are left after all of them."""

    reader: RowChangeReader
    snapshots: tuple[Snapshot, ...]
    net: bool = False

    @classmethod
    def of(
        cls, table: Table, between: SnapshotRange, identifiers: tuple[str, ...] = (), *, net: bool = False
    ) -> Changelog:
        """Raises InvalidRequestError for a range that is none, and the errors of :class:`RowChangeReader`."""
        reader = RowChangeReader(table.metadata, table.io, identifiers)
        return cls(reader, tuple(snapshots_between(table.metadata, table.io, between.after, between.last)), net)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table, then the type of change, the number of the snapshot from 0, and its id."""
        return self.reader.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the changed rows, in the order of the snapshots. Raises as :func:`read_part`."""
        for part in self.parts():
            yield from read_part(part)

    def parts(self) -> Iterator[ChangelogPart]:
        """Yield the parts that tasks can read: one for each snapshot, or one for all if ``net``.

        Raises StorageError if a manifest cannot be read.
        """
        changes = changed_files(self.reader.metadata, self.reader.io, self.snapshots)
        if self.net:
            yield ChangelogPart(self.reader, tuple(changes), net=True)
            return
        for files in changes:
            yield ChangelogPart(self.reader, (files,))


@dataclass(frozen=True)
class ChangelogPart:
    """Changed files whose rows are read together; with ``net``, only the changes that are left after all of them."""

    reader: RowChangeReader
    files: tuple[ChangedFiles, ...]
    net: bool = False


def read_part(part: ChangelogPart) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part. Raises as :meth:`metastore.lake.iceberg.rows.changed_rows.RowChangeReader.changes`."""
    if part.net:
        return part.reader.net(part.files)
    return (batch for files in part.files for batch in part.reader.changes(files))
