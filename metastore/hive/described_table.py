"""Hive tables of text or with ``char``, and of partitions in several formats or places: each by its own descriptor.

Their directories say nothing by which units could be kept. The table itself says what is in its files, partition
columns included, as an Iceberg table does (:class:`metastore.sources.provided.Provided`). What the metastore's service
says of a partition (format, SerDe, delimiters, values, types) goes into the state of its files: when that is altered,
they count as changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from hive_metastore.ttypes import StorageDescriptor

from metastore.digests import number_of
from metastore.engine import Engine
from metastore.errors import FormatError, InvalidRequestError, NotFoundError
from metastore.formats.source_file import SourceFile
from metastore.hive.described_files import FRAGMENT, DescribedChunk, FileToDescribe, Reading, describe
from metastore.hive.listing import plain_location
from metastore.hive.partitions import partition_name, typed_value
from metastore.hive.tables import MIGRATABLE, Columns, FileFormat, HivePartition, HiveTable
from metastore.hive.text.serdes import Rows, TextSerde, text_serde
from metastore.hive.types import HiveType, drill_type, leaves_of
from metastore.model.column_path import ColumnPath, quote
from metastore.model.drill_types import minor_type
from metastore.model.statistics import ColumnStatistics, parse_many
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.sources.listing import list_files
from metastore.sources.provided import Measures, ProvidedFile, column_statistics

MIXED: Final = "HIVE"
"""The table type of a table whose partitions have several formats."""

_CHAR: Final = re.compile(r"\bchar\(", re.IGNORECASE)
_THREADS: Final = 16
_CHUNK_BYTES: Final = 32 << 20
_CHUNK_FILES: Final = 100
_STATE: Final = 1_000_000_000


@dataclass(frozen=True)
class _Place:
    """A folder with files: the table's, or a partition's with its ``values``."""

    location: str
    reading: Reading
    values: tuple[str, ...] = ()


class DescribedTable:
    """One such table, as the service described it; ``engine`` is asked for when there is something to read."""

    def __init__(
        self,
        table: HiveTable,
        partitions: Sequence[HivePartition],
        options: Mapping[str, str],
        engine: Callable[[int], Engine],
    ) -> None:
        """InvalidRequestError for a partition in a format that is not known, FormatError for such a SerDe or type."""
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
        """As :attr:`metastore.sources.provided.Provided.schema`; the columns of partitions are the last."""
        columns = (*self._columns, *self._table.partition_columns)
        return TupleSchema(tuple(SchemaColumn(name, str(drill_type(type_)), False, {}) for name, type_ in columns))

    def files(self) -> Sequence[SourceFile]:
        """As :meth:`metastore.sources.provided.Provided.files`."""
        return sorted(self._listed)

    def contents(
        self,
        files: Sequence[SourceFile],
        columns: Sequence[ColumnPath] | None = None,
    ) -> Iterator[ProvidedFile]:
        """As :meth:`metastore.sources.provided.Provided.contents`; FormatError naming a file that cannot be read."""
        files = list(files)
        for batch in self._engine(len(files)).run(list(self._chunks(files)), describe, FRAGMENT):
            for row in batch.to_pylist():
                yield self._content(files[row["number"]], row["rows"], row["statistics"])

    def modified_times(self) -> None:
        """As :meth:`metastore.sources.provided.Provided.modified_times`."""

    def _content(self, file: SourceFile, rows: int, texts: Sequence[str | None]) -> ProvidedFile:
        place = self._listed[file]
        known = zip(leaves_of(self._columns), parse_many(texts), strict=True)
        statistics = {quote(leaf.path): each for leaf, each in known if each is not None}
        for (name, type_), text in zip(self._table.partition_columns, place.values, strict=True):
            statistics[quote((name,))] = _of_value(type_, text, rows)
        return ProvidedFile(file, self.schema, statistics, rows)

    def _chunks(self, files: Sequence[SourceFile]) -> Iterator[DescribedChunk]:
        """Files of some size or number altogether."""
        chunk: list[FileToDescribe] = []
        size = 0
        for number, file in enumerate(files):
            each = FileToDescribe(number, file.path, file.size, self._listed[file].reading)
            if chunk and (len(chunk) == _CHUNK_FILES or size + _bytes_read_of(each) > _CHUNK_BYTES):
                yield DescribedChunk(self._columns, chunk, self._options)
                chunk, size = [], 0
            chunk.append(each)
            size += _bytes_read_of(each)
        if chunk:
            yield DescribedChunk(self._columns, chunk, self._options)

    @cached_property
    def _listed(self) -> dict[SourceFile, _Place]:
        """The files with the places where they lie; what is nested deeper is not Hive's. InvalidRequestError."""
        with ThreadPoolExecutor(_THREADS) as threads:
            listed = threads.map(self._files, self._places)
        found = {file: place for place, files in zip(self._places, listed, strict=True) for file in files}
        if len({file.path for file in found}) < len(found):
            raise InvalidRequestError(f"{self._table} cannot be analyzed: files are in more than one of its partitions")
        return found

    def _files(self, place: _Place) -> list[SourceFile]:
        try:
            found = list_files(place.location, lambda _: False, options=self._options).files
        except NotFoundError:  # a partition may be known before its first file
            return []
        inside = f"{self.location}/"
        return [
            SourceFile((), file.path.removeprefix(inside), file.path, file.size, _state(file, place))
            for file in found
            if not file.directories
        ]


