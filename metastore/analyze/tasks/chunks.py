"""Cuts the work into chunks, the plain data that tasks on an engine receive, and runs the tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import pyarrow as pa

from metastore.analyze.changes import WantedMetadata, is_flat
from metastore.analyze.levels import reaches
from metastore.analyze.tasks.directories import DirectoryChunk, make_directories
from metastore.analyze.tasks.file_rows import DataChunk
from metastore.analyze.tasks.footers import FooterChunk, read_footers
from metastore.analyze.tasks.segments import SegmentChunk, make_segments
from metastore.analyze.tasks.survey import DirectoriesToList, SurveyedSegment
from metastore.components.storage.file_groups import FetchedGroup, FileGroup, fetched_together
from metastore.components.storage.partition_encoder import PartitionEncoder
from metastore.components.storage.partition_sender import PartitionSender, StoreProof
from metastore.engines.engine import Chunk, Engine, ResultsTooLargeError
from metastore.errors import EngineError
from metastore.lake.formats.source_file import SourceFile
from metastore.lake.stores.locations import is_local
from metastore.model.mapping.arrow import plain_arrow_schema
from metastore.model.sketches.description import Describing
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.sources.source_table import SourceTable

UNIT_SCHEMA: Final = plain_arrow_schema(TableMetadataUnit)
"""The columns of what tasks return."""

_CHUNK_BYTES: Final = 32 << 20
"""Where data is read, a chunk is one file, or several small files with this total size."""


@dataclass(frozen=True)
class Limits:
    """Limits on how much of a table a task or the driver holds at once."""

    chunk_files: tuple[int, int] = (16, 256)
    """Fewest and most files in a chunk of footers. With fewer, the cost per chunk shows; with more, the last chunk
    delays the others. The driver makes segments that have more files to read."""
    known_files: int = 2_048
    """Most files of a segment, unchanged ones included, that one task makes; the task receives their listing."""
    stored_bytes: int = 4 << 20
    """Most bytes of stored units that one task receives; they decode to some 50 MB. A Spark job carries twice that."""
    chunks_per_task: int = 12
    """Number of chunks per parallel task, so that no task waits long for another's last chunk."""
    fetched_bytes: int = 64 << 20
    """Up to this size, stored units of a distant store are fetched together, which takes a tenth of the round trips.
    Above it, each chunk's units are fetched when the chunk is sent."""
    data_bytes: int = 256 << 20
    """If data may be read for bounds, several tasks share a segment whose files have more bytes than this."""
    driver_rows: int = 20_000
    """Most stored units, of some kilobytes each, that the driver holds when it makes segments itself."""
    surveyed: tuple[int, int, int] = (64, 100_000, 20)
    """Fewest top-level directories, fewest files, and fewest files a directory on average, of a table that is listed by
    tasks, directory by directory. Any other table is listed by the driver, in fewer requests."""
    directory_files: tuple[int, int] = (2_048, 20_000)
    """Of tables that tasks list: about the most files in a chunk of directories, and most files of a segment that one
    task makes. The driver makes larger segments."""
    directory_bytes: int = 16 << 20
    """Most bytes of stored units of a segment that one task makes from directories; they decode to some 200 MB."""


@dataclass(frozen=True)
class FileRead:
    """What to read of one file: its ``exact`` statistics, and the missing descriptions (None: none)."""

    file: SourceFile
    exact: bool
    missing: Describing | None


