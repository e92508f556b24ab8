"""Parts of a table's rows that a task on another machine can read: plain data, which pickles.

Place in the flow: a relation (:mod:`metastore.sql.queries.relations`) cuts its rows into parts of about equal bytes.
Each task reads one part, and holds some batches of one file in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.table.metadata import TableMetadata

from metastore.lake.iceberg.columns.carried_columns import with_variant_parts
from metastore.lake.iceberg.rows.row_scan import RowScan
from metastore.lake.iceberg.rows.scan_tasks import without_history
from metastore.lake.writes.row_changes import LiveRows
from metastore.scan.rows import ReadChunk, read_rows
from metastore.scan.scan import Scan
from metastore.scan.task_parts import parts_of_files, split
from metastore.sql.queries.addressed_rows import ADDRESS, addressed_rows
from metastore.sql.queries.columns_of_files import HiddenColumns


class RowPart(Protocol):
    """Rows that a task reads."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows. Raises StorageError and FormatError, which name the file."""


def in_schema(part: RowPart, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields the rows of ``part`` in exactly the types of ``schema``."""
    return (batch if batch.schema.equals(schema) else batch.cast(schema) for batch in part.batches())


@dataclass(frozen=True)
class HeldRows:
    """Rows that travel to the tasks as an Arrow stream."""

    content: bytes = field(repr=False)

    @classmethod
    def of(cls, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> HeldRows:
        """Returns all rows of ``batches``."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
            for batch in batches:
                stream.write_batch(batch)
        return cls(sink.getvalue().to_pybytes())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """As :meth:`RowPart.batches`."""
        with pa.ipc.open_stream(self.content) as batches:
            yield from batches


@dataclass(frozen=True)
class ScannedFiles:
    """Files of a scan."""

    chunk: ReadChunk

    def batches(self) -> Iterator[pa.RecordBatch]:
        """As :meth:`RowPart.batches`."""
        return read_rows(self.chunk)


@dataclass(frozen=True, kw_only=True)
class IcebergFiles:
    """Data files of an Iceberg table; their rows in the columns ``names``, of which ``of_file`` are of the file."""

    metadata: TableMetadata
    io: FileIO
    schema: Schema
    condition: BooleanExpression
    tasks: Sequence[FileScanTask]
    names: Sequence[str]
    of_file: Sequence[str]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """As :meth:`RowPart.batches`."""
        hidden = HiddenColumns(self.metadata, self.of_file)
        scan = RowScan(self.metadata, self.io, self.schema, self.condition, hidden.places)
        for task in self.tasks:
            for batch in scan.stream_file(task):
                yield hidden.beside(batch, task.file).select(list(self.names))


@dataclass(frozen=True, kw_only=True)
class AddressedFiles:
    """Data files of a table that changes: ``live`` has these files only, and ``numbers`` are theirs in the table."""

    metadata: TableMetadata
    io: FileIO
    schema: Schema
    live: LiveRows
    numbers: Sequence[int]
    names: Sequence[str]
    of_file: Sequence[str]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """As :meth:`RowPart.batches`; addresses have the numbers in ``live``."""
        hidden = HiddenColumns(self.metadata, self.of_file)
        scan = RowScan(self.metadata, self.io, self.schema, AlwaysTrue(), hidden.places)
        for batch in addressed_rows(scan, self.live, range(len(self.numbers)), hidden, ahead=False):
            yield batch.select(list(self.names))


@dataclass(frozen=True)
class RowsOnStore:
    """The rows of a table that a query needs: the bytes of each file with such rows, and ``parts`` for many tasks."""

    sizes: Sequence[int]
    parts: Callable[[int], list[RowPart]]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(self.sizes)


def rows_of_scan(scan: Scan) -> RowsOnStore | None:
    """Returns the rows of ``scan``; None if SQL must filter them."""
    if not scan.filter_is_exact:
        return None
    return RowsOnStore(
        [file.size or 0 for file in scan.files], lambda tasks: list(map(ScannedFiles, split(scan.chunk, tasks)))
    )


def rows_of_iceberg(
    table: Table,
    schema: Schema,
    condition: BooleanExpression,
    tasks: Sequence[FileScanTask],
    names: Sequence[str],
    of_file: Sequence[str],
) -> RowsOnStore:
    """Returns the rows of the files of ``tasks`` in the columns ``names``; arguments as in :class:`IcebergFiles`."""
    metadata = without_history(table.metadata)

    def parts(count: int) -> list[RowPart]:
        return [
            IcebergFiles(
                metadata=metadata,
                io=table.io,
                schema=schema,
                condition=condition,
                tasks=[tasks[each] for each in numbers],
                names=tuple(names),
                of_file=tuple(of_file),
            )
            for numbers in parts_of_files(sizes, count)
        ]

    sizes = [task.file.file_size_in_bytes for task in tasks]
    return RowsOnStore(sizes, parts)


def addressed_rows_of(
    table: Table, live: LiveRows, numbers: Sequence[int], names: Sequence[str], of_file: Sequence[str]
) -> RowsOnStore:
    """Returns the rows of the files ``numbers`` of ``live`` with their addresses. Files of a partition are together."""
    metadata, hidden = without_history(table.metadata), {*of_file, *(each.name for each in ADDRESS)}
    own = table.scan(AlwaysTrue(), tuple(each for each in names if each not in hidden)).projection()
    schema = with_variant_parts(own)
    ordered = sorted(numbers, key=lambda each: _partition(live, each))
    sizes = [live.files[number].file.file_size_in_bytes for number in ordered]

    def parts(count: int) -> list[RowPart]:
        cut = [[ordered[place] for place in places] for places in parts_of_files(sizes, count)]
        return [
            AddressedFiles(
                metadata=metadata,
                io=table.io,
                schema=schema,
                live=live.part(each),
                numbers=each,
                names=tuple(names),
                of_file=tuple(of_file),
            )
            for each in cut
        ]

    return RowsOnStore(sizes, parts)


def _partition(live: LiveRows, number: int) -> tuple[int, str]:
    file = live.files[number].file
    return file.spec_id, str(file.partition)
