"""Gathers what tasks return by top-level segment, until all files of a segment have arrived.

Place in the flow: between the engine, whose batches come in any order, and the roll-up, which makes the units of whole
segments. A segment is rolled up and written while others are still being read, so only unfinished segments are held in
memory. Rows of files and row groups are passed on as slices, without copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from metastore.model.mapping.runs import runs
from metastore.model.vocabulary import MetadataType


@dataclass(frozen=True)
class CompleteSegments:
    """All rows of some complete segments: fragments and rows of files that were read, and kept rows by key."""

    fragments: pa.Table
    read: pa.Table
    kept: Mapping[str, pa.Table]


@dataclass
class _Segment:
    awaited: int
    fragments: list[pa.RecordBatch] = field(default_factory=list)
    read: list[pa.RecordBatch] = field(default_factory=list)
    kept: list[pa.RecordBatch] = field(default_factory=list)


class Gathering:
    """Collects rows until every file of a segment has arrived; ``awaited`` maps keys to numbers of files.

    The batches are those of :func:`read_footers`. ``kept`` holds the rows of files, and of their row groups, that need
    not be read.
    """

    def __init__(self, awaited: Mapping[str, int], kept_rows: pa.Table) -> None:
        self._schema = kept_rows.schema
        self._segments = {key: _Segment(count) for key, count in awaited.items()}
        for key, rows in runs(kept_rows, "metadataKey"):
            self._segments[key].kept.append(rows)

    def kept_rows(self) -> dict[str, pa.Table]:
        """The kept rows of incomplete segments, by key; segments without kept rows are left out."""
        return {key: self._table(segment.kept) for key, segment in self._segments.items() if segment.kept}

    def complete(self) -> CompleteSegments | None:
        """The segments that await no file from the start; None if there are none."""
        return self._take_segments([key for key, segment in self._segments.items() if segment.awaited == 0])

    def add(self, batch: pa.RecordBatch) -> CompleteSegments | None:
        """Takes in one batch of a task; returns the segments that it completes, None if it completes none."""
        details, fragments = parts_of(batch)
        for key, rows in runs(pa.Table.from_batches([details]), "metadataKey"):
            self._segments[key].read.append(rows)
        complete = []
        for key, rows in runs(pa.Table.from_batches([fragments]), "metadataKey"):
            segment = self._segments[key]
            segment.fragments.append(rows)
            segment.awaited -= files_in(rows)
            if segment.awaited == 0:
                complete.append(key)
        return self._take_segments(complete)

    def _take_segments(self, keys: Sequence[str]) -> CompleteSegments | None:
        if not keys:
            return None
        segments = [self._segments.pop(key) for key in keys]
        return CompleteSegments(
            self._table(batch for segment in segments for batch in segment.fragments),
            self._table(batch for segment in segments for batch in segment.read),
            {key: self._table(segment.kept) for key, segment in zip(keys, segments, strict=True) if segment.kept},
        )

    def _table(self, batches: Iterable[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(list(batches), self._schema)


def parts_of(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Splits a task's batch into rows of files and row groups, and fragments of segments."""
    first = pc.index(batch["metadataType"], MetadataType.SEGMENT.value).as_py()
    details = batch.num_rows if first < 0 else first
    return batch.slice(0, details), batch.slice(details)


def files_in(segments: pa.RecordBatch | pa.Table) -> int:
    """The number of files in SEGMENT rows or fragments of segments."""
    return int(pc.sum(pc.list_value_length(segments["locations"])).as_py() or 0)


def side_by_side(schema: pa.Schema, *tables: pa.Table) -> pa.Table:
    """All rows, with those of one top-level segment adjacent. Moves runs of rows without copying them."""
    of_keys: dict[str, list[pa.RecordBatch]] = {}
    for table in tables:
        for key, rows in runs(table, "metadataKey"):
            of_keys.setdefault(key, []).append(rows)
    return pa.Table.from_batches([rows for of_key in of_keys.values() for rows in of_key], schema)
