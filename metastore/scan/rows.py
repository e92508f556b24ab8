"""Reads the files of a plan as Arrow batches: the task of every scan, in this process or on executors.

A chunk is plain data. Each file is read into the table's schema, whatever types and columns the file has: by Arrow's
Parquet reader, or by the reader of its format (:mod:`metastore.lake.formats.row_files`). Then directory values and row
ids are added, rows are filtered, and columns are ordered. Row ids are counted before filtering, so they do not depend
on the question.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from metastore.errors import FormatError, NotFoundError, StorageError
from metastore.ground.threads import Threads
from metastore.lake.formats.file_format import Opening
from metastore.lake.formats.microseconds import in_microseconds, type_in_microseconds
from metastore.lake.formats.names import PARQUET, format_record
from metastore.lake.formats.parquet.bloom_filters import Probes
from metastore.lake.formats.parquet.element_bounds import ElementProbe
from metastore.lake.formats.parquet.int96_moments import require_moments
from metastore.lake.formats.parquet.refused_footers import REFUSALS, require_no_unread
from metastore.lake.formats.text.text_options import DEFAULTS, TextOptions
from metastore.lake.stores.arrow import open_location
from metastore.lake.stores.read_errors import reading_file
from metastore.model.tuple_schema import TupleSchema
from metastore.predicates.arrow_filter import RowFilter
from metastore.scan.arrow_types import has_nanoseconds
from metastore.scan.found_columns import FoundColumns, naming, read_file_found
from metastore.scan.parquet_parts import AcceptedPart, accepted_part, fragments, probe_row_groups
from metastore.scan.plan import ScanFile
from metastore.scan.pruning.row_id import ROW_ID, TYPE, encode
from metastore.scan.read_by_duckdb import LIMITS, rows_by_duckdb
from metastore.sources.provided_tables import ProvidedReader
from metastore.sources.table_columns import ColumnFinder

RowNumbers = np.ndarray[Any, np.dtype[np.uint64]]

_FINER: Final = re.compile(r"from time\S*\[ns.*\] to time\S*\[us.*\] would lose data")
"""Arrow's message for nanoseconds that a column of microseconds cannot hold."""

_THREADS: Final = 8
"""Files that a scan in this process reads concurrently; Arrow's threads do the work, these keep them busy."""


@dataclass(frozen=True, kw_only=True)
class ReadChunk:
    """Files of one table to read: plain data.

    ``schema`` is the table's schema, ``format`` the format of its files. ``columns`` are the columns to return, in
    order, ``$row_id`` included if requested. ``exclude`` maps file path and row group to the numbers of rows to leave
    out. ``types``, if given, replace the table's types, for engines that lack some of them; times then lose digits that
    the type cannot hold. ``threads`` lets Arrow use several threads. ``reader`` reads the files of a table that another
    system keeps. ``found_by`` finds the table's columns in files that are ``matched``.
    """

    location: str
    schema: pa.Schema
    files: Sequence[ScanFile]
    columns: Sequence[str]
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    where: RowFilter | None = None
    exclude: Mapping[tuple[str, int], RowNumbers] = field(default_factory=dict, repr=False)
    types: pa.Schema | None = None
    threads: bool = True
    format: str = PARQUET
    reader: ProvidedReader | None = field(default=None, repr=False)
    text: TextOptions = DEFAULTS
    """The options of delimited text."""
    found_by: ColumnFinder | None = field(default=None, repr=False)
    probes: Probes = field(default_factory=dict, repr=False)
    """Values that rows must have; bloom filters without them exclude row groups."""
    elements: Sequence[ElementProbe] = ()
    """Values that lists and maps of rows must hold; bounds of elements exclude row groups."""

    @cached_property
    def output(self) -> pa.Schema:
        """The schema of the batches."""
        return self.types or pa.schema([self.column(name) for name in self.columns])

    def column(self, name: str) -> pa.Field[Any]:
        """One column of the table, or the row id."""
        return pa.field(ROW_ID, TYPE) if name == ROW_ID else self.schema.field(name)


