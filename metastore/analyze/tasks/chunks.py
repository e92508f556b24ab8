"""What is to be read, cut into chunks, the plain data that tasks on an engine get; and their run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import pyarrow as pa

from metastore.analyze.changes import Wanted, is_flat
from metastore.analyze.levels import reaches
from metastore.analyze.tasks.file_rows import DataChunk
from metastore.analyze.tasks.footers import FooterChunk, read_footers
from metastore.analyze.tasks.remade_segments import RemadeChunk, remake_segments
from metastore.analyze.tasks.whole_segments import SegmentChunk
from metastore.engine import Chunk, Engine
from metastore.errors import EngineError
from metastore.formats.source_file import SourceFile
from metastore.mapping.arrow import plain_arrow_schema
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.sketches.description import Describing
from metastore.sources.source_table import SourceTable
from metastore.storage.partition_encoder import PartitionEncoder
from metastore.storage.parts import FetchedGroup, FileGroup, fetched_together
from metastore.stores.locations import is_local

UNIT_SCHEMA: Final = plain_arrow_schema(TableMetadataUnit)
"""The columns of what tasks return."""

_CHUNK_FILES: Final = (16, 256)
"""Fewest and most files in a chunk of footers: below, the cost per chunk shows; above, the last one keeps others
waiting."""

SEGMENT_FILES: Final = _CHUNK_FILES[1]
"""A segment of which more files are to be read is not left to one task."""

KNOWN_FILES: Final = 8 * SEGMENT_FILES
"""Nor is one of more files, known ones among them: their listing is sent, too."""

STORED_BYTES: Final = 4 << 20
"""Nor is one whose stored units take more. Tasks are sent so many at most, and decode them to some 50 MB; a job on
Spark carries no more than twice as much."""

_FETCHED_BYTES: Final = 64 << 20
"""So many of stored units are fetched together where the store is distant, rather than chunk by chunk as they are sent:
that takes a tenth of the round trips one after the other."""

_CHUNK_BYTES: Final = 32 << 20
"""Where data is read, a chunk is one file, or small files of this size altogether."""

_CHUNKS_PER_TASK: Final = 12
"""Chunks for each of the engine's tasks at once, so that none waits long for the last chunk of another."""


@dataclass(frozen=True)
class Read:
    """What is to be read of one file: its ``exact`` statistics, and the descriptions that are missing (None: none)."""

    file: SourceFile
    exact: bool
    missing: Describing | None


def footer_chunks(
    source: SourceTable, wanted: Wanted, files: Sequence[SourceFile], parallelism: int
) -> list[FooterChunk]:
    """Chunks for ``parallelism`` tasks at once that read the exact statistics of Parquet files."""
    size = _chunk_files(len(files), parallelism)
    return [_footer_chunk(source, wanted, files[start : start + size]) for start in range(0, len(files), size)]


def segment_chunks(
    source: SourceTable,
    wanted: Wanted,
    segments: Mapping[str, Sequence[SourceFile]],
    states: Mapping[str, str],
    encoder: PartitionEncoder,
    parallelism: int,
    stored: Mapping[str, int] | None = None,
) -> list[SegmentChunk]:
    """Chunks for ``parallelism`` tasks at once that make whole ``segments``, of :data:`SEGMENT_FILES` each at most.

    ``states`` are those of all segments of the table, by key. Where units of them are ``stored``, by their bytes, a
    chunk has no more than :data:`STORED_BYTES`; a segment that is more in one respect is a chunk of its own.
    """
    size = _chunk_files(sum(map(len, segments.values())), parallelism)
    chunks: list[dict[str, Sequence[SourceFile]]] = []
    held, held_bytes = size, 0
    for key, files in segments.items():
        own_bytes = 0 if stored is None else stored[key]
        if held >= size or held + len(files) > SEGMENT_FILES or held_bytes + own_bytes > STORED_BYTES:
            chunks.append({})
            held = held_bytes = 0
        chunks[-1][key] = files
        held += len(files)
        held_bytes += own_bytes
    return [
        SegmentChunk(
            _footer_chunk(source, wanted, list(chain.from_iterable(chunk.values()))),
            {key: states[key] for key in chunk},
            wanted.level,
            is_flat(states),
            encoder,
        )
        for chunk in chunks
    ]


def remade_chunks(chunks: Iterable[SegmentChunk], stored: Mapping[str, FileGroup], *, anew: bool) -> list[RemadeChunk]:
    """The same ``chunks`` of segments whose units are ``stored``; ``anew`` where every footer is to be read again.

    Raises StorageError where units are fetched now and one of their files is lost.
    """
    groups: Mapping[str, FileGroup | FetchedGroup] = stored
    if not all(is_local(path) for group in stored.values() for path in group.paths) and (
        sum(group.size_bytes for group in stored.values()) <= _FETCHED_BYTES
    ):
        groups = dict(zip(stored, fetched_together(list(stored.values())), strict=True))
    return [RemadeChunk(chunk, [groups[key] for key in chunk.states], anew) for chunk in chunks]


def _chunk_files(files: int, parallelism: int) -> int:
    """Files of a chunk, so that all chunks are of a size: of few files, the last should not leave a task idle."""
    fewest, most = _CHUNK_FILES
    size = min(most, max(fewest, _quotient(files, _CHUNKS_PER_TASK * parallelism)))
    return max(1, _quotient(files, max(1, _quotient(files, size))))


def _quotient(dividend: int, divisor: int) -> int:
    """Rounded up."""
    return -(-dividend // divisor)


def _footer_chunk(source: SourceTable, wanted: Wanted, files: Sequence[SourceFile]) -> FooterChunk:
    return FooterChunk(
        source.table,
        source.location,
        UNIT_SCHEMA,
        files,
        wanted.columns,
        wanted.describing is not None or reaches(wanted.level, MetadataType.PARTITION),
        reaches(wanted.level, MetadataType.ROW_GROUP),
        source.options,
        source.columns,
    )


def data_chunks(source: SourceTable, wanted: Wanted, reads: Sequence[Read]) -> list[DataChunk]:
    """Chunks of files that lack the same, of some size altogether."""
    alike: dict[tuple[bool, Describing | None], list[SourceFile]] = {}
    for read in reads:
        alike.setdefault((read.exact, read.missing), []).append(read.file)
    return [
        DataChunk(
            source.table,
            source.location,
            UNIT_SCHEMA,
            files,
            wanted.format,
            wanted.columns if exact else (),
            missing,
            wanted.declared,
            source.options,
            source.columns,
        )
        for (exact, missing), group in alike.items()
        for files in _of_size(group)
    ]


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
    return _named(engine.run(chunks, task, schema), chunks)


def _named(batches: Iterator[pa.RecordBatch], chunks: Sequence[Chunk]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except EngineError:
        # Footers that helpers did not judge are judged here, where nothing ends over them.
        for chunk in chunks:
            if isinstance(chunk, RemadeChunk):
                deque(remake_segments(chunk), maxlen=0)  # which reads those of changed files only
                continue
            footers = chunk.footers if isinstance(chunk, SegmentChunk) else chunk
            if isinstance(footers, FooterChunk):
                deque(read_footers(footers), maxlen=0)
        raise
