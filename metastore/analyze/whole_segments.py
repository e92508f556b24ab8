"""The task that makes whole top-level segments: their footers -> their data files' content, ready to be stored.

Place in the flow: where a segment has so few files that one task reads them all, nothing is left for the driver but to
store what the task made, and to add the segments up to the table. So its share does not grow with the files, and what
comes back is a tenth of the units that :func:`~metastore.analyze.footers.read_footers` would return. Segments of many
files, and those of which some files are known, are put together by the driver (:mod:`metastore.analyze.gathering`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from metastore.analyze.footers import FooterChunk, read_footers
from metastore.analyze.gathering import parts_of
from metastore.analyze.parts import Part, segment_parts
from metastore.analyze.rollup import segment_row, segment_units
from metastore.analyze.unit_rows import to_batch
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
    """What a task made: segments' partitions, their parts for the table's roll-up, and numbers of files and units."""

    partitions: Sequence[EncodedPartition]
    tops: Sequence[Part]
    files: int
    units: int


def segments_schema(units: pa.Schema) -> pa.Schema:
    """The schema of what tasks return, by that of units: a row for each segment.

    ``top`` is the segment's SEGMENT unit, ``partition`` is null where the level stores no unit of it.
    """
    return pa.schema({"files": pa.int64(), "partition": ENCODED, "top": pa.struct(list(units))})


def make_segments(chunk: SegmentChunk) -> Iterator[pa.RecordBatch]:
    """One batch of :func:`segments_schema`; raises as :func:`read_footers`."""
    units = chunk.footers.schema
    source = SourceTable(chunk.footers.table, chunk.footers.location)
    for batch in read_footers(chunk.footers):
        details, fragments = map(_table, parts_of(batch))
        rows, tops = segment_units(
            source,
            units,
            segment_parts(fragments),
            details,
            level=chunk.level,
            states=chunk.states,
            is_flat=chunk.is_flat,
        )
        encoded = {
            partition.key[_KEY]: chunk.encoder.encode(partition).to_arrow()
            for partition in by_partition(TableMetadataUnit, rows)
        }
        short = [segment_row(source, top.for_table(), chunk.states) for top in tops]
        partitions = [encoded.get(row.metadataKey) for row in short]
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([len(top.files) for top in tops]),
                pa.array(partitions, ENCODED),
                to_batch(units, source.table, short).to_struct_array(),
            ],
            schema=segments_schema(units),
        )


def made(batch: pa.RecordBatch) -> Made:
    """What :func:`make_segments` returned."""
    partitions = [EncodedPartition.from_arrow(one) for one in batch["partition"] if one.is_valid]
    units: Any = batch["top"]
    files = pc.sum(batch["files"]).as_py()
    return Made(
        partitions,
        segment_parts(_table(pa.RecordBatch.from_struct_array(units))),
        0 if files is None else int(files),
        sum(partition.rows for partition in partitions),
    )


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


_KEY: Final = TableMetadataUnit.partition_columns.index("metadataKey")
