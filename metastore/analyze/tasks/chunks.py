"""What is to be read, cut into chunks, the plain data that tasks on an engine get; and their run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import pyarrow as pa

from metastore.analyze.changes import WantedMetadata, is_flat
from metastore.analyze.levels import reaches
from metastore.analyze.tasks.file_rows import DataChunk
from metastore.analyze.tasks.footers import FooterChunk, read_footers
from metastore.analyze.tasks.segments import SegmentChunk, make_segments
from metastore.engine import Chunk, Engine, ResultsTooLargeError
from metastore.errors import EngineError
from metastore.formats.source_file import SourceFile
from metastore.mapping.arrow import plain_arrow_schema
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.sketches.description import Describing
from metastore.sources.source_table import SourceTable
from metastore.storage.file_groups import FetchedGroup, FileGroup, fetched_together
from metastore.storage.partition_encoder import PartitionEncoder
from metastore.stores.locations import is_local

UNIT_SCHEMA: Final = plain_arrow_schema(TableMetadataUnit)
"""The columns of what tasks return."""

_CHUNK_BYTES: Final = 32 << 20
"""Where data is read, a chunk is one file, or small files of this size altogether."""


@dataclass(frozen=True)
class Limits:
    """How much of a table a task, or the driver, has in hand at once."""

    chunk_files: tuple[int, int] = (16, 256)
    """Fewest and most files in a chunk of footers: with fewer the cost per chunk shows, with more the last chunk keeps
    others waiting. The driver makes a segment that has more files to read."""
    known_files: int = 2_048
    """Most files of a segment, unchanged ones included, that one task makes; the task receives their listing."""
    stored_bytes: int = 4 << 20
    """Most bytes of stored units that one task receives; they decode to some 50 MB. A Spark job carries twice that."""
    chunks_per_task: int = 12
    """Chunks for each of the engine's tasks at once, so that none waits long for the last chunk of another."""
    fetched_bytes: int = 64 << 20
    """Up to this size, stored units of a distant store are fetched together, which takes a tenth of the round trips;
    above it, each chunk fetches its own when it is sent."""
    data_bytes: int = 256 << 20
    """If data may be read for bounds, a segment with more bytes in its files is divided among tasks, too."""
    driver_rows: int = 20_000
    """Stored units, of some kilobytes each, that the driver holds when it makes segments itself."""


@dataclass(frozen=True)
class Read:
    """What is to be read of one file: its ``exact`` statistics, and the descriptions that are missing (None: none)."""

    file: SourceFile
    exact: bool
    missing: Describing | None


@dataclass(frozen=True)
class Cutting:
    """Cuts what is ``wanted`` of ``source`` into chunks for ``parallelism`` tasks at once."""

    source: SourceTable
    wanted: WantedMetadata
    parallelism: int
    limits: Limits

    def footers(self, files: Sequence[SourceFile]) -> list[FooterChunk]:
        """Chunks of Parquet files whose exact statistics are read; of few bytes where data may be read."""
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
        """Chunks of ``segments`` that are made; a segment that is more than a limit is alone in its chunk.

        ``states`` are those of all segments of the table, by key; ``stored`` the units of those that have any. ``anew``
        where every footer is to be read again. Raises StorageError where units are fetched now and their file is lost.
        """
        size = self._chunk_files(sum(map(len, segments.values())))
        most, most_bytes = self.limits.chunk_files[1], self.limits.stored_bytes
        cut: list[dict[str, Sequence[SourceFile]]] = []
        held, held_bytes = size, 0
        for key, files in segments.items():
            own_bytes = stored[key].size_bytes if key in stored else 0
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

    def data(self, reads: Sequence[Read]) -> list[DataChunk]:
        """Chunks of files that lack the same, of some size altogether."""
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
                text=self.wanted.written,
                bounds=self.wanted.bounds_read,
                kept=self.source.columns,
            )
            for (exact, missing), group in alike.items()
            for files in _of_size(group)
        ]

    def _chunk_files(self, files: int) -> int:
        """Files of a chunk, so that all chunks are of a size: of few files, the last should not leave a task idle."""
        fewest, most = self.limits.chunk_files
        size = min(most, max(fewest, _quotient(files, self.limits.chunks_per_task * self.parallelism)))
        return max(1, _quotient(files, max(1, _quotient(files, size))))

    def _chunk_bytes(self, files: Sequence[SourceFile]) -> int | None:
        """Bytes of a chunk where data may be read, so that all tasks have some; None where only footers are."""
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
    """Where the store is distant and they are few, the data files' content, fetched together."""
    if all(is_local(path) for group in stored.values() for path in group.paths) or (
        sum(group.size_bytes for group in stored.values()) > most_bytes
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
    """As ``engine.run``; where a process ended over a damaged footer, the error names the file."""
    return _naming_the_file(engine.run(chunks, task, schema), chunks)


def _naming_the_file(batches: Iterator[pa.RecordBatch], chunks: Sequence[Chunk]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except ResultsTooLargeError:
        raise
    except EngineError:
        # Footers that helpers did not judge are judged here, where nothing ends over them.
        for chunk in chunks:
            if isinstance(chunk, SegmentChunk):
                deque(make_segments(chunk), maxlen=0)  # which reads the footers of new and changed files only
            elif isinstance(chunk, FooterChunk):
                deque(read_footers(chunk), maxlen=0)
        raise
