"""Reads the rows of one Iceberg data file as stored: Parquet, ORC or Avro.

This is the only module that opens such files for their rows. A reader has two methods: ``batches`` streams parts of the
file in order with bounded memory; ``matching`` lets Arrow skip what a condition excludes. Columns keep the file's names
and types; :mod:`metastore.lake.iceberg.rows.projection` converts them to the table's.

INT96 times are read in microseconds. In nanoseconds, Arrow's default, times before 1677 and after 2262 would silently
change. Arrow has no such option for ORC. From release 25 on it refuses those times in ORC; with earlier releases, times
in ORC are not read. A Parquet file that Arrow refuses because of one column is read without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import orc
from pyiceberg.manifest import FileFormat

from metastore.errors import FormatError, InvalidRequestError
from metastore.lake.formats.accepted_files import accepted_file
from metastore.lake.formats.avro.avro_rows import AvroRows
from metastore.lake.formats.conforming import with_maps_restored
from metastore.lake.formats.orc.orc_times import require_safe_times
from metastore.lake.formats.parquet.int96_moments import require_moments
from metastore.lake.formats.parquet.refused_footers import REFUSALS, require_no_unread, with_maps

_BATCH_ROWS: Final = 1 << 16
_BUFFER: Final = 8 << 20


class DataFileReader(Protocol):
    """One opened file. Reading raises pyarrow's errors, FormatError and OSError."""

    @property
    def schema(self) -> pa.Schema:
        """The file's columns; the fields' metadata has column ids if the file has them."""

    def batches(self, first: int, end: int, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield batches that hold rows ``first`` to ``end``, in order, each with the number of its first row.

        The first and last batch may hold more rows, and each batch has at least the named columns. Raises FormatError
        if the file has fewer rows than ``end``.
        """

    def matching(self, condition: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that match an Arrow expression (None: all), in order, with the named columns."""


def open_data_file(source: Any, format_: FileFormat, location: str) -> DataFileReader:
    """Open the file ``source`` at ``location``. InvalidRequestError for an unsupported format."""
    require_readable(format_, location)
    return _READERS[format_](source)


def require_readable(format_: FileFormat, location: str) -> None:
    """Raise InvalidRequestError if the format of the file at ``location`` is not supported."""
    if format_ not in READABLE:
        raise InvalidRequestError(
            f"{location} is in {format_.value}, which is not read; rewrite the table's data files as Parquet"
        )


class _Parquet:
    def __init__(self, source: Any) -> None:
        self._source = source
        self._unread: Mapping[str, str] = {}
        try:
            self._file = _open_parquet(source)
        except REFUSALS:
            accepted = accepted_file(source)
            if accepted is None:
                raise
            self._source, self._unread = accepted
            self._file = _open_parquet(self._source)
        self.schema: Final = pa.schema([self._column_to_read(field) for field in self._file.schema_arrow])

    def batches(self, first: int, end: int, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        metadata = self._file.metadata
        _require_rows(metadata.num_rows, end)
        require_no_unread(self._unread, columns)
        groups, row, start = [], 0, None
        for number in range(metadata.num_row_groups):
            rows = metadata.row_group(number).num_rows
            if row < end and row + rows > first:
                groups.append(number)
                start = row if start is None else start
            row += rows
        self._require_moments(columns, groups)
        read = self._file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=list(columns))
        return _number_rows(map(self._as_meant, read), start or 0)

    def matching(self, condition: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        require_no_unread(self._unread, columns)
        self._require_moments(columns)
        format_: Any = ds.ParquetFileFormat
        options = {"pre_buffer": True, "buffer_size": _BUFFER, "coerce_int96_timestamp_unit": "us"}
        return map(self._as_meant, _scan_fragment(format_(**options), self._source, condition, columns))

    def _require_moments(self, columns: Sequence[str], groups: Sequence[int] | None = None) -> None:
        require_moments(lambda: nullcontext(self._source), self._file.metadata, columns, groups=groups)

    def _column_to_read(self, field: Any) -> Any:
        """Return a column with its maps; a column that must not be read becomes bytes, so its parts are not decoded."""
        return field.with_type(pa.binary()) if field.name in self._unread else with_maps(field)

    def _as_meant(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return with_maps_restored(batch, pa.schema([self.schema.field(name) for name in batch.schema.names]))


def _open_parquet(source: Any) -> pq.ParquetFile:
    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us")


class _Orc:
    def __init__(self, source: Any) -> None:
        self._source = source
        self._file = orc.ORCFile(source)
        self.schema: Final = self._file.schema
        require_safe_times(self.schema, pa.__version__)

    def batches(self, first: int, end: int, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        _require_rows(self._file.nrows, end)
        stripes = (self._file.read_stripe(number, columns=list(columns)) for number in range(self._file.nstripes))
        return _between(_number_rows(stripes, 0), first, end)

    def matching(self, condition: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return _scan_fragment(ds.OrcFileFormat(), self._source, condition, columns)


class _Avro:
    def __init__(self, source: Any) -> None:
        self._rows = AvroRows(source)
        self.schema: Final = self._rows.schema

    def batches(self, first: int, end: int, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        rows = 0
        for row, batch in _number_rows(self._rows.batches(), 0):
            rows = row + batch.num_rows
            if rows > first:
                yield row, batch
            if rows >= end:
                return
        _require_rows(rows, end)

    def matching(self, condition: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in self._rows.batches():
            yield from [batch] if condition is None else pa.Table.from_batches([batch]).filter(condition).to_batches()


_READERS: Final[Mapping[FileFormat, Callable[[Any], DataFileReader]]] = {
    FileFormat.PARQUET: _Parquet,
    FileFormat.ORC: _Orc,
    FileFormat.AVRO: _Avro,
}

READABLE: Final = frozenset(_READERS)
"""The supported formats."""


def _scan_fragment(format_: Any, source: Any, condition: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    fragment = format_.make_fragment(source)
    schema = fragment.physical_schema
    scanner: Any = ds.Scanner.from_fragment(fragment, schema=schema, filter=condition, columns=list(columns))
    return iter(scanner.to_batches())


def _number_rows(batches: Iterable[pa.RecordBatch], row: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        yield row, batch
        row += batch.num_rows


def _between(
    batches: Iterable[tuple[int, pa.RecordBatch]], first: int, end: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    for row, batch in batches:
        if row >= end:
            return
        if row + batch.num_rows > first:
            yield row, batch


def _require_rows(rows: int, end: int) -> None:
    if rows < end:
        raise FormatError(f"it has {rows} rows, and the table says {end} or more")
