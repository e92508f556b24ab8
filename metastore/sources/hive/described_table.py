"""Hive tables that are described file by file: text, ``char``, and partitions in several formats or in other folders.

No metadata units of their directories are kept. The table itself provides the contents of its files, partition columns
included, as Iceberg tables do (:class:`metastore.sources.provided_tables.ProvidedTable`). The state of a file includes
the service's description of its partition (format, SerDe, delimiters, values, types). If that is altered, the file
counts as changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from hive_metastore.ttypes import StorageDescriptor

from metastore.engines.engine import Engine
from metastore.errors import FormatError, InvalidRequestError, NotFoundError
from metastore.ground.digests import number_of
from metastore.lake.formats.source_file import SourceFile
from metastore.model.column_path import ColumnPath, quote
from metastore.model.drill_types import minor_type
from metastore.model.statistics import ColumnStatistics, parse_many
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.sources.hive.described_files import FRAGMENT, DescribedChunk, FileToDescribe, Reading, describe
from metastore.sources.hive.listing import plain_location
from metastore.sources.hive.partitions import partition_name, typed_value
from metastore.sources.hive.tables import MIGRATABLE, Columns, HiveFormat, HivePartition, HiveTable
from metastore.sources.hive.text.serdes import SerdeKind, TextSerde, text_serde
from metastore.sources.hive.types import HiveType, drill_type, leaves_of
from metastore.sources.listing import list_files
from metastore.sources.provided_tables import Measures, ProvidedFile, column_statistics

MIXED: Final = "HIVE"
"""The table type of a table whose partitions have several formats."""

_CHAR: Final = re.compile(r"\bchar\(", re.IGNORECASE)
_THREADS: Final = 16
_CHUNK_BYTES: Final = 32 << 20
_CHUNK_FILES: Final = 100
_STATE: Final = 1_000_000_000


@dataclass(frozen=True)
class _Place:
    """A folder with files: the table's folder, or a partition's folder with its ``values``."""

    location: str
    reading: Reading
    values: tuple[str, ...] = ()


class DescribedTable:
    """One such table, as the service described it. ``engine`` is called only if files must be read."""

    def __init__(
        self,
        table: HiveTable,
        partitions: Sequence[HivePartition],
        options: Mapping[str, str],
        engine: Callable[[int], Engine],
    ) -> None:
        """Raises InvalidRequestError for an unsupported format, FormatError for an unsupported SerDe or type."""
        self.location: Final = plain_location(table.location)
        self._table = table
        self._options = dict(options)
        self._engine = engine
        self._columns = _columns(table)
        self._places = list(_places(table, partitions))
        formats = {_format(place.reading) for place in self._places}
        self.format: Final = str(formats.pop()) if len(formats) == 1 else MIXED

    @cached_property
    def schema(self) -> TupleSchema:
        """See :attr:`metastore.sources.provided_tables.ProvidedTable.schema`; partition columns come last."""
        columns = (*self._columns, *self._table.partition_columns)
        return TupleSchema(tuple(SchemaColumn(name, str(drill_type(type_)), False, {}) for name, type_ in columns))

    def files(self) -> Sequence[SourceFile]:
        """See :meth:`metastore.sources.provided_tables.ProvidedTable.files`."""
        return sorted(self._places_by_file)

    def contents(
        self,
        files: Sequence[SourceFile],
        columns: Sequence[ColumnPath] | None = None,
    ) -> Iterator[ProvidedFile]:
        """See :meth:`.ProvidedTable.contents`. Raises FormatError for an unreadable file."""
        files = list(files)
        for batch in self._engine(len(files)).run(list(self._chunks(files)), describe, FRAGMENT):
            for row in batch.to_pylist():
                yield self._content(files[row["number"]], row["rows"], row["statistics"])

    def modified_times(self) -> Mapping[str, int]:
        """See :meth:`metastore.sources.provided_tables.ProvidedTable.modified_times`; whole seconds."""
        return {file.path: file.mtime_ns // _STATE * _STATE for file in self._places_by_file}

    def _content(self, file: SourceFile, rows: int, texts: Sequence[str | None]) -> ProvidedFile:
        place = self._places_by_file[file]
        known = zip(leaves_of(self._columns), parse_many(texts), strict=True)
        statistics = {quote(leaf.path): each for leaf, each in known if each is not None}
        for (name, type_), text in zip(self._table.partition_columns, place.values, strict=True):
            statistics[quote((name,))] = _of_value(type_, text, rows)
        return ProvidedFile(file, self.schema, statistics, rows)

    def _chunks(self, files: Sequence[SourceFile]) -> Iterator[DescribedChunk]:
        """Yields the files in chunks that are limited by number of files and by bytes to read."""
        chunk: list[FileToDescribe] = []
        size = 0
        for number, file in enumerate(files):
            each = FileToDescribe(number, file.path, file.size, self._places_by_file[file].reading)
            if chunk and (len(chunk) == _CHUNK_FILES or size + _bytes_read_of(each) > _CHUNK_BYTES):
                yield DescribedChunk(self._columns, chunk, self._options)
                chunk, size = [], 0
            chunk.append(each)
            size += _bytes_read_of(each)
        if chunk:
            yield DescribedChunk(self._columns, chunk, self._options)

    @cached_property
    def _places_by_file(self) -> dict[SourceFile, _Place]:
        """The files with their folders; nested folders are ignored.

        Raises InvalidRequestError if folders share files.
        """
        with ThreadPoolExecutor(_THREADS) as threads:
            listed = threads.map(self._files, self._places)
        found = {file: place for place, files in zip(self._places, listed, strict=True) for file in files}
        if len({file.path for file in found}) < len(found):
            raise InvalidRequestError(f"{self._table} cannot be analyzed: files are in more than one of its partitions")
        return found

    def _files(self, place: _Place) -> list[SourceFile]:
        try:
            found = list_files(place.location, lambda _: False, options=self._options).files
        except NotFoundError:  # a partition may be created before its first file
            return []
        inside = f"{self.location}/"
        return [
            SourceFile((), file.path.removeprefix(inside), file.path, file.size, _state(file, place))
            for file in found
            if not file.directories
        ]


def needs_description(table: HiveTable, partitions: Sequence[HivePartition]) -> bool:
    """Returns whether the table has text, ``char``, several formats, or partitions in folders of other names.

    Scans by metadata units return a ``char`` as the file has it, with or without trailing spaces; some readers pad it.
    """
    formats = {each.format for each in partitions} or {table.format}
    if len(formats) > 1 or HiveFormat.TEXT in formats:
        return True
    if any(_CHAR.search(each.type) for each in (*(table.raw.sd.cols or ()), *(table.raw.partitionKeys or ()))):
        return True
    return any(_below(table, each) != _fold_names(folder_of(table, each)) for each in partitions)


def _below(table: HiveTable, partition: HivePartition) -> str:
    """Returns the folder of a partition relative to the table's; column names are in lower case."""
    return _fold_names(plain_location(partition.location).removeprefix(f"{plain_location(table.location)}/"))


