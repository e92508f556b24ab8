"""The task that makes whole top-level segments: their footers -> their data files' content, ready to be stored.

Place in the flow: where a segment has so few files that one task reads them all, nothing is left for the driver but to
store what the task made, and to add the segments up to the table. So its share does not grow with the files, and what
comes back is a tenth of the units that :func:`~metastore.analyze.tasks.footers.read_footers` would return. Segments of
which some files are known are made by :mod:`metastore.analyze.tasks.remade_segments`, those of many files are put
together by the driver (:mod:`metastore.analyze.units.gathering`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from metastore.analyze.changes import FileCounts
from metastore.analyze.tasks.footers import FooterChunk, read_footers
from metastore.analyze.units.gathering import parts_of
from metastore.analyze.units.parts import Part, segment_parts
from metastore.analyze.units.rollup import segment_row, segment_units
from metastore.analyze.units.unit_rows import to_batch, values
from metastore.mapping.rows import by_partition
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.sources.source_table import SourceTable
from metastore.storage.partition_encoder import ENCODED, EncodedPartition, PartitionEncoder


@dataclass(frozen=True)
class SegmentChunk:
    """All files of some top-level segments, whose ``states`` are told by key; ``level`` is what is stored.

    ``is_flat`` tells that the table has no directories.
    """

    footers: FooterChunk
    states: Mapping[str, str]
    level: MetadataType
    is_flat: bool
    encoder: PartitionEncoder


@dataclass(frozen=True)
class Made:
    """What tasks made: segments' partitions, their parts for the table's roll-up, and how many units these are.

    ``before`` are the SEGMENT rows that stood there before. ``counts`` are of files, as is ``read``.
    """

    partitions: Sequence[EncodedPartition]
    tops: Sequence[Part]
    units: int
    before: pa.Table
    counts: FileCounts
    read: int


def segments_schema(units: pa.Schema) -> pa.Schema:
    """The schema of what tasks return, by that of units: a row for each segment.

    ``top`` is the segment's SEGMENT unit and ``before`` the stored one, if there is any; ``partition`` is null where
    the level stores no unit of it. Numbers of files are the task's, and stand in its first row.
    """
    numbers = {name: pa.int64() for name in (*FileCounts._fields, "read")}
    return pa.schema({"partition": ENCODED, "top": pa.struct(list(units)), "before": pa.struct(list(units)), **numbers})


def make_segments(chunk: SegmentChunk) -> Iterator[pa.RecordBatch]:
    """One batch of :func:`segments_schema`; raises as :func:`read_footers`."""
    files = len(chunk.footers.files)
    nothing = chunk.footers.schema.empty_table()
    for batch in read_footers(chunk.footers):
        details, fragments = map(_table, parts_of(batch))
        yield encoded_segments(chunk, segment_parts(fragments), details, nothing, FileCounts(files), files)


def encoded_segments(
    chunk: SegmentChunk, parts: Sequence[Part], details: pa.Table, before: pa.Table, counts: FileCounts, read: int
) -> pa.RecordBatch:
    """The segments of ``chunk``, of which ``parts`` and ``details`` cover every file, in :func:`segments_schema`."""
    units = chunk.footers.schema
    source = SourceTable(chunk.footers.table, chunk.footers.location)
    rows, tops = segment_units(
        source, units, parts, details, level=chunk.level, states=chunk.states, is_flat=chunk.is_flat
    )
    encoded = {
        partition.key[_KEY]: chunk.encoder.encode(partition).to_arrow()
        for partition in by_partition(TableMetadataUnit, rows)
    }
    short = [segment_row(source, top.for_table(), chunk.states) for top in tops]
    keys = [row.metadataKey for row in short]
    places = {key: place for place, key in enumerate(values(before, "metadataKey"))}
    struct: Any = pa.struct(list(units))
    return pa.RecordBatch.from_arrays(
        [
            pa.array([encoded.get(key) for key in keys], ENCODED),
            to_batch(units, source.table, short).to_struct_array(),
            pa.concat_arrays([*before.to_struct_array().chunks, pa.array([], struct)]).take(
                pa.array([places.get(key) for key in keys], pa.int64())
            ),
            *(pa.array([number, *[0] * (len(keys) - 1)], pa.int64()) for number in (*counts, read)),
        ],
        schema=segments_schema(units),
    )


def made(batch: pa.RecordBatch) -> Made:
    """What :func:`encoded_segments` returned."""
    partitions = [EncodedPartition.from_arrow(one) for one in batch["partition"] if one.is_valid]
    tops: Any = batch["top"]
    before: Any = batch["before"].drop_null()
    *counts, read = (pc.sum(batch[name]).as_py() for name in (*FileCounts._fields, "read"))
    return Made(
        partitions,
        segment_parts(_table(pa.RecordBatch.from_struct_array(tops))),
        sum(partition.rows for partition in partitions),
        _table(pa.RecordBatch.from_struct_array(before)),
        FileCounts(*counts),
        read,
    )


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


_KEY: Final = TableMetadataUnit.partition_columns.index("metadataKey")