def needs_description(table: HiveTable, partitions: Sequence[HivePartition]) -> bool:
    """Whether files are text, of several formats, not in the folders that their values name, or padded by readers.

    Units and scans take files as they are: there a ``char`` is what the file has, with spaces at its end or without.
    """
    formats = {each.format for each in partitions} or {table.format}
    if len(formats) > 1 or FileFormat.TEXT in formats:
        return True
    if any(_CHAR.search(each.type) for each in (*(table.raw.sd.cols or ()), *(table.raw.partitionKeys or ()))):
        return True
    return any(_below(table, each) != _folded(folder_of(table, each)) for each in partitions)


def _below(table: HiveTable, partition: HivePartition) -> str:
    """The folder of a partition below the table's, in which columns may be spelled in any case."""
    return _folded(plain_location(partition.location).removeprefix(f"{plain_location(table.location)}/"))


def _folded(folder: str) -> str:
    return "/".join(f"{name.lower()}={value}" for name, _, value in (part.partition("=") for part in folder.split("/")))


def folder_of(table: HiveTable, partition: HivePartition) -> str:
    """The folder below the table's that the values of a partition name."""
    names = [each.name for each in table.raw.partitionKeys]
    return partition_name(list(zip(names, partition.values, strict=True)))


def _columns(table: HiveTable) -> Columns:
    """The columns of all partitions: readers convert what is in them to the table's, and OpenCSVSerde has but texts."""
    if table.raw.sd.serdeInfo.serializationLib != Rows.CSV.value:
        return table.columns
    return tuple((name, HiveType("string")) for name, _ in table.columns)


def _places(table: HiveTable, partitions: Sequence[HivePartition]) -> Iterator[_Place]:
    if not table.is_partitioned:
        yield _Place(plain_location(table.location), _reading(table, table.raw.sd, table.format))
    for each in partitions:
        if len(each.values) != len(table.partition_columns):
            raise InvalidRequestError(f"{table} has a partition {list(each.values)}, which has not a value per column")
        yield _Place(plain_location(each.location), _reading(table, each.raw.sd, each.format), each.values)


def _reading(table: HiveTable, descriptor: StorageDescriptor, format_: FileFormat | None) -> Reading:
    """How files are read."""
    if format_ in MIGRATABLE:
        return format_
    if format_ is FileFormat.TEXT:
        return text_serde(descriptor, table.parameters)
    raise InvalidRequestError(
        f"{table} has files in {descriptor.inputFormat or 'no format'}; Hive tables of Parquet, ORC, Avro and text can "
        "be analyzed"
    )


def _format(reading: Reading) -> FileFormat:
    return FileFormat.TEXT if isinstance(reading, TextSerde) else reading


def _bytes_read_of(file: FileToDescribe) -> int:
    """How many bytes are read of a file: of formats with footers, as good as none."""
    return file.size if isinstance(file.reading, TextSerde) else 0


def _state(file: SourceFile, place: _Place) -> int:
    """The file's time to the second, and below that what differs when the file or its description does."""
    below = number_of(repr((file.mtime_ns, place)), 8) % _STATE
    return file.mtime_ns // _STATE * _STATE + below


def _of_value(type_: HiveType, text: str, rows: int) -> ColumnStatistics:
    """A partition column in a file of ``rows`` rows; nothing is said of a text that is no value."""
    minor = minor_type(str(drill_type(type_)))
    try:
        value: Any = typed_value(text, type_)
    except FormatError:
        return ColumnStatistics(minor, rows=rows)
    if value is None:
        return column_statistics(minor, rows, Measures(None, None, rows), whole=True)
    bound = value if rows and type_.name != "char" else None
    return column_statistics(minor, rows, Measures(bound, bound, 0, exact=type_.name != "timestamp"), whole=True)
