"""The task that makes segments anew of which some files are known: stored units and changed files' footers -> content.

Place in the flow: as :mod:`metastore.analyze.tasks.whole_segments`, for the top-level segments that an incremental run
touches. The task decodes the stored units, so that the driver does not, and never holds those of all segments in which
something changed, however many they are. It gets them as they are stored: only the driver must reach the metastore.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from metastore.analyze.levels import reaches
from metastore.analyze.tasks.footers import FooterChunk, read_footers
from metastore.analyze.tasks.whole_segments import SegmentChunk, encoded_segments
from metastore.analyze.units.gathering import parts_of, side_by_side
from metastore.analyze.units.parts import segment_parts
from metastore.analyze.units.remainder import Before
from metastore.analyze.units.stored_segments import StoredSegments, parts_by_key
from metastore.analyze.units.unit_rows import of_kind
from metastore.mapping.runs import together
from metastore.model.vocabulary import MetadataType
from metastore.storage.parts import FetchedGroup, FileGroup


@dataclass(frozen=True)
class RemadeChunk:
    """All files of some top-level segments, as ``whole`` has them, and the data files that hold their ``stored`` units.

    ``anew`` tells that the footers of unchanged files are to be read, too.
    """

    whole: SegmentChunk
    stored: Sequence[FileGroup | FetchedGroup]
    anew: bool

    def __reduce__(self) -> tuple[Any, ...]:
        """Where it is sent to, it holds the data files' content, which is fetched only now."""
        return RemadeChunk, (self.whole, [group.fetched() for group in self.stored], self.anew)

    @property
    def footers(self) -> FooterChunk:
        """All files of the segments, of which some may be known."""
        return self.whole.footers


def remake_segments(chunk: RemadeChunk) -> Iterator[pa.RecordBatch]:
    """One batch of :func:`~metastore.analyze.tasks.whole_segments.segments_schema`.

    Raises as :func:`read_footers`, and StorageError or FormatError for stored units that cannot be read.
    """
    footers = chunk.footers
    batches = chain.from_iterable(group.batches() for group in chunk.stored)
    stored = StoredSegments.of(pa.Table.from_batches(batches, footers.schema))
    compared = stored.compared(footers.files)
    kept = compared.kept.slice(0, 0) if chunk.anew else compared.kept
    if not reaches(chunk.whole.level, MetadataType.ROW_GROUP):
        kept = of_kind(kept, MetadataType.FILE)
    untrue = compared.changes.new | compared.changes.changed
    unread = [file for file in footers.files if chunk.anew or file.path in untrue]
    read, fragments = _read(replace(footers, files=unread))
    before = Before.of(parts_by_key(stored.tops), compared.lost)
    parts = segment_parts(fragments)
    for key, rows in together(kept, "metadataKey").items():
        parts += before.remaining(key, of_kind(rows, MetadataType.FILE), footers.location)
    details = side_by_side(footers.schema, kept, read)
    yield encoded_segments(chunk.whole, parts, details, _for_table(stored.tops), compared.changes.counts, len(unread))


def _for_table(tops: pa.Table) -> pa.Table:
    """SEGMENT rows without what a table's roll-up does not ask for: of the files, the first is left."""
    at = tops.schema.get_field_index("locations")
    first = pc.list_slice(tops["locations"], 0, 1).cast(tops.schema.field(at).type)
    return tops.set_column(at, tops.schema.field(at), first)


def _read(footers: FooterChunk) -> tuple[pa.Table, pa.Table]:
    """The rows of files and row groups, and the fragments of segments."""
    batches = [parts_of(batch) for batch in read_footers(footers)]
    details, fragments = zip(*batches, strict=True) if batches else ((), ())
    return pa.Table.from_batches(details, footers.schema), pa.Table.from_batches(fragments, footers.schema)