def read_rows(chunk: ReadChunk) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ``chunk``, file by file in order, in batches of ``chunk.output``.

    Raises NotFoundError for a missing file; FormatError for a file of another format, or with values that do not fit
    the table's schema; StorageError when the store fails. Each names the file. Raises FormatError with the table's
    location if rows of an Iceberg or Delta table cannot be returned in ``chunk.types``; EngineError if the Avro reader
    is not installed.
    """
    if chunk.reader is not None:
        for group in _groups(chunk):
            yield from _told_rows(group)
        return
    store, root = open_location(chunk.location, chunk.options)
    for file in chunk.files:
        yield from _FileReader(chunk, file, store, root).batches()


def read_rows_at_once(chunk: ReadChunk) -> Iterator[pa.RecordBatch]:
    """As :func:`read_rows`, with several files read ahead; batches keep the order of files. Raises the same."""
    waiting: deque[Future[list[pa.RecordBatch]]] = deque()
    with Threads(_THREADS) as threads:
        try:
            for group in _groups(chunk):
                waiting.append(threads.submit(lambda part: list(read_rows(part)), group))
                if len(waiting) > _THREADS:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _groups(chunk: ReadChunk) -> Iterator[ReadChunk]:
    """Split ``chunk`` into the smallest parts that are read as one."""
    if chunk.reader is None:
        yield from (replace(chunk, files=[file]) for file in chunk.files)
        return
    files = {file.path: file for file in chunk.files}
    if any(file.constants for file in files.values()):
        yield from (replace(chunk, files=[file]) for file in files.values())
        return
    for paths in chunk.reader.groups(list(files)):
        yield replace(chunk, files=[files[path] for path in paths])


def _told_rows(chunk: ReadChunk) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files that the table's own format defines; they are read together."""
    reader, where = chunk.reader, chunk.where
    assert reader is not None, "the chunk has a reader"
    names = dict.fromkeys((*chunk.columns, *(sorted(where.columns) if where else ())))
    constants = chunk.files[0].constants if chunk.files else {}
    # A reader of no columns returns no rows, so constants of the file need one real column besides them.
    own_columns = [name for name in names if name not in constants] or [_narrowest(chunk.schema, constants)]
    schema = pa.schema([chunk.schema.field(name) for name in own_columns])
    try:
        for batch in reader.rows([file.path for file in chunk.files], schema, threads=chunk.threads):
            whole = _with_constants(batch, constants, [chunk.schema.field(name) for name in names])
            rows = whole if where is None else whole.filter(where.expression)
            if rows.num_rows:
                chosen = rows.select(list(chunk.columns))
                yield chosen if chunk.types is None else in_types(chosen, chunk.types)
    except StorageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise NotFoundError(f"{error}; it is gone since the scan was planned, plan it again") from error
        raise
    except pa.ArrowException as error:
        raise FormatError(f"rows of {chunk.location} cannot be read as requested: {error}; run ANALYZE") from error


def _narrowest(schema: pa.Schema, constants: Mapping[str, Any]) -> str:
    """Return a column to count rows by, out of the columns that files hold."""
    fields = [field for field in schema if field.name not in constants]
    return min(fields, key=lambda field: not pa.types.is_primitive(field.type)).name


