"""Reading data files in groups: which files are read together, and how.

A plan names files; this module groups them and reads a group as rows. A table may have thousands of tiny segments.
Their files are fetched whole, each in one round trip, and decoded from memory, in less than half of the time of an
Arrow dataset. Of larger files only the needed columns and row groups are fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs
from pyiceberg.io import FileIO

from metastore.config.reading import ReadSettings
from metastore.ground.threads import Threads
from metastore.lake.stores.files import arrow_paths
from metastore.model.bounds.embedded_place import EmbeddedPlace
from metastore.model.fields import Unit
from metastore.model.mapping.arrow import plain_arrow_schema
from metastore.model.mapping.row_test import RowTest
from metastore.model.mapping.rows import PartitionKey

T = TypeVar("T")

FILES_AT_ONCE: Final = 32
"""Number of files fetched concurrently from a store with latency."""

_BATCHES_AHEAD: Final = 2
"""Batches that are decoded ahead of the caller, for a file with more rows than one batch."""

_TINY: Final = 1 << 16
"""A file up to this size is fetched whole: its footer is a large part of it, so a second round trip does not pay."""


class PlannedFile(NamedTuple):
    """The facts of a data file that a read needs; a hundredth of its manifest entry."""

    path: str
    rows: int
    size_bytes: int
    key: PartitionKey = ()
    """The partition of the file."""
    digest: bytes | None = None
    """The digest of a segment in its manifest entry; see :mod:`metastore.model.mapping.segment_digest`."""
    place: bytes | None = None
    """The stored place of the embedded columns in its manifest entry."""
    sequence_number: int = 0
    """The sequence number of the version that wrote the file."""

    @property
    def columns(self) -> EmbeddedPlace | None:
        """Place of the embedded columns in the file; see :mod:`metastore.model.bounds.embedded_columns`.

        It is decoded on access: a table has as many planned files as segments, and each object costs the garbage
        collector its time.
        """
        return EmbeddedPlace.from_bytes(self.place)


class FilesToRead(NamedTuple):
    """Files that are read together; ``tiny`` if each is fetched whole."""

    paths: tuple[str, ...]
    rows: int
    size_bytes: int
    tiny: bool
    planned: tuple[PlannedFile, ...] = ()
    """Facts of each file, if it is read as planned."""


def group_files(files: Sequence[PlannedFile], limits: ReadSettings) -> Iterator[FilesToRead]:
    """Yield runs of consecutive files that fit one part by ``limits``; a larger file is a group of its own."""
    group: list[PlannedFile] = []
    rows = size_bytes = 0
    for planned in files:
        if group and not _is_a_part(rows + planned.rows, size_bytes + planned.size_bytes, limits):
            yield together(group, limits)
            group, rows, size_bytes = [], 0, 0
        group.append(planned)
        rows += planned.rows
        size_bytes += planned.size_bytes
    if group:
        yield together(group, limits)


def by_partition(files: Iterable[PlannedFile], limits: ReadSettings) -> dict[PartitionKey, FilesToRead]:
    """Return each partition's files as one group with all columns; files no larger than a part are fetched whole."""
    partitions: dict[PartitionKey, list[PlannedFile]] = {}
    for planned in files:
        partitions.setdefault(planned.key, []).append(planned)
    groups = {key: together(own, limits) for key, own in partitions.items()}
    return {key: group._replace(tiny=_is_a_part(group.rows, group.size_bytes, limits)) for key, group in groups.items()}


def _is_a_part(rows: int, size_bytes: int, limits: ReadSettings) -> bool:
    return rows <= limits.part_rows and size_bytes <= limits.part_size


def together(group: Sequence[PlannedFile], limits: ReadSettings) -> FilesToRead:
    """Return ``group`` as one read; the files are fetched whole if they are small."""
    rows, size_bytes = sum(planned.rows for planned in group), sum(planned.size_bytes for planned in group)
    tiny = rows <= limits.part_rows and all(planned.size_bytes <= _TINY for planned in group)
    return FilesToRead(tuple(planned.path for planned in group), rows, size_bytes, tiny, tuple(group))


