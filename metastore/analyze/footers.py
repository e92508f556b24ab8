"""The task that runs on an engine: a chunk of files -> unit rows made from their footers.

For every file its FILE row and its ROW_GROUP rows, as they will be stored; and, so that the driver has little left to
do, for every directory and schema of the chunk one SEGMENT row with what its files add up to: merged statistics, and
the files. :mod:`metastore.analyze.rollup` adds such parts up across chunks.

Promises: nothing but footers is read; a file that is no Parquet file ends the task with a FormatError naming it; a
bound is never wrong (:mod:`metastore.analyze.parquet_columns`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow._parquet import ParquetReader  # the reader beneath pq.ParquetFile, which takes a third longer per footer

from metastore.analyze.parquet_columns import Bounds, Plan, combined
from metastore.analyze.unit_rows import UnitRow, to_batch
from metastore.errors import FormatError, NotFoundError, StorageError
from metastore.model.column_path import ColumnPath
from metastore.model.identity import (
    TableInfo,
    file_identifier,
    metadata_key,
    row_group_identifier,
    segment_identifier,
)
from metastore.model.statistics_json import holder_json
from metastore.model.vocabulary import MetadataType, Statistic
from metastore.sources.listing import SourceFile, open_location

_FETCHES: Final = 16
"""Footers fetched at once from a store that is not the local disk: there, waiting is what takes the time."""


@dataclass(frozen=True)
class FooterChunk:
    """Files of one table whose footers one task reads; plain data, in the listing's order.

    ``location`` is the table's, ``schema`` that of the rows to return. ``columns`` None means all columns'
    statistics. Rows of row groups come only beside those of files.
    """

    table: TableInfo
    location: str
    schema: pa.Schema
    files: Sequence[SourceFile]
    columns: Sequence[ColumnPath] | None = None
    file_rows: bool = True
    row_group_rows: bool = True
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_footers(chunk: FooterChunk) -> Iterator[pa.RecordBatch]:
    """The chunk's fragments, which are unit rows: those of files and row groups (if wanted), then those of segments.

    Raises FormatError for a file that is no readable Parquet file, NotFoundError for one that is gone, StorageError
    when the store fails; each names the file.
    """
    reader = _FooterReader(chunk)
    for directories, files in groupby(chunk.files, attrgetter("directories")):
        reader.read_directory(directories, list(files))
    for rows in (reader.rows, reader.segments):
        if rows:
            yield to_batch(chunk.schema, chunk.table, rows)


class _Part:
    """What the files of one directory and one schema have come to so far."""

    def __init__(self, plan: Plan) -> None:
        self.files: list[SourceFile] = []
        self.rows: list[int] = []
        self.bounds: list[list[Bounds]] = [[] for _ in plan.leaves]
        self.mtime = 0


class _FooterReader:
    def __init__(self, chunk: FooterChunk) -> None:
        self.rows: list[UnitRow] = []
        self.segments: list[UnitRow] = []
        self._chunk = chunk
        self._plans: list[Plan] = []

    def read_directory(self, directories: tuple[str, ...], files: Sequence[SourceFile]) -> None:
        parts: dict[int, _Part] = {}
        for file, metadata in zip(files, self._footers(files), strict=True):
            self._add(file, metadata, parts)
        for plan in self._plans:
            if part := parts.get(id(plan)):
                self.segments.append(_segment(directories, plan, part))

    def _add(self, file: SourceFile, metadata: pq.FileMetaData, parts: dict[int, _Part]) -> None:
        """Read one file's footer into its rows and into the part of its schema, by the identity of the plan."""
        try:
            plan = self._plan(metadata)
            self._read_file(file, metadata, plan, parts.setdefault(id(plan), _Part(plan)))
        except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError, ValueError) as error:
            raise _unreadable(file, error) from error

    def _footers(self, files: Sequence[SourceFile]) -> Iterator[pq.FileMetaData]:
        """The footers of ``files`` in their order, one by one from the local disk, several at once from elsewhere."""
        location = self._chunk.location
        if location.startswith("/"):
            yield from (_footer(file, file.path) for file in files)
            return
        store, root = open_location(location, self._chunk.options)

        def fetch(file: SourceFile) -> pq.FileMetaData:
            try:
                with store.open_input_file(root + file.path[len(location) :]) as source:
                    return _footer(file, source)
            except OSError as error:
                raise _unreadable(file, error) from error

        with ThreadPoolExecutor(_FETCHES) as threads:
            yield from threads.map(fetch, files)

    def _plan(self, metadata: pq.FileMetaData) -> Plan:
        for plan in self._plans:
            if plan.fits(metadata):
                return plan
        plan = Plan.of(metadata, self._chunk.columns)
        self._plans.append(plan)
        return plan

    def _read_file(self, file: SourceFile, metadata: pq.FileMetaData, plan: Plan, part: _Part) -> None:
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        counts = [group.num_rows for group in groups]
        chunks = [[group.column(index) for index in range(group.num_columns)] for group in groups]
        measured = []
        for position, leaf in enumerate(plan.leaves):
            of_groups = [leaf.measure(of_group[leaf.index]) for of_group in chunks]
            of_file = of_groups[0] if len(groups) == 1 else combined(of_groups)
            part.bounds[position].append(of_file)
            measured.append((leaf, of_groups, of_file))
        part.files.append(file)
        part.rows.append(metadata.num_rows)
        modified = file.mtime_ns // 1_000_000
        part.mtime = max(part.mtime, modified)
        if not self._chunk.file_rows:
            return
        key = metadata_key(file.directories)
        parent = file.path[: -len(file.name) - 1]
        texts = [leaf.json(of_file, metadata.num_rows) for leaf, _, of_file in measured]
        self.rows.append(
            UnitRow(
                MetadataType.FILE,
                key,
                file_identifier(file.directories, file.name),
                plan.schema_json,
                plan.keys,
                texts,
                (
                    _HOLDERS[Statistic.ROW_COUNT] % metadata.num_rows,
                    _HOLDERS[Statistic.LENGTH] % file.size,
                    _HOLDERS[Statistic.MODIFICATION_TIME_NANOS] % file.mtime_ns,
                ),
                modified,
                parent,
                file.path,
            )
        )
        if not self._chunk.row_group_rows:
            return
        for index, of_group in enumerate(chunks):
            start, length = _extent(of_group)
            self.rows.append(
                UnitRow(
                    MetadataType.ROW_GROUP,
                    key,
                    row_group_identifier(file.directories, file.name, index),
                    plan.schema_json,
                    plan.keys,
                    # The only row group of a file says what the file says.
                    texts if len(groups) == 1 else [leaf.json(of[index], counts[index]) for leaf, of, _ in measured],
                    (
                        _HOLDERS[Statistic.ROW_COUNT] % counts[index],
                        _HOLDERS[Statistic.START] % start,
                        _HOLDERS[Statistic.LENGTH] % length,
                    ),
                    modified,
                    parent,
                    file.path,
                    index,
                )
            )


