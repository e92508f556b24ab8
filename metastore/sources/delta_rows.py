"""Rows of Delta tables: Arrow reads the Parquet files, with the log's data on each file (values, deleted rows, names).

Place in the flow: :class:`metastore.sources.delta.DeltaSource` makes a reader for the files that a scan selects; it
reads here or is sent to tasks. Columns are found in files by the names of the table's column mapping. Partition values
come from the log, never from the directory. Rows of deletion vectors are left out. Files on a remote store are opened
with deltalake's own options, as deltalake opens the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from metastore.lake.formats.accepted_files import accepted_file
from metastore.lake.formats.conforming import as_stored, with_maps_restored
from metastore.lake.formats.parquet.int96_moments import require_moments
from metastore.lake.formats.parquet.refused_footers import REFUSALS, require_no_unread, with_maps
from metastore.lake.stores.locations import one_spelling
from metastore.lake.stores.read_errors import reading_file

RowNumbers = np.ndarray[Any, np.dtype[np.int64]]

_ID: Final = b"delta.columnMapping.id"
_FILE_ID: Final = b"PARQUET:field_id"
_PHYSICAL_NAME: Final = b"delta.columnMapping.physicalName"
_FORMAT: Final = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")


@dataclass(frozen=True)
class DeltaFile:
    """One file: its partition values by column, and the numbers of its deleted rows."""

    values: Mapping[str, Any]
    deleted: RowNumbers | None = None


@dataclass(frozen=True)
class DeltaRows:
    """Reads ``files``, by path, of the table at ``location``.

    ``logical`` has the table's columns; ``stored`` has the same columns in the same order, by their names in files.
    With ``by_id``, each file's own name of a column is looked up by the column's id.
    """

    location: str
    logical: pa.Schema
    stored: pa.Schema
    files: Mapping[str, DeltaFile] = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    by_id: bool = False

    def of(self, paths: Sequence[str]) -> DeltaRows:
        """As :meth:`metastore.sources.provided_tables.ProvidedReader.of`."""
        return replace(self, files={path: self.files[path] for path in paths})

    def groups(self, paths: Sequence[str]) -> Iterator[Sequence[str]]:
        """As :meth:`metastore.sources.provided_tables.ProvidedReader.groups`: each file is a group."""
        return ([path] for path in paths)

    def rows(self, paths: Sequence[str], schema: pa.Schema, *, threads: bool) -> Iterator[pa.RecordBatch]:
        """As :meth:`metastore.sources.provided_tables.ProvidedReader.rows`."""
        for path in paths:
            yield from self._rows_of(path, schema, threads)

    def _rows_of(self, path: str, schema: pa.Schema, threads: bool) -> Iterator[pa.RecordBatch]:
        file = self.files[path]
        with reading_file(path):
            for batch in self._undeleted_rows(
                path, file, [name for name in schema.names if name not in file.values], threads
            ):
                columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
                arrays = [
                    columns[asked.name].cast(asked.type)
                    if asked.name in columns
                    else pa.repeat(pa.scalar(file.values[asked.name], asked.type), batch.num_rows)
                    for asked in schema
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _undeleted_rows(
        self, path: str, file: DeltaFile, names: Sequence[str], threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """Returns the rows of one file that are not deleted, in the table's columns ``names``."""
        places = [self.logical.get_field_index(name) for name in names]
        stored = pa.schema([self.stored.field(place) for place in places])
        logical = pa.schema([self.logical.field(place) for place in places])
        store, inside = self._open_store(path)
        fragment, unread = _part(inside, store)
        own: pa.Schema = fragment.physical_schema
        if self.by_id:
            if not any(_FILE_ID in (column.metadata or {}) for column in own):
                raise pa.ArrowInvalid("its columns have no field ids, by which the table maps its columns")
            stored = pa.schema([_found_by_id(column, pa.schema(map(with_maps, own))) for column in logical])
        require_no_unread(unread, stored.names)
        require_moments(partial(store.open_input_file, inside), fragment.metadata, stored.names)
        read = as_stored(stored, own)
        scanner = ds.Scanner.from_fragment(fragment, schema=read, columns=read.names, use_threads=threads)
        first = 0
        for batch in scanner.to_batches():  # in the order of the file
            named = _rename_columns(with_maps_restored(batch, stored), logical)
            if file.deleted is not None:
                keep = np.ones(batch.num_rows, bool)
                low, high = np.searchsorted(file.deleted, [first, first + batch.num_rows])
                keep[file.deleted[low:high] - first] = False
                named = named.filter(pa.array(keep))
            first += batch.num_rows
            yield named

    def _open_store(self, path: str) -> tuple[fs.FileSystem, str]:
        if path.startswith("/"):
            return fs.LocalFileSystem(), path
        root = self.location if path.startswith(f"{self.location}/") else path.rpartition("/")[0]
        handler = import_module("deltalake.fs").DeltaStorageHandler(one_spelling(root), dict(self.options) or None)
        return fs.PyFileSystem(handler), path[len(root) + 1 :]


