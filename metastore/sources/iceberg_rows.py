"""Rows of Iceberg tables' files, as PyIceberg reads them: columns by their ids, delete files applied.

Place in the flow: :class:`metastore.sources.iceberg.IcebergSource` makes a reader for the files that a scan selects; it
reads here or is sent to tasks. PyIceberg opens the files with the catalog's own properties. It does not filter, since
engines differ in the meaning of a predicate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata

from metastore.lake.iceberg.rows.row_scan import RowScan
from metastore.lake.iceberg.rows.scan_tasks import without_history
from metastore.lake.stores.read_errors import reading_file

_TOGETHER: Final = 16
_BYTES_TOGETHER: Final = 32 << 20
"""Files in one group are planned together, and their delete files are read once.

All their rows are in memory at once.
"""


@dataclass(frozen=True)
class IcebergRows:
    """Reads the files of ``tasks``, by path; ``metadata`` is the table's, without history."""

    metadata: TableMetadata = field(repr=False)
    io: FileIO = field(repr=False)
    tasks: Mapping[str, FileScanTask] = field(repr=False)

    @classmethod
    def of_tasks(cls, metadata: TableMetadata, io: FileIO, tasks: Mapping[str, FileScanTask]) -> IcebergRows:
        """Returns a reader with only the metadata that reading needs: no history, and no bounds of columns."""
        schemas = metadata.schemas
        if not any(delete.equality_ids for each in tasks.values() for delete in each.delete_files):
            schemas = [metadata.schema()]  # deletes may name columns that were dropped since
        bare = {
            path: FileScanTask(_bare(each.file), set(map(_bare, each.delete_files))) for path, each in tasks.items()
        }
        return cls(without_history(metadata, schemas=schemas), io, bare)

    def of(self, paths: Sequence[str]) -> IcebergRows:
        """As :meth:`metastore.sources.provided_tables.ProvidedReader.of`."""
        return replace(self, tasks={path: self.tasks[path] for path in paths})

    def groups(self, paths: Sequence[str]) -> Iterator[Sequence[str]]:
        """As :meth:`.ProvidedReader.groups`: neighbouring files together, large files alone."""
        group: list[str] = []
        size = 0
        for path in paths:
            more = self.tasks[path].file.file_size_in_bytes
            if group and (len(group) == _TOGETHER or size + more > _BYTES_TOGETHER):
                yield group
                group, size = [], 0
            group.append(path)
            size += more
        if group:
            yield group

    def rows(self, paths: Sequence[str], schema: pa.Schema, *, threads: bool) -> Iterator[pa.RecordBatch]:
        """As :meth:`metastore.sources.provided_tables.ProvidedReader.rows`; PyIceberg chooses its threads."""
        fields = {column.name: column for column in self.metadata.schema().fields}
        projected = Schema(*(fields[name] for name in schema.names))
        scan = RowScan(self.metadata, self.io, projected, AlwaysTrue())
        for path, batches in scan.by_file(self.tasks[path] for path in paths):
            for batch in batches:
                yield _cast(path, batch, schema)


def _cast(path: str, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    with reading_file(path, errors=pa.ArrowException):
        columns = [_storage_of(column).cast(asked.type) for column, asked in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _storage_of(column: Any) -> Any:
    return column.storage if isinstance(column.type, pa.BaseExtensionType) else column


def _bare(file: DataFile) -> DataFile:
    made = DataFile.from_args(
        content=file.content,
        file_path=file.file_path,
        file_format=file.file_format,
        partition=file.partition,
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        equality_ids=file.equality_ids,
    )
    made.spec_id = file.spec_id
    return made