@dataclass(frozen=True)
class Cutting:
    """Cuts the reading of ``source`` for ``wanted`` into chunks for ``parallelism`` parallel tasks."""

    source: SourceTable
    wanted: WantedMetadata
    parallelism: int
    limits: Limits

    def footers(self, files: Sequence[SourceFile]) -> list[FooterChunk]:
        """Chunks of Parquet files whose exact statistics are read; limited in bytes if data may be read."""
        size = self._chunk_files(len(files))
        most_bytes = self._chunk_bytes(files)
        cut: list[list[SourceFile]] = []
        held = 0
        for file in files:
            if not cut or len(cut[-1]) >= size or (most_bytes is not None and held + file.size > most_bytes):
                cut.append([])
                held = 0
            cut[-1].append(file)
            held += file.size
        return [self._footers(chunk) for chunk in cut]

    def segments(
        self,
        segments: Mapping[str, Sequence[SourceFile]],
        states: Mapping[str, str],
        stored: Mapping[str, FileGroup],
        *,
        anew: bool,
        encoder: PartitionEncoder,
    ) -> list[SegmentChunk]:
        """Chunks of ``segments`` to make; a segment above a limit is alone in its chunk.

        ``states`` are those of all segments of the table, by key. ``stored`` holds the stored units of segments that
        have any. ``anew`` reads every footer again. Raises StorageError if units are fetched here and their file is
        lost.
        """
        size = self._chunk_files(sum(map(len, segments.values())))
        most, most_bytes = self.limits.chunk_files[1], self.limits.stored_bytes
        cut: list[dict[str, Sequence[SourceFile]]] = []
        held, held_bytes = size, 0
        for key, files in segments.items():
            own_bytes = stored[key].files.size_bytes if key in stored else 0
            if held >= size or held + len(files) > most or held_bytes + own_bytes > most_bytes:
                cut.append({})
                held = held_bytes = 0
            cut[-1][key] = files
            held += len(files)
            held_bytes += own_bytes
        groups = _fetched_where_distant(
            {key: stored[key] for key in segments if key in stored}, self.limits.fetched_bytes
        )
        return [
            SegmentChunk(
                footers=self._footers(list(chain.from_iterable(own.values()))),
                states={key: states[key] for key in own},
                level=self.wanted.level,
                is_flat=is_flat(states),
                encoder=encoder,
                stored=[groups[key] for key in own if key in groups],
                anew=anew,
            )
            for own in cut
        ]

    def directories(
        self,
        surveyed: Sequence[SurveyedSegment],
        template: DirectoryChunk,
        stored: Mapping[str, FileGroup],
    ) -> list[DirectoryChunk]:
        """Chunks of top-level directories, which tasks list; all else is as in ``template``."""
        share = _quotient(sum(each.files for each in surveyed), self.limits.chunks_per_task * self.parallelism)
        size = max(1, min(self.limits.directory_files[0], share))
        cut: list[list[str]] = []
        held = size
        for each in surveyed:
            if held >= size or held + each.files > self.limits.directory_files[0]:
                cut.append([])
                held = 0
            cut[-1].append(each.key)
            held += each.files
        return [
            replace(
                template,
                listing=replace(template.listing, names=names),
                stored={name: stored[name] for name in names if name in stored},
            )
            for names in cut
        ]

    def directory_template(
        self, *, reach: StoreProof, sender: PartitionSender, encoder: PartitionEncoder, anew: bool, reads_stored: bool
    ) -> DirectoryChunk:
        """What all chunks of directories share: no directory yet."""
        segments = SegmentChunk(
            footers=self._footers([]),
            states={},
            level=self.wanted.level,
            is_flat=False,
            encoder=encoder,
            stored=(),
            anew=anew,
            sender=sender,
        )
        listing = DirectoriesToList(self.source.location, (), self.source.options, self.source.passed_over)
        return DirectoryChunk(listing, segments, {}, reads_stored, reach, self.limits.chunk_files[1])

    def data(self, reads: Sequence[FileRead]) -> list[DataChunk]:
        """Chunks of files with the same missing facts, each of limited total size."""
        alike: dict[tuple[bool, Describing | None], list[SourceFile]] = {}
        for read in reads:
            alike.setdefault((read.exact, read.missing), []).append(read.file)
        return [
            DataChunk(
                table=self.source.table,
                location=self.source.location,
                schema=UNIT_SCHEMA,
                files=files,
                format=self.wanted.format,
                columns=self.wanted.columns if exact else (),
                describing=missing,
                declared=self.wanted.declared,
                options=self.source.options,
                text=self.wanted.text_options,
                bounds=self.wanted.bounds_read,
                kept=self.source.columns,
            )
            for (exact, missing), group in alike.items()
            for files in _of_size(group)
        ]

    def _chunk_files(self, files: int) -> int:
        """Number of files per chunk, chosen so that chunks are about equal and no task is idle at the end."""
        fewest, most = self.limits.chunk_files
        size = min(most, max(fewest, _quotient(files, self.limits.chunks_per_task * self.parallelism)))
        return max(1, _quotient(files, max(1, _quotient(files, size))))

    def _chunk_bytes(self, files: Sequence[SourceFile]) -> int | None:
        """Bytes per chunk if data may be read, so that every task gets some; None if only footers are read."""
        if not self.wanted.bounds_read.may_read_data:
            return None
        share = _quotient(sum(file.size for file in files), self.limits.chunks_per_task * self.parallelism)
        return max(_CHUNK_BYTES, share)

    def _footers(self, files: Sequence[SourceFile]) -> FooterChunk:
        return FooterChunk(
            table=self.source.table,
            location=self.source.location,
            schema=UNIT_SCHEMA,
            files=files,
            columns=self.wanted.columns,
            file_rows=self.wanted.describing is not None or reaches(self.wanted.level, MetadataType.PARTITION),
            row_group_rows=reaches(self.wanted.level, MetadataType.ROW_GROUP),
            bounds=self.wanted.bounds_read,
            options=self.source.options,
            kept=self.source.columns,
        )


def _quotient(dividend: int, divisor: int) -> int:
    """Rounded up."""
    return -(-dividend // divisor)


def _fetched_where_distant(stored: Mapping[str, FileGroup], most_bytes: int) -> Mapping[str, FileGroup | FetchedGroup]:
    """Fetches the data files' content together if the store is distant and they are small; else returns ``stored``."""
    if all(is_local(path) for group in stored.values() for path in group.files.paths) or (
        sum(group.files.size_bytes for group in stored.values()) > most_bytes
    ):
        return stored
    return dict(zip(stored, fetched_together(list(stored.values())), strict=True))


def _of_size(files: Sequence[SourceFile]) -> Iterator[list[SourceFile]]:
    chunk: list[SourceFile] = []
    size = 0
    for file in files:
        if chunk and size + file.size > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(file)
        size += file.size
    yield chunk


def run_named(
    engine: Engine, chunks: Sequence[Chunk], task: Callable[[Chunk], Iterable[pa.RecordBatch]], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Runs ``engine.run``; if a damaged footer ended a process, the error names the file."""
    return _naming_the_file(engine.run(chunks, task, schema), chunks)


def _naming_the_file(batches: Iterator[pa.RecordBatch], chunks: Sequence[Chunk]) -> Iterator[pa.RecordBatch]:
    """Pass batches on. After a failed task, read its footers again here: the error of a bad one names the file."""
    try:
        yield from batches
    except ResultsTooLargeError:
        raise
    except EngineError:
        # Checks here the footers that helper processes did not check; a bad footer raises an error and ends no process.
        for chunk in chunks:
            if isinstance(chunk, SegmentChunk):
                deque(make_segments(chunk), maxlen=0)  # reads the footers of new and changed files only
            elif isinstance(chunk, DirectoryChunk):
                # Nothing may be stored twice.
                deque(make_directories(replace(chunk, segments=replace(chunk.segments, sender=None))), maxlen=0)
            elif isinstance(chunk, FooterChunk):
                deque(read_footers(chunk), maxlen=0)
        raise