def _with_constants(
    batch: pa.RecordBatch, constants: Mapping[str, Any], fields: Sequence[pa.Field[Any]]
) -> pa.RecordBatch:
    """Return ``batch`` in the columns ``fields``; values of ``constants`` are repeated."""
    if not any(field.name in constants for field in fields):
        return batch
    arrays: list[Any] = [
        pa.repeat(pa.scalar(constants[field.name], field.type), batch.num_rows)
        if field.name in constants
        else batch.column(field.name)
        for field in fields
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def take_rows(chunk: ReadChunk, wanted: Sequence[tuple[str, int, RowNumbers]]) -> list[pa.Table]:
    """Return rows by file path, row group and row numbers, one table for each, in order. Raises as :func:`read_rows`.

    Only these row groups are read.
    """
    files = {file.path: file for file in chunk.files}
    with Threads(_THREADS) as threads:
        return list(threads.map(lambda one: _take_rows(chunk, files[one[0]], one[1], one[2]), wanted))


def _take_rows(chunk: ReadChunk, file: ScanFile, index: int, rows: RowNumbers) -> pa.Table:
    group = replace(chunk, files=[replace(file, row_groups=(index,))])
    return pa.Table.from_batches(read_rows(group), chunk.output).take(rows.astype(np.int64))


@contextmanager
def reading_scanned(file: ScanFile) -> Iterator[None]:
    """Within, failures to read ``file`` become this package's errors, with the file's name and the next step."""
    try:
        with (
            _advising(file),
            reading_file(file.path, gone="the scan was planned; plan it again", errors=(pa.ArrowException, OSError)),
        ):
            yield
    except FormatError as error:
        if _FINER.search(str(error)) is None:
            raise
        raise FormatError(
            f"{file.path} has times finer than a microsecond, which its table has not, since other files lack them: "
            f"{error.__cause__}; ask for other columns, or write all files in one unit and run ANALYZE"
        ) from error.__cause__


@contextmanager
def _advising(file: ScanFile) -> Iterator[None]:
    """Within, errors about the content of ``file`` say to run ANALYZE if it has not read the file as it is now."""
    try:
        yield
    except FormatError as error:
        if file.schema is not None or "ANALYZE" in str(error):
            raise
        raise FormatError(f"{error}; the file is new or changed: run ANALYZE") from (error.__cause__ or error)


class _FileReader:
    """Reads ``file`` as ``chunk`` asks; ``root`` is the chunk's location as ``store`` spells it."""

    def __init__(self, chunk: ReadChunk, file: ScanFile, store: fs.FileSystem, root: str) -> None:
        self._chunk = chunk
        self._file = file
        needed = dict.fromkeys(name for name in chunk.columns if name != ROW_ID)
        needed.update(dict.fromkeys(sorted(chunk.where.columns) if chunk.where else ()))
        self._constants = {
            name: pa.scalar(file.constants[name], chunk.schema.field(name).type)
            for name in needed
            if name in file.constants
        }
        self._read = [name for name in needed if name not in file.constants]
        self._schema = pa.schema([chunk.schema.field(name) for name in self._read])
        [part] = fragments([file], chunk.location, self._schema, store, root)
        self._fragment = probe_row_groups(part, file, chunk.probes, chunk.elements) if chunk.format == PARQUET else part
        self._finder = chunk.found_by if file.matched else None
        self._accepted: AcceptedPart | None = None
        self._are_held = file.schema is not None and not TupleSchema.from_json(file.schema).has_unread_moments

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the file, as :func:`read_rows` does."""
        if self._chunk.format != PARQUET:
            format_ = format_record(self._chunk.format)
            opening = Opening(format_, self._chunk.location, None, self._chunk.options, text=self._chunk.text)
            with _advising(self._file):
                for batch in read_file_found(opening, self._file.path, self._schema, self._finder):
                    yield from self._finish_batch(batch, {})
            return
        with reading_scanned(self._file):
            rows = self._rows(self._fragment)
            try:
                first = next(rows, None)
            except REFUSALS:
                self._accepted = accepted_part(self._fragment, self._file)
                if self._accepted is None:
                    raise
                rows = self._rows(self._accepted.part)
                first = next(rows, None)
            if first is not None:
                yield first
                yield from rows

    def _rows(self, part: ds.ParquetFileFragment) -> Iterator[pa.RecordBatch]:
        if ROW_ID not in self._chunk.columns and not any(path == self._file.path for path, _ in self._chunk.exclude):
            for batch in self._scan(part):
                yield from self._finish_batch(batch, {})
            return
        for group in part.row_groups:
            yield from self._row_group(part, group.id)

    def _row_group(self, part: ds.ParquetFileFragment, index: int) -> Iterator[pa.RecordBatch]:
        """Rows of one row group, with ids from their numbers in it and without rows that the chunk excludes."""
        first = 0
        excluded = self._chunk.exclude.get((self._file.path, index))
        ids = self._file.ids
        for batch in self._scan(part.subset(row_group_ids=[index])):  # type: ignore[arg-type] # the stubs are wrong
            more = {}
            if ROW_ID in self._chunk.columns:
                assert ids is not None, "row ids were planned for"
                more = {ROW_ID: encode(ids.component, ids.first_group + index, first, batch.num_rows)}
            mask = None
            if excluded is not None:
                inside = excluded[(excluded >= first) & (excluded < first + batch.num_rows)]
                mask = np.ones(batch.num_rows, bool)
                mask[(inside - np.uint64(first)).astype(np.intp)] = False
            first += batch.num_rows
            yield from self._finish_batch(batch, more, mask)

    def _scan(self, part: ds.Fragment) -> Iterator[pa.RecordBatch]:
        """Batches in the table's schema; columns that a file spells or nests in its own way are found first."""
        found = None
        if self._finder is not None:
            with naming(self._file.path):
                found = FoundColumns.of(self._finder, self._schema, part.physical_schema)
        elif self._accepted is not None:
            found = FoundColumns.with_maps(self._schema, part.physical_schema)
        schema = self._schema if found is None else found.read
        if self._accepted is not None:
            require_no_unread(self._accepted.unread, schema.names, self._file.path)
        if not self._are_held:
            self._require_moments(part.metadata, schema.names)  # type: ignore[attr-defined] # the stubs lack Parquet's
        batches = self._read_parquet(part, schema)
        if found is None:
            return batches
        return found.all_as_asked(batches, self._file.path)

    def _require_moments(self, metadata: pq.FileMetaData, columns: Sequence[str]) -> None:
        """Raise FormatError if a column of INT96 holds a time for which Arrow returns another; once for the file."""
        store: Any = self._fragment.filesystem
        opened = partial(store.open_input_file, self._fragment.path)
        require_moments(opened, metadata, columns, self._file.path, self._file.row_groups)
        self._are_held = True

    def _read_parquet(self, part: ds.Fragment, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield rows in the order of the file, by DuckDB from where Arrow reaches a limit of its own."""
        scanner = ds.Scanner.from_fragment(part, schema=schema, columns=schema.names, use_threads=self._chunk.threads)
        rows = 0
        try:
            for batch in scanner.to_batches():
                rows += batch.num_rows
                yield batch
        except (pa.ArrowException, OSError) as error:
            if LIMITS.search(str(error)) is None or self._accepted is not None:
                raise
            yield from rows_by_duckdb(cast("ds.ParquetFileFragment", part), schema, rows)

    def _finish_batch(
        self, batch: pa.RecordBatch, more: Mapping[str, pa.Array[Any]], mask: np.ndarray[Any, Any] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The batch with constants and ``more``, then filtered, in the chunk's columns; none if no row is left."""
        count = batch.num_rows
        arrays = dict(zip(self._read, batch.columns, strict=True))
        arrays.update({name: pa.repeat(value, count) for name, value in self._constants.items()})
        arrays.update(more)
        whole = batch  # if there are no columns, only this batch has the number of rows
        if arrays:
            schema = pa.schema([self._chunk.column(name) for name in arrays])
            whole = pa.RecordBatch.from_arrays(list(arrays.values()), schema=schema)
        if mask is not None:
            whole = whole.filter(pa.array(mask))
        if self._chunk.where is not None:
            whole = whole.filter(self._chunk.where.expression)
        if whole.num_rows:
            chosen = whole.select(list(self._chunk.columns))
            yield chosen if self._chunk.types is None else in_types(chosen, self._chunk.types)


def in_types(rows: pa.RecordBatch, types: pa.Schema) -> pa.RecordBatch:
    """Cast ``rows`` to ``types``; nanoseconds are rounded down, while Arrow's cast rounds toward 1970."""
    columns = [
        in_microseconds(column, type_in_microseconds(column.type)) if has_nanoseconds(column.type) else column
        for column in rows.columns
    ]
    return pa.RecordBatch.from_arrays(columns, rows.schema.names).cast(types, safe=False) if columns else rows
