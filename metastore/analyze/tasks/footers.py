"""The task that runs on an engine: from a chunk of files to unit rows made from their footers.

For every file, the task makes its FILE row and its ROW_GROUP rows, in the form in which they are stored. For every
directory and schema of the chunk, it also makes one SEGMENT row with the files' merged statistics and their paths. The
driver then has little left to do: :mod:`metastore.analyze.units.rollup` adds these parts up across chunks.

Promises: the task reads only footers, and the data of columns that ``bounds`` wants read. A file that is not Parquet
ends the task with a FormatError naming it. A bound is never wrong
(:mod:`metastore.lake.formats.parquet.parquet_columns`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from metastore.analyze.units.unit_rows import UnitRow, to_batch
from metastore.engines.expendable import is_expendable
from metastore.ground.threads import Threads
from metastore.lake.formats.accepted_files import accepted_file
from metastore.lake.formats.bounds_from_data import FOOTERS, BoundsFrom, lacks, measured_groups
from metastore.lake.formats.parquet.int96_moments import changed_leaves, int96_leaves
from metastore.lake.formats.parquet.parquet_columns import Bounds, combine_bounds
from metastore.lake.formats.parquet.parquet_footer import Footer, read_footer
from metastore.lake.formats.parquet.parquet_plans import FooterPlan, plans_of
from metastore.lake.formats.source_file import SourceFile
from metastore.lake.stores.arrow import open_location
from metastore.lake.stores.read_errors import UNREADABLE, is_of_store, reading_file
from metastore.model.column_path import ColumnPath, is_among
from metastore.model.identity import (
    TableInfo,
    file_identifier,
    metadata_key,
    row_group_identifier,
    segment_identifier,
)
from metastore.model.statistics import ColumnStatistics, merge
from metastore.model.statistics_json import holder_pattern
from metastore.model.tuple_schema import HELD
from metastore.model.vocabulary import MetadataType, Statistic
from metastore.sources.table_columns import TableColumns, as_kept

_ROW_COUNT: Final = holder_pattern(Statistic.ROW_COUNT)
_START: Final = holder_pattern(Statistic.START)
_LENGTH: Final = holder_pattern(Statistic.LENGTH)
_MODIFICATION_TIME_NANOS: Final = holder_pattern(Statistic.MODIFICATION_TIME_NANOS)
_NO_HOSTS: Final[Mapping[str, float]] = {}
"""The hosts of the row group's blocks are unknown; Drill rejects a row group without this field."""

_FETCHES: Final = 16
"""Number of footers fetched concurrently from a store that is not the local disk; there, latency dominates."""


@dataclass(frozen=True)
class FooterChunk:
    """Files of one table whose footers one task reads; plain data, in the listing's order.

    ``location`` is the table's, ``schema`` that of the rows to return. ``columns`` None means statistics of all
    columns. Row group rows come only together with file rows. ``bounds`` says where data is read for bounds.
    """

    table: TableInfo
    location: str
    schema: pa.Schema
    files: Sequence[SourceFile]
    columns: Sequence[ColumnPath] | None = None
    file_rows: bool = True
    row_group_rows: bool = True
    bounds: BoundsFrom = FOOTERS
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    kept: TableColumns | None = None
    """The table's columns as its catalog defines them, if it does; ``columns`` then have the catalog's names."""


def read_footers(chunk: FooterChunk) -> Iterator[pa.RecordBatch]:
    """Returns one batch of unit rows: those of files and row groups (if wanted), then the chunk's segment fragments.

    In both parts, rows of one directory are adjacent. Raises FormatError for an unreadable Parquet file, NotFoundError
    for a missing file, and StorageError if the store fails; each names the file.
    """
    reader = _FooterReader(chunk)
    footers = _footers(chunk)
    for directories, files in groupby(chunk.files, attrgetter("directories")):
        reader.read_directory(directories, zip(files, footers))  # noqa: B905 - footers go on in the next directory
    if reader.segments:
        yield to_batch(chunk.schema, chunk.table, [*reader.rows, *reader.segments])


