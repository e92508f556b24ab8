"""What is to be read, cut into chunks: the plain data that tasks on an engine get."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from metastore.analyze.changes import Wanted
from metastore.analyze.description import Describing
from metastore.analyze.file_rows import DataChunk
from metastore.analyze.footers import FooterChunk
from metastore.analyze.levels import reaches
from metastore.mapping.schema import plain_arrow_schema
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.sources.listing import SourceFile
from metastore.sources.naming import SourceTable

UNIT_SCHEMA: Final = plain_arrow_schema(TableMetadataUnit)
"""The columns of what tasks return."""

_CHUNK_FILES: Final = (16, 256)
"""Fewest and most files in a chunk of footers: below, the cost per chunk shows; above, the last one keeps others
waiting."""

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


def footer_chunks(source: SourceTable, wanted: Wanted, reads: Sequence[Read], parallelism: int) -> list[FooterChunk]:
    """Chunks for ``parallelism`` tasks at once that read the exact statistics of Parquet files."""
    files = [read.file for read in reads]
    fewest, most = _CHUNK_FILES
    size = min(most, max(fewest, -(-len(files) // (_CHUNKS_PER_TASK * parallelism))))
    return [
        FooterChunk(
            source.table,
            source.location,
            UNIT_SCHEMA,
            files[start : start + size],
            wanted.columns,
            wanted.describing is not None or reaches(wanted.level, MetadataType.PARTITION),
            reaches(wanted.level, MetadataType.ROW_GROUP),
            source.options,
        )
        for start in range(0, len(files), size)
    ]


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