def _part(path: str, store: fs.FileSystem) -> tuple[Any, Mapping[str, str]]:
    """Returns a file as a fragment of Arrow's datasets, and the columns that must not be read.

    Arrow may refuse the file's own footer because of these columns.
    """
    part: Any = _FORMAT.make_fragment(path, store)
    try:
        part.physical_schema  # noqa: B018 - it is read here
    except REFUSALS:
        accepted = accepted_file(store.open_input_file(path))
        if accepted is None:
            raise
        content: Any = accepted.content  # the stubs do not accept an Arrow file here
        return _FORMAT.make_fragment(content), accepted.unread
    return part, {}


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Returns the columns of a mapped table's ``schema`` (as deltalake gives it) by their names in files."""
    return pa.schema([_column_as_stored(column) for column in schema])


def stored_path(schema: pa.Schema, path: Sequence[str]) -> tuple[str, ...]:
    """Returns the path in files of the leaf at ``path``."""
    found = []
    fields: Any = schema
    for name in path:
        column = fields.field(name)
        found.append(_stored_name(column))
        fields = column.type
    return tuple(found)


def _stored_name(column: pa.Field[Any]) -> str:
    return (column.metadata or {}).get(_PHYSICAL_NAME, column.name.encode()).decode()


def _column_as_stored(column: pa.Field[Any]) -> pa.Field[Any]:
    return pa.field(_stored_name(column), _stored_type(column.type), column.nullable)


def _stored_type(type_: Any) -> Any:
    if pa.types.is_struct(type_):
        return pa.struct([_column_as_stored(type_.field(place)) for place in range(type_.num_fields)])
    if pa.types.is_list(type_):
        return pa.list_(_column_as_stored(type_.value_field))
    if pa.types.is_map(type_):
        return pa.map_(_column_as_stored(type_.key_field), _column_as_stored(type_.item_field))
    return type_


def _found_by_id(column: pa.Field[Any], fields: Any) -> pa.Field[Any]:
    """Returns ``column`` of the table with its names in a file.

    ``fields`` are the columns of the file, or of its struct. A column that the file lacks gets a name that no file has,
    so it is not found.
    """
    own = (column.metadata or {}).get(_ID, b"")
    inside = [
        fields.field(place) for place in range(fields.num_fields if isinstance(fields, pa.DataType) else len(fields))
    ]
    found = next((each for each in inside if (each.metadata or {}).get(_FILE_ID) == own), None) if own else None
    if found is None:
        return pa.field(f"\0{own.decode()}", column.type, column.nullable)
    return pa.field(found.name, _type_by_id(column.type, found.type), column.nullable)


def _type_by_id(type_: Any, stored: Any) -> Any:
    if pa.types.is_struct(type_) and pa.types.is_struct(stored):
        return pa.struct([_found_by_id(type_.field(place), stored) for place in range(type_.num_fields)])
    if pa.types.is_list(type_) and pa.types.is_list(stored):
        element = type_.value_field
        return pa.list_(pa.field(element.name, _type_by_id(element.type, stored.value_type), element.nullable))
    if pa.types.is_map(type_) and pa.types.is_map(stored):
        key, item = _type_by_id(type_.key_type, stored.key_type), _type_by_id(type_.item_type, stored.item_type)
        return pa.map_(key, item)
    return type_


def _rename_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns ``batch`` with the names of ``schema``, also inside structs; nothing else changes."""
    if batch.schema.types == schema.types:
        return pa.RecordBatch.from_arrays(batch.columns, schema.names) if len(schema) else batch
    # An IPC message holds values but no names, so it can be read with another schema of the same layout.
    return pa.ipc.read_record_batch(batch.serialize(), schema)
