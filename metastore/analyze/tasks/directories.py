"""The task that makes the segments of top-level directories which it lists itself.

Place in the flow: for a large table, the driver holds one line a segment (:mod:`metastore.analyze.table_survey`). The
task lists the directories, and makes their segments as :mod:`metastore.analyze.tasks.segments` does. It stores the
result if it reaches the component's store. So files, units and content of a large table are never in the driver.

Promise: a segment's units and its stored state come from one listing, that of this task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import pyarrow as pa

from metastore.analyze.changes import segments_of
from metastore.analyze.states import segment_state
from metastore.analyze.tasks.segments import SegmentChunk, StoredSegmentUnits, make_segments
from metastore.analyze.tasks.survey import DirectoriesToList, StoreReach
from metastore.lake.formats.source_file import SourceFile


@dataclass(frozen=True)
class DirectoryChunk:
    """Top-level directories to list and to make segments of, as ``segments`` says, which itself names no file.

    ``stored`` are the data files with the segments' units, by key. ``reads_stored`` means that the task reads them;
    else they travel with their content. At most ``files_at_once`` files are made into segments together, if each
    segment has fewer.
    """

    listing: DirectoriesToList
    segments: SegmentChunk
    stored: Mapping[str, StoredSegmentUnits]
    reads_stored: bool
    reach: StoreReach
    files_at_once: int

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the chunk; stored units whose content it needs are fetched only at this point."""
        stored = self.stored if self.reads_stored else {key: group.fetch() for key, group in self.stored.items()}
        sent = replace(self, stored=stored)
        return DirectoryChunk, tuple(getattr(sent, field.name) for field in fields(sent))


def make_directories(chunk: DirectoryChunk) -> Iterator[pa.RecordBatch]:
    """Returns batches of :func:`segments_schema`; a directory without files has no row.

    Raises as :func:`make_segments` and :func:`list_directories`.
    """
    segments = segments_of(chunk.listing.files())
    sender = chunk.segments.sender if segments and chunk.reach.is_given() else None
    for own in _at_once(segments, chunk.files_at_once):
        files = [file for key in own for file in segments[key]]
        yield from make_segments(
            replace(
                chunk.segments,
                footers=replace(chunk.segments.footers, files=files),
                states={key: segment_state(segments[key]) for key in own},
                stored=[chunk.stored[key] for key in own if key in chunk.stored],
                sender=sender,
            )
        )


def _at_once(segments: Mapping[str, Sequence[SourceFile]], most: int) -> Iterator[list[str]]:
    """Yields runs of keys whose segments have at most ``most`` files together; a larger segment is alone."""
    keys: list[str] = []
    held = 0
    for key, files in segments.items():
        if keys and held + len(files) > most:
            yield keys
            keys, held = [], 0
        keys.append(key)
        held += len(files)
    if keys:
        yield keys
