"""The task that makes top-level segments: from their files and stored units to content that is ready to be stored.

Place in the flow: if one task can read all files of a segment, it also makes the segment. The driver then only stores
the result and adds the segments up to the table, so the driver's share does not grow with the files. The result is a
tenth of the size of the units that :func:`~metastore.analyze.tasks.footers.read_footers` would return. For a known
segment, the task also decodes the stored units, and reads only the footers of new and changed files. The driver sends
these units as they are stored and never holds the units of all changed segments. Only the driver must reach the
metastore; a task that reaches it, too, may store the result itself. The driver makes larger segments of the same pieces
(:mod:`metastore.analyze.execution`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from metastore.analyze.changes import ChangeCounts
from metastore.analyze.tasks.footers import FooterChunk, read_footers
from metastore.analyze.units.gathering import parts_of, side_by_side
from metastore.analyze.units.partial_aggregates import Part, file_parts, segment_parts
from metastore.analyze.units.rollup import segment_row, segment_units
from metastore.analyze.units.stored_segments import StoredSegments
from metastore.analyze.units.unit_rows import to_batch, values
from metastore.components.storage.partition_encoder import (
    ENCODED,
    EncodedPartition,
    PartitionEncoder,
    StoredPartition,
    encoded_or_stored,
)
from metastore.model.identity import metadata_key
from metastore.model.mapping.rows import PartitionRows, by_partition
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.sources.directories import Directories
from metastore.sources.source_table import SourceTable


class Sender(Protocol):
    """What stores a partition from a task: a part of the component's storage, which tasks need not import."""

    def put(self, encoded: EncodedPartition) -> StoredPartition | None:
        """Store the partition; None if this process cannot do it."""


class StoredSegmentUnits(Protocol):
    """Data files that hold the units of a segment: a group of the component's storage, which tasks need not import."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All units. Raises StorageError for a lost file, FormatError for a bad one."""

    def fetch(self) -> StoredSegmentUnits:
        """The same units with the files' content, for a process that cannot reach the files. Raises StorageError."""


