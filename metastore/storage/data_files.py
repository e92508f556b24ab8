"""Reading data files together: those that are read in one go, and how.

Place in the flow: a plan names files; here they are grouped, and a group becomes rows. A table may have thousands of
tiny segments: their files are fetched whole, each in one round trip, and decoded from memory, for less than half of
what an Arrow dataset spends on them. Of larger files only the needed columns and row groups are fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs
from pyiceberg.io import FileIO

from metastore.bounds.embedded_columns import EmbeddedPlace
from metastore.config.reading import ReadSettings
from metastore.mapping.arrow import plain_arrow_schema
from metastore.mapping.row_test import RowTest
from metastore.mapping.rows import PartitionKey
from metastore.model.fields import Unit
from metastore.stores.files import arrow_paths

T = TypeVar("T")

FILES_AT_ONCE: Final = 32
"""Number of files fetched concurrently from a store with latency."""

_BATCHES_AHEAD: Final = 2
"""Most batches of a file with more rows that are decoded before they are asked for."""

_TINY: Final = 1 << 16
"""Bytes of a file of which the footer is a good part; the rest is not worth a second round trip."""


class PlannedFile(NamedTuple):
    """What a read needs to know of a data file: a hundredth of its manifest entry."""

    path: str
    rows: int
    size_bytes: int
    key: PartitionKey = ()
    """The partition that it is a file of."""
    digest: bytes | None = None
    """The digest of a segment in its manifest entry; see :mod:`metastore.mapping.segment_digest`."""
    columns: EmbeddedPlace | None = None
    """Where the file has its units as columns; see :mod:`metastore.bounds.embedded_columns`."""


class FilesToRead(NamedTuple):
    """Files that are read together; ``tiny`` if each is fetched whole."""

    paths: tuple[str, ...]
    rows: int
    size_bytes: int
    tiny: bool
    files: tuple[PlannedFile, ...] = ()
    """What is known of each."""


def grouped(files: Sequence[PlannedFile], limits: ReadSettings) -> Iterator[FilesToRead]:
    """Files that follow each other, as many as are one part by ``limits``, or one file that has more."""
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
    """The files of each partition, together: all of their columns, and so whole where they are no more than a part."""
    partitions: dict[PartitionKey, list[PlannedFile]] = {}
    for planned in files:
        partitions.setdefault(planned.key, []).append(planned)
    return {key: _all_of(own, limits) for key, own in partitions.items()}


def _is_a_part(rows: int, size_bytes: int, limits: ReadSettings) -> bool:
    return rows <= limits.part_rows and size_bytes <= limits.part_size


def _all_of(files: Sequence[PlannedFile], limits: ReadSettings) -> FilesToRead:
    rows, size_bytes = sum(planned.rows for planned in files), sum(planned.size_bytes for planned in files)
    tiny = _is_a_part(rows, size_bytes, limits)
    return FilesToRead(tuple(planned.path for planned in files), rows, size_bytes, tiny, tuple(files))


def together(group: Sequence[PlannedFile], limits: ReadSettings) -> FilesToRead:
    """``group`` as files that are read together, each of them whole where they are small."""
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
    """The rows of ``files`` that pass ``test``, which looks at columns of ``needed``; with ``columns``.

    Columns that a file lacks are null. Raises OSError and ArrowInvalid or ArrowTypeError as the store and Arrow do.
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
    """As many as there are in the bytes of a part, at most its rows."""
    return max(1, min(limits.part_rows, files.rows * limits.part_size // max(1, files.size_bytes)))


def _whole(io: FileIO, unit_type: type[Unit], locations: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """All rows of files in ``columns``, in one chunk: thousands of short ones cost Arrow much more."""
    wanted = _schema(unit_type, columns)
    return _joined(_each(io, locations, lambda content: _decoded(content, wanted)), wanted)


def fetched_columns(io: FileIO, files: Sequence[PlannedFile]) -> list[pa.Buffer]:
    """What stands at the place of each file's columns, which all have one. Raises OSError as the store does."""
    system, paths = arrow_paths(io, [planned.path for planned in files])

    def one(path: str, planned: PlannedFile) -> pa.Buffer:
        assert planned.columns is not None
        with system.open_input_file(path) as file:
            file.seek(planned.columns.offset)
            return file.read_buffer(planned.columns.length)

    return _mapped(system, one, paths, files)


def fetched(io: FileIO, locations: Sequence[str]) -> list[pa.Buffer]:
    """The content of whole files. Raises OSError as the store does."""
    return _each(io, locations, lambda content: content)


def rows_of(contents: Iterable[pa.Buffer], unit_type: type[Unit], columns: Sequence[str]) -> pa.Table:
    """The rows of files that were :func:`fetched`, in ``columns``. Raises as :func:`batches_of`."""
    wanted = _schema(unit_type, columns)
    return _joined([_decoded(content, wanted) for content in contents], wanted)


def _schema(unit_type: type[Unit], columns: Sequence[str]) -> pa.Schema:
    types = plain_arrow_schema(unit_type)
    return pa.schema([types.field(name) for name in columns])


def _each(io: FileIO, locations: Sequence[str], made_of: Callable[[pa.Buffer], T]) -> list[T]:
    """What is made of each file's content; several at a time where there is something to wait for."""
    system, paths = arrow_paths(io, locations)

    def one(path: str) -> T:
        with system.open_input_file(path) as file:
            return made_of(file.read_buffer())

    return _mapped(system, one, paths)


def _mapped(system: fs.FileSystem, one: Callable[..., T], *arguments: Iterable[Any]) -> list[T]:
    """``one`` of each; several at a time where there is something to wait for."""
    if isinstance(system, fs.LocalFileSystem):
        return list(map(one, *arguments))
    with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
        return list(threads.map(one, *arguments))


def _decoded(content: pa.Buffer, wanted: pa.Schema) -> pa.Table:
    with pq.ParquetFile(pa.BufferReader(content)) as parquet:
        # Those that the file does not have are not asked for.
        table = parquet.read(wanted.names, use_threads=False)
    # Arrow would forget how many rows they are when it joins tables without a column.
    return table if table.num_columns else _in_columns(table, wanted)


def _joined(tables: Sequence[pa.Table], wanted: pa.Schema) -> pa.Table:
    # A release of the format wrote most of them, so they are brought into the columns together.
    alike = [pa.concat_tables(run) for _, run in groupby(tables, lambda table: table.schema)]
    return pa.concat_tables([_in_columns(table, wanted) for table in alike] or [wanted.empty_table()]).combine_chunks()


def _in_columns(table: pa.Table, wanted: pa.Schema) -> pa.Table:
    here = set(table.schema.names)
    columns = [table[field.name] if field.name in here else pa.nulls(table.num_rows, field.type) for field in wanted]
    # Which casts those that are of another type.
    return pa.table(columns, schema=wanted)


def _dataset(io: FileIO, unit_type: type[Unit], locations: Sequence[str]) -> ds.Dataset:
    """Data files as one dataset with the columns of the unit; those that a file lacks are null."""
    filesystem, paths = arrow_paths(io, locations)
    parquet = ds.ParquetFileFormat()
    fragments = [parquet.make_fragment(path, filesystem) for path in paths]
    return ds.FileSystemDataset(fragments, plain_arrow_schema(unit_type), parquet, filesystem)