class _Part:
    """What is known so far of one directory's files of one schema; bounds are indexed by leaf, then by container."""

    def __init__(self, plan: FooterPlan) -> None:
        self.plan = plan
        self.files: list[SourceFile] = []
        self.rows: list[int] = []
        self.bounds: list[list[Bounds]] = [[] for _ in plan.leaves]
        self.groups: list[_Group] = []
        self.of_data: dict[int, dict[int, ColumnStatistics]] = {}
        """Statistics from data: by the leaf's place in the plan, then by the row group's place in ``groups``."""
        self.group_bounds: list[list[Bounds]] = [[] for _ in plan.leaves]
        self._columns = [
            (leaf.index, leaf.measure, bounds) for leaf, bounds in zip(plan.leaves, self.group_bounds, strict=True)
        ]

    def add(self, file: SourceFile, metadata: pq.FileMetaData) -> None:
        """Takes in the footer of ``file``. Raises ValueError if the footer contradicts its own schema."""
        count = metadata.num_row_groups
        for index in range(count):
            group = metadata.row_group(index)
            chunks = [group.column(position) for position in range(group.num_columns)]
            rows = group.num_rows
            for position, measure, bounds in self._columns:
                bounds.append(measure(chunks[position], rows))
            self.groups.append(_Group(file, index, rows, *_extent(chunks)))
        for of_groups, bounds in zip(self.group_bounds, self.bounds, strict=True):
            bounds.append(of_groups[-1] if count == 1 else combine_bounds(of_groups[len(of_groups) - count :]))
        self.files.append(file)
        self.rows.append(metadata.num_rows)

    def lacking(self, bounds: BoundsFrom, count: int) -> dict[int, list[int]]:
        """For the last file, with ``count`` row groups: the leaves (places) and row groups whose data must be read."""
        first = len(self.groups) - count
        found: dict[int, list[int]] = {}
        for place, leaf in enumerate(self.plan.leaves):
            if bounds.reads(leaf):
                groups = [number for number in range(count) if lacks(leaf, self.group_bounds[place][first + number])]
                if groups:
                    found[place] = groups
        return found

    def take(self, measured: Mapping[tuple[int, int], ColumnStatistics], lacking: Iterable[int], count: int) -> None:
        """Takes in the statistics ``measured`` in the last file, by the leaf's index and the row group."""
        first = len(self.groups) - count
        for place in lacking:
            index = self.plan.leaves[place].index
            of_leaf = {first + group: found for (number, group), found in measured.items() if number == index}
            if of_leaf:
                self.of_data.setdefault(place, {}).update(of_leaf)

    def group_statistics(self, place: int, number: int) -> ColumnStatistics:
        """The statistics of one leaf in one row group; from data if it was read."""
        found = self.of_data.get(place, {}).get(number)
        if found is not None:
            return found
        return self.plan.leaves[place].statistics(self.group_bounds[place][number], self.groups[number].rows)

    def file_texts(self, place: int) -> dict[int, str]:
        """The JSON of a leaf's statistics in the files whose data was read, by the file's place."""
        known = self.of_data.get(place)
        if not known:
            return {}
        by_file: dict[str, list[int]] = {}
        for number, group in enumerate(self.groups):
            by_file.setdefault(group.file.path, []).append(number)
        return {
            at: _whole([self.group_statistics(place, number) for number in by_file[file.path]]).to_json()
            for at, file in enumerate(self.files)
            if not known.keys().isdisjoint(by_file.get(file.path, ()))
        }

    def group_texts(self, place: int) -> dict[int, str]:
        """The JSON of a leaf's statistics in the row groups whose data was read, by the group's place."""
        return {number: found.to_json() for number, found in self.of_data.get(place, {}).items()}

    def segment_text(self, place: int) -> str:
        """The JSON of a leaf's statistics in all files of the part."""
        if self.of_data.get(place):
            return _whole([self.group_statistics(place, number) for number in range(len(self.groups))]).to_json()
        return self.plan.leaves[place].texts([combine_bounds(self.bounds[place])], [sum(self.rows)])[0]


def _whole(parts: Sequence[ColumnStatistics]) -> ColumnStatistics:
    """``parts`` merged; ``rows`` is left out if nulls and values give it, as everywhere."""
    merged = merge(parts)
    known = merged.nulls is not None and merged.non_nulls is not None
    return replace(merged, rows=None if known else merged.rows)


class _Group(NamedTuple):
    """One row group: its number within ``file``, its rows, and its position in the file, in bytes."""

    file: SourceFile
    number: int
    rows: int
    start: int
    length: int