@dataclass(frozen=True, kw_only=True)
class SegmentChunk:
    """All files of some top-level segments, with the segments' ``states`` by key and their ``stored`` units.

    ``level`` is the level to store. ``is_flat`` means that the table has no directories. ``stored`` are the data files
    that hold the segments' units. ``anew`` means that footers of unchanged files are read too. With ``sender``, the
    task stores the partitions; else it returns their content.
    """

    footers: FooterChunk
    states: Mapping[str, str]
    level: MetadataType
    is_flat: bool
    encoder: PartitionEncoder
    stored: Sequence[StoredSegmentUnits] = ()
    anew: bool = False
    sender: Sender | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the chunk with the content of the stored data files, which is fetched only at this point."""
        fetched = replace(self, stored=[group.fetch() for group in self.stored])
        return partial(SegmentChunk, **{field.name: getattr(fetched, field.name) for field in fields(fetched)}), ()


@dataclass(frozen=True)
class MadeSegments:
    """What a task made: segments' partitions, their parts for the table's roll-up, and the number of units.

    ``before`` are the SEGMENT rows that these segments replace. ``counts`` and ``read`` are numbers of files.
    ``states`` and ``directories`` are those of the segments by key.
    """

    partitions: Sequence[EncodedPartition | StoredPartition]
    tops: Sequence[Part]
    states: Mapping[str, str]
    directories: Mapping[str, Sequence[Directories]]
    units: int
    before: pa.Table
    counts: ChangeCounts
    read: int

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> MadeSegments:
        """Reads a batch that :func:`make_segments` returned."""
        partitions = [encoded_or_stored(one) for one in batch["partition"] if one.is_valid]
        of_tops: Any = batch["top"]
        tops = _table(pa.RecordBatch.from_struct_array(of_tops))
        keys = values(tops, "metadataKey")
        before: Any = batch["before"].drop_null()
        *counts, read = (pc.sum(batch[name]).as_py() for name in (*ChangeCounts._fields, "read"))
        return cls(
            partitions,
            segment_parts(tops),
            dict(zip(keys, values(batch, "state"), strict=True)),
            {key: [tuple(each) for each in own] for key, own in zip(keys, values(batch, "directories"), strict=True)},
            sum(partition.rows for partition in partitions),
            _table(pa.RecordBatch.from_struct_array(before)),
            ChangeCounts(*counts),
            read,
        )


def segments_schema(units: pa.Schema) -> pa.Schema:
    """The schema of the batches of :func:`make_segments`, derived from the units' schema: one row per segment.

    ``top`` is the segment's SEGMENT unit, and ``before`` the stored one, if any. ``partition`` is null if the level
    stores no unit of the segment. ``directories`` are those that hold its files. Numbers of files cover the whole task
    and are in the first row.
    """
    numbers = {name: pa.int64() for name in (*ChangeCounts._fields, "read")}
    unit = pa.struct(list(units))
    of_files = {"state": pa.string(), "directories": pa.list_(pa.list_(pa.string()))}
    return pa.schema({"partition": ENCODED, "top": unit, "before": unit, **of_files, **numbers})


def make_segments(chunk: SegmentChunk) -> Iterator[pa.RecordBatch]:
    """Returns one batch of :func:`segments_schema`.

    Raises as :func:`read_footers`, and StorageError or FormatError for stored units that cannot be read.
    """
    footers = chunk.footers
    batches = chain.from_iterable(group.batches() for group in chunk.stored)
    stored = StoredSegments.of(pa.Table.from_batches(batches, footers.schema))
    compared = stored.compare(footers.files)
    kept = compared.standing(chunk.level, anew=chunk.anew)
    unread = [file for file in footers.files if chunk.anew or compared.changes.is_untrue(file.path)]
    read, fragments = _read_unknown_files(replace(footers, files=unread))
    parts = [*segment_parts(fragments), *file_parts(kept, footers.location)]
    source = SourceTable(footers.table, footers.location)
    rows, tops = segment_units(
        source,
        footers.schema,
        parts,
        side_by_side(footers.schema, kept, read),
        level=chunk.level,
        states=chunk.states,
        is_flat=chunk.is_flat,
    )
    encoded = {
        partition.key[_KEY]: _encode_partition(chunk, partition).to_arrow()
        for partition in by_partition(TableMetadataUnit, rows)
    }
    short = [segment_row(source, top.for_table(), chunk.states) for top in tops]
    keys = [row.metadataKey for row in short]
    numbers = (*compared.changes.counts, len(unread))
    directories: dict[str, dict[Directories, None]] = {}
    for file in footers.files:
        directories.setdefault(metadata_key(file.directories), {})[file.directories] = None
    yield pa.RecordBatch.from_arrays(
        [
            pa.array([encoded.get(key) for key in keys], ENCODED),
            to_batch(footers.schema, source.table, short).to_struct_array(),
            _before(stored.tops, keys),
            pa.array([chunk.states[key] for key in keys], pa.string()),
            pa.array([list(directories[key]) for key in keys], pa.list_(pa.list_(pa.string()))),
            *(pa.array([number, *[0] * (len(keys) - 1)], pa.int64()) for number in numbers),
        ],
        schema=segments_schema(footers.schema),
    )


def _encode_partition(chunk: SegmentChunk, partition: PartitionRows) -> EncodedPartition | StoredPartition:
    encoded = chunk.encoder.encode(partition)
    stored = None if chunk.sender is None else chunk.sender.put(encoded)
    return stored or encoded


def _read_unknown_files(footers: FooterChunk) -> tuple[pa.Table, pa.Table]:
    """The rows of files and row groups, and the fragments of segments."""
    batches = [parts_of(batch) for batch in read_footers(footers)]
    details, fragments = zip(*batches, strict=True) if batches else ((), ())
    return pa.Table.from_batches(details, footers.schema), pa.Table.from_batches(fragments, footers.schema)


def _before(tops: pa.Table, keys: Sequence[str]) -> Any:
    """The stored SEGMENT row of each of ``keys``, null if there is none.

    Of a segment's files, only the first is kept: a table's roll-up needs no others.
    """
    at = tops.schema.get_field_index("locations")
    first = pc.list_slice(tops["locations"], 0, 1).cast(tops.schema.field(at).type)
    short: Any = tops.set_column(at, tops.schema.field(at), first).to_struct_array()
    places = {key: place for place, key in enumerate(values(tops, "metadataKey"))}
    rows = pa.concat_arrays([*short.chunks, pa.array([], short.type)])
    return rows.take(pa.array([places.get(key) for key in keys], pa.int64()))


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


_KEY: Final = TableMetadataUnit.partition_columns.index("metadataKey")