def batches_of(
    io: FileIO,
    unit_type: type[Unit],
    files: FilesToRead,
    columns: Sequence[str],
    needed: Sequence[str],
    test: RowTest,
    limits: ReadSettings,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ``files`` that pass ``test``, in ``columns``; ``test`` uses columns of ``needed``.

    Columns that a file lacks are null. Raises OSError and ArrowInvalid or ArrowTypeError from the store and Arrow.
    """
    if files.tiny:
        yield from test.passing(_whole(io, unit_type, files.paths, needed)).select(list(columns)).to_batches()
        return
    scanner = _dataset(io, unit_type, files.paths).scanner(
        list(columns),
        filter=test.expression,
        batch_size=_rows_of_a_batch(files, limits),
        batch_readahead=_BATCHES_AHEAD,
        cache_metadata=False,
    )
    yield from scanner.to_batches()


def _rows_of_a_batch(files: FilesToRead, limits: ReadSettings) -> int:
    """Return how many rows fit into the bytes of a part, at most its limit of rows."""
    return max(1, min(limits.part_rows, files.rows * limits.part_size // max(1, files.size_bytes)))


def _whole(io: FileIO, unit_type: type[Unit], locations: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """Return all rows of files in ``columns``, as one chunk: Arrow is much slower with thousands of short ones."""
    wanted = _schema(unit_type, columns)
    return _concat_tables(_each(io, locations, lambda content: _decode_table(content, wanted)), wanted)


def fetched_columns(io: FileIO, files: Sequence[PlannedFile]) -> list[pa.Buffer]:
    """Return the bytes of each file's embedded columns; all files have them. Raises OSError from the store."""
    system, paths = arrow_paths(io, [planned.path for planned in files])

    def one(path: str, planned: PlannedFile) -> pa.Buffer:
        assert planned.columns is not None
        with system.open_input_file(path) as file:
            file.seek(planned.columns.offset)
            return file.read_buffer(planned.columns.length)

    return _map_files(system, one, paths, files)


def fetch_files(io: FileIO, locations: Sequence[str]) -> list[pa.Buffer]:
    """Return the content of whole files. Raises OSError from the store."""
    return _each(io, locations, lambda content: content)


def rows_of(contents: Iterable[pa.Buffer], unit_type: type[Unit], columns: Sequence[str]) -> pa.Table:
    """Return the rows of files that :func:`fetch_files` returned, in ``columns``. Raises as :func:`batches_of`."""
    wanted = _schema(unit_type, columns)
    return _concat_tables([_decode_table(content, wanted) for content in contents], wanted)


def _schema(unit_type: type[Unit], columns: Sequence[str]) -> pa.Schema:
    types = plain_arrow_schema(unit_type)
    return pa.schema([types.field(name) for name in columns])


def _each(io: FileIO, locations: Sequence[str], made_of: Callable[[pa.Buffer], T]) -> list[T]:
    """Call ``made_of`` on each file's content; several at a time if the store has latency."""
    system, paths = arrow_paths(io, locations)

    def one(path: str) -> T:
        with system.open_input_file(path) as file:
            return made_of(file.read_buffer())

    return _map_files(system, one, paths)


def _map_files(system: fs.FileSystem, one: Callable[..., T], *arguments: Iterable[Any]) -> list[T]:
    """Call ``one`` for each item; several at a time if the store has latency."""
    if isinstance(system, fs.LocalFileSystem):
        return list(map(one, *arguments))
    with Threads(FILES_AT_ONCE) as threads:
        return list(threads.map(one, *arguments))


def _decode_table(content: pa.Buffer, schema: pa.Schema) -> pa.Table:
    with pq.ParquetFile(pa.BufferReader(content)) as parquet:
        # Do not ask for columns that the file does not have.
        table = parquet.read(schema.names, use_threads=False)
    # Arrow loses the number of rows when it concatenates tables without columns.
    return table if table.num_columns else _in_columns(table, schema)


def _concat_tables(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    # Most have the same types, those of one release of the format, so they are cast together.
    alike = [pa.concat_tables(run) for _, run in groupby(tables, lambda table: table.schema)]
    return pa.concat_tables([_in_columns(table, schema) for table in alike] or [schema.empty_table()]).combine_chunks()


def _in_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    here = set(table.schema.names)
    columns = [table[field.name] if field.name in here else pa.nulls(table.num_rows, field.type) for field in schema]
    # This casts tables of other types.
    return pa.table(columns, schema=schema)


def _dataset(io: FileIO, unit_type: type[Unit], locations: Sequence[str]) -> ds.Dataset:
    """Return data files as one dataset with the columns of the unit; columns that a file lacks are null."""
    filesystem, paths = arrow_paths(io, locations)
    parquet = ds.ParquetFileFormat()
    fragments = [parquet.make_fragment(path, filesystem) for path in paths]
    return ds.FileSystemDataset(fragments, plain_arrow_schema(unit_type), parquet, filesystem)