class _FooterReader:
    def __init__(self, chunk: FooterChunk) -> None:
        self.rows: list[UnitRow] = []
        self.segments: list[UnitRow] = []
        self._chunk = chunk
        self._plans = plans_of(None if chunk.columns is None or chunk.kept is not None else tuple(chunk.columns))
        self._kept: dict[int, tuple[FooterPlan, FooterPlan]] = {}
        self._marked: dict[int, tuple[FooterPlan, FooterPlan]] = {}

    def read_directory(self, directories: tuple[str, ...], files: Iterable[tuple[SourceFile, Footer]]) -> None:
        parts: dict[int, _Part] = {}
        for file, footer in files:
            self._add(file, footer, parts)
        for part in parts.values():
            self.segments.append(_segment(directories, part))
            if self._chunk.file_rows:
                self.rows.extend(_details(directories, part, row_groups=self._chunk.row_group_rows))

    def _add(self, file: SourceFile, footer: Footer, parts: dict[int, _Part]) -> None:
        """Reads one file's footer into the part of its schema; parts are keyed by the identity of the plan."""
        with _reading(file):
            plan = self._as_kept(self._plans.plan(footer))
            changed: Collection[int] = ()
            if plan.schema.has_unread_moments and self._chunk.bounds.source != "footers":
                changed = self._changed_moments(file, footer)
                plan = plan if changed else self._mark_plan(plan)
            part = parts.get(id(plan))
            if part is None:
                part = parts[id(plan)] = _Part(plan)
            part.add(file, footer.metadata)
            self._read_data(file, footer, part, changed)

    def _read_data(self, file: SourceFile, footer: Footer, part: _Part, changed: Collection[int]) -> None:
        """Reads the columns whose bounds must come from data because the footer lacks them."""
        bounds, count = self._chunk.bounds, footer.metadata.num_row_groups
        lacking = part.lacking(bounds, count)
        if not lacking:
            return
        leaves = part.plan.leaves
        wanted = [(leaves[place], groups) for place, groups in lacking.items()]
        must = [leaf for leaf, _ in wanted if bounds.names(leaf)]
        with self._open_file(file) as source:
            accepted = None if footer.accepted is None else accepted_file(source)
            readable = source if accepted is None else accepted.content
            part.take(measured_groups(readable, part.plan, wanted, must=must, changed=changed), lacking, count)

    def _open_file(self, file: SourceFile) -> pa.NativeFile:
        store, root = open_location(self._chunk.location, self._chunk.options)
        return store.open_input_file(root + file.path[len(self._chunk.location) :])

    def _changed_moments(self, file: SourceFile, footer: Footer) -> Collection[int]:
        """The leaves of INT96 for which Arrow returns another moment somewhere; all of them if one cannot be read."""
        leaves = list(int96_leaves(footer.metadata))
        try:
            with self._open_file(file) as source:
                return changed_leaves(source, leaves, footer=footer)
        except (pa.ArrowException, OSError, ValueError) as error:
            if is_of_store(error):
                raise
            return leaves

    def _mark_plan(self, plan: FooterPlan) -> FooterPlan:
        """``plan`` with the mark of files whose moments microseconds hold; one object for each plan."""
        if id(plan) not in self._marked:
            schema = replace(plan.schema, properties={**plan.schema.properties, HELD: "true"})
            self._marked[id(plan)] = plan, replace(plan, schema=schema)
        return self._marked[id(plan)][1]

    def _as_kept(self, plan: FooterPlan) -> FooterPlan:
        """``plan`` with the catalog's column names, if a catalog defines the columns; one object for each plan."""
        if self._chunk.kept is None:
            return plan
        if id(plan) not in self._kept:
            kept = as_kept(self._chunk.kept, plan.schema)
            leaves = [replace(leaf, path=path) for leaf in plan.leaves if (path := kept.path(leaf.path)) is not None]
            wanted = self._chunk.columns
            chosen = tuple(leaf for leaf in leaves if wanted is None or is_among(leaf.path, wanted))
            self._kept[id(plan)] = plan, replace(plan, schema=kept.schema, leaves=chosen)
        return self._kept[id(plan)][1]


def _footers(chunk: FooterChunk) -> Iterator[Footer]:
    """The chunk's footers in file order, one by one from the local disk, several at a time from elsewhere.

    Prefetching crosses directories: a table may have one file in each.
    """
    location = chunk.location
    if location.startswith("/"):
        yield from (_footer(file, file.path) for file in chunk.files)
        return
    store, root = open_location(location, chunk.options)

    def fetch(file: SourceFile) -> Footer:
        with _reading(file), store.open_input_file(root + file.path[len(location) :]) as source:
            return _footer(file, source)

    with Threads(_FETCHES) as threads:
        yield from threads.map(fetch, chunk.files)