def _fold_names(folder: str) -> str:
    return "/".join(f"{name.lower()}={value}" for name, _, value in (part.partition("=") for part in folder.split("/")))


def folder_of(table: HiveTable, partition: HivePartition) -> str:
    """Returns the folder, relative to the table's, that the values of a partition imply."""
    names = [each.name for each in table.raw.partitionKeys]
    return partition_name(list(zip(names, partition.values, strict=True)))


def _columns(table: HiveTable) -> Columns:
    """Returns the columns of all partitions: readers convert values to their types. OpenCSVSerde has only strings."""
    if table.raw.sd.serdeInfo.serializationLib != SerdeKind.CSV.value:
        return table.columns
    return tuple((name, HiveType("string")) for name, _ in table.columns)


def _places(table: HiveTable, partitions: Sequence[HivePartition]) -> Iterator[_Place]:
    if not table.is_partitioned:
        yield _Place(plain_location(table.location), _reading(table, table.raw.sd, table.format))
    for each in partitions:
        if len(each.values) != len(table.partition_columns):
            raise InvalidRequestError(f"{table} has a partition {list(each.values)}, which has not a value per column")
        yield _Place(plain_location(each.location), _reading(table, each.raw.sd, each.format), each.values)


def _reading(table: HiveTable, descriptor: StorageDescriptor, format_: HiveFormat | None) -> Reading:
    """Returns the way to read files. Raises InvalidRequestError for an unsupported format."""
    if format_ in MIGRATABLE:
        return format_
    if format_ is HiveFormat.TEXT:
        return text_serde(descriptor, table.parameters)
    raise InvalidRequestError(
        f"{table} has files in {descriptor.inputFormat or 'no format'}; Hive tables of Parquet, ORC, Avro and text can "
        "be analyzed"
    )


def _format(reading: Reading) -> HiveFormat:
    return HiveFormat.TEXT if isinstance(reading, TextSerde) else reading


def _bytes_read_of(file: FileToDescribe) -> int:
    """Returns the number of bytes to read of a file; footers count as 0."""
    return file.size if isinstance(file.reading, TextSerde) else 0


def _state(file: SourceFile, place: _Place) -> int:
    """Returns the file's time: whole seconds, and below these a number that depends on the file and its description."""
    below = number_of(repr((file.mtime_ns, place)), 8) % _STATE
    return file.mtime_ns // _STATE * _STATE + below


def _of_value(type_: HiveType, text: str, rows: int) -> ColumnStatistics:
    """Returns the statistics of a partition column in a file of ``rows`` rows; unknown for an invalid text."""
    sql_type = str(drill_type(type_))
    try:
        value: Any = typed_value(text, type_)
    except FormatError:
        return ColumnStatistics(minor_type(sql_type), rows=rows)
    if value is None:
        return column_statistics(sql_type, rows, Measures(None, None, rows), whole=True)
    bound = value if rows and type_.name != "char" else None
    return column_statistics(sql_type, rows, Measures(bound, bound, 0, exact=type_.name != "timestamp"), whole=True)