def _segment(directories: tuple[str, ...], plan: Plan, part: _Part) -> UnitRow:
    rows = sum(part.rows)
    return UnitRow(
        MetadataType.SEGMENT,
        metadata_key(directories),
        segment_identifier(directories),
        plan.schema_json,
        plan.keys,
        [leaf.json(combined(bounds), rows) for leaf, bounds in zip(plan.leaves, part.bounds, strict=True)],
        (_HOLDERS[Statistic.ROW_COUNT] % rows,),
        part.mtime,
        locations=[file.path for file in part.files],
        partitionValues=directories,
    )


def _footer(file: SourceFile, source: str | pa.NativeFile) -> pq.FileMetaData:
    try:
        reader = ParquetReader()
        reader.open(source)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file, error) from error
    return reader.metadata


def _unreadable(file: SourceFile, error: Exception) -> FormatError | NotFoundError | StorageError:
    if isinstance(error, FileNotFoundError):
        return NotFoundError(f"{file.path} is gone since the table was listed; run ANALYZE again")
    # pyarrow reports a broken footer as an OSError too, but only the system's own errors carry a number.
    if isinstance(error, OSError) and error.errno is not None:
        return StorageError(f"cannot read {file.path}: {error}")
    return FormatError(f"{file.path} is no readable Parquet file: {error}")


def _extent(chunks: Sequence[pq.ColumnChunkMetaData]) -> tuple[int, int]:
    """Where a row group's first page starts in the file, and its length, both in bytes."""
    if not chunks:
        return 0, 0
    first = chunks[0]
    # Some writers leave the dictionary's offset out, and it is 0 then: no page can start there.
    start = (first.dictionary_page_offset if first.has_dictionary_page else 0) or first.data_page_offset
    return start, sum([chunk.total_compressed_size for chunk in chunks])


_BLANK = 10**18
_HOLDERS = {
    name: holder_json(name, _BLANK).replace(str(_BLANK), "%d")
    for name in (Statistic.ROW_COUNT, Statistic.START, Statistic.LENGTH, Statistic.MODIFICATION_TIME_NANOS)
}
"""The model's own JSON of a count, with a blank for the count."""