def _details(directories: tuple[str, ...], part: _Part, *, row_groups: bool) -> Iterator[UnitRow]:
    """The FILE rows of a part, then its ROW_GROUP rows if these are wanted."""
    plan, key = part.plan, metadata_key(directories)
    parents = {file.name: file.path[: -len(file.name) - 1] for file in part.files}
    texts = _texts(plan, part.bounds, part.rows, part.file_texts)
    for file, rows, of_file in zip(part.files, part.rows, texts, strict=True):
        yield UnitRow(
            metadataType=MetadataType.FILE,
            metadataKey=key,
            metadataIdentifier=file_identifier(directories, file.name),
            schema=plan.schema_json,
            statistics_keys=plan.keys,
            statistics_texts=of_file,
            metadataStatistics=(
                _ROW_COUNT % rows,
                _LENGTH % file.size,
                _MODIFICATION_TIME_NANOS % file.mtime_ns,
            ),
            lastModifiedTime=file.mtime_ns // 1_000_000,
            location=parents[file.name],
            path=file.path,
        )
    if not row_groups:
        return
    # If every file is one row group, the row groups have the files' statistics.
    if len(part.groups) != len(part.files) or [group.number for group in part.groups].count(0) != len(part.files):
        texts = _texts(plan, part.group_bounds, [group.rows for group in part.groups], part.group_texts)
    for group, of_group in zip(part.groups, texts, strict=True):
        file = group.file
        yield UnitRow(
            metadataType=MetadataType.ROW_GROUP,
            metadataKey=key,
            metadataIdentifier=row_group_identifier(directories, file.name, group.number),
            schema=plan.schema_json,
            statistics_keys=plan.keys,
            statistics_texts=of_group,
            metadataStatistics=(
                _ROW_COUNT % group.rows,
                _START % group.start,
                _LENGTH % group.length,
            ),
            lastModifiedTime=file.mtime_ns // 1_000_000,
            location=parents[file.name],
            path=file.path,
            rowGroupIndex=group.number,
            hostAffinity=_NO_HOSTS,
        )


def _texts(
    plan: FooterPlan,
    bounds: Sequence[Sequence[Bounds]],
    rows: Sequence[int],
    of_data: Callable[[int], Mapping[int, str]],
) -> list[tuple[str, ...]]:
    """For each container, the JSON of its columns; ``bounds`` are indexed by leaf, ``rows`` by container.

    ``of_data`` gives the texts made from data instead: by the leaf's place, then by the container's.
    """
    by_leaf = [leaf.texts(of_leaf, rows) for leaf, of_leaf in zip(plan.leaves, bounds, strict=True)]
    for place, texts in enumerate(by_leaf):
        for at, text in of_data(place).items():
            texts[at] = text
    return list(zip(*by_leaf, strict=True)) if by_leaf else [()] * len(rows)


def _segment(directories: tuple[str, ...], part: _Part) -> UnitRow:
    plan, rows = part.plan, sum(part.rows)
    return UnitRow(
        metadataType=MetadataType.SEGMENT,
        metadataKey=metadata_key(directories),
        metadataIdentifier=segment_identifier(directories),
        schema=plan.schema_json,
        statistics_keys=plan.keys,
        statistics_texts=[part.segment_text(place) for place in range(len(plan.leaves))],
        metadataStatistics=(_ROW_COUNT % rows,),
        lastModifiedTime=max(file.mtime_ns for file in part.files) // 1_000_000,
        locations=[file.path for file in part.files],
        partitionValues=directories,
    )


def _footer(file: SourceFile, source: str | pa.NativeFile) -> Footer:
    with _reading(file):
        # In a worker process, a crash becomes an error, and the driver finds out which file caused it.
        return read_footer(source, judged=not is_expendable())


def _reading(file: SourceFile) -> AbstractContextManager[None]:
    gone = "the table was listed; run ANALYZE again"
    return reading_file(file.path, "is no readable Parquet file", gone=gone, errors=(*UNREADABLE, LookupError))


def _extent(chunks: Sequence[pq.ColumnChunkMetaData]) -> tuple[int, int]:
    """The byte offset of a row group's first page, and the row group's length in bytes."""
    if not chunks:
        return 0, 0
    first = chunks[0]
    # Some writers leave the dictionary's offset out, and it is 0 then: no page can start there.
    start = (first.dictionary_page_offset if first.has_dictionary_page else 0) or first.data_page_offset
    return start, sum([chunk.total_compressed_size for chunk in chunks])
