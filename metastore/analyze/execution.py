"""Carries out one decision of an ANALYZE up to the commit: makes and stores segments, and adds them up to the table.

Place in the flow: tasks make most segments, each from its files and its stored units
(:mod:`metastore.analyze.tasks.segments`). The driver makes a segment here if it has more files than one task reads, or
if more than footers must be read. It uses the same pieces: tasks read the files (:mod:`metastore.analyze.reading`). The
driver takes a few known segments at a time, so stored units are never all in memory at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, In

from metastore.analyze.changes import ChangeCounts, SegmentsToRebuild, WantedMetadata, changed_segments, is_flat
from metastore.analyze.found_files import FoundFiles
from metastore.analyze.reading import Descriptions, Reading, stored_descriptions, with_descriptions
from metastore.analyze.states import segment_state, short_states
from metastore.analyze.stored_metadata import StoredMetadata
from metastore.analyze.tasks.chunks import UNIT_SCHEMA, FileRead, Limits, run_named
from metastore.analyze.tasks.directories import make_directories
from metastore.analyze.tasks.segments import MadeSegments, make_segments, segments_schema
from metastore.analyze.tasks.survey import SurveyedSegment
from metastore.analyze.units.gathering import CompleteSegments, Gathering, files_in
from metastore.analyze.units.partial_aggregates import (
    Part,
    file_parts,
    incomplete_segments,
    lacks_count,
    segment_parts,
)
from metastore.analyze.units.rollup import segment_units, table_unit
from metastore.analyze.units.stored_segments import OF_SEGMENTS, StoredSegments, states_by_key
from metastore.analyze.units.total import Total
from metastore.analyze.units.unit_rows import of_kind
from metastore.analyze.unprunable import columns_without_bounds
from metastore.components.operations.modify import Modify
from metastore.components.requests import of_table
from metastore.components.storage.file_groups import FileGroup
from metastore.engines.engine import ResultsTooLargeError
from metastore.errors import ConflictError, FormatError
from metastore.lake.formats.source_file import SourceFile
from metastore.model.identity import metadata_key
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import GENERAL_INFO, MetadataType
from metastore.sources.directories import Directories
from metastore.sources.source_table import SourceTable

_CHUNKS: Final = 256

_Segments = Mapping[str, Sequence[SourceFile]]


@dataclass(frozen=True)
class ExecutionOutcome:
    """The result: file changes, rebuilt ``segments``, ``removed`` segments, units written, the table's rows if known.

    ``without_bounds`` maps each column that cannot skip files to the reason.
    """

    files: ChangeCounts
    segments: int
    removed: frozenset[str]
    units: int
    rows: int | None
    without_bounds: Mapping[str, str]


@dataclass
class _Tally:
    """What one run has made so far, and the segments that it has found otherwise than their listing said.

    ``states`` has the state of every segment. ``directories`` has those of the segments that were listed again.
    ``replaced`` are the stored SEGMENT rows in whose place the run writes others.
    """

    states: dict[str, str]
    directories: dict[str, Collection[Directories]] = field(default_factory=dict)
    files: ChangeCounts = field(default_factory=ChangeCounts)
    units: int = 0
    has_row_counts: bool = True
    replaced: list[pa.Table] = field(default_factory=list)

    def add_files(self, counts: ChangeCounts) -> None:
        """Count files that are new, changed or unchanged."""
        self.files = self.files.plus(counts)

    def replace_segments(self, rows: pa.Table) -> None:
        """Keep stored SEGMENT rows that the run replaces."""
        self.replaced.append(rows.select(OF_SEGMENTS))
        # A chunk takes as much memory as dozens of rows.
        if len(self.replaced) > _CHUNKS:
            self.replaced = [pa.concat_tables(self.replaced).combine_chunks()]


class Execution:
    """Carries out one decision about ``files`` up to the commit of ``modify``, which gets units as they are made."""

    def __init__(
        self,
        modify: Modify[TableMetadataUnit],
        files: FoundFiles,
        reading: Reading,
        *,
        source: SourceTable,
        request: WantedMetadata,
        limits: Limits,
    ) -> None:
        self._modify = modify
        self._listing = files
        self._reading = reading
        self._source = source
        self._request = request
        self._limits = limits
        self._tally = _Tally(dict(files.states))

    def rebuild_table(self, *, owner: str, replaces: bool) -> ExecutionOutcome:
        """Rebuild every segment; with ``replaces``, the table's stored metadata is deleted in the same commit.

        Raises ConflictError if a surveyed directory has lost its files since.
        """
        if replaces:
            self._modify.delete(of_table(self._source.table), MetadataType.ALL)
        listing = self._listing
        self._reading.expect(listing.count)
        sizes = {key: listing.size(key) for key in listing.states}
        parts = self._rebuild_in_tasks([key for key in sizes if self._fits_task(key, sizes[key].files)], {}, anew=False)
        # Files that the driver has listed are read together; of others, a few segments at a time.
        weights = {key: sizes[key].files if key in listing.surveyed else 0 for key in sizes if key not in parts}
        tops = list(parts.values())
        for keys in _groups(weights, self._limits.driver_rows):
            segments = self._list_segments(keys)
            files = [file for own in segments.values() for file in own]
            reads = [FileRead(file, exact=True, missing=self._request.describing_with_columns) for file in files]
            tops += self._build_segments(reads, segments, UNIT_SCHEMA.empty_table(), {})
            self._tally.add_files(ChangeCounts(new=len(files)))
        return self._write_table(Total.sum_of(tops), segments=len(sizes), removed=frozenset(), owner=owner)

    def rebuild_changes(self, decision: SegmentsToRebuild, stored: StoredMetadata, *, owner: str) -> ExecutionOutcome:
        """Rebuild the changed segments, on top of the ``stored`` units. Raises as :meth:`rebuild_table`."""
        states = self._listing.states
        changes = changed_segments(stored.states, short_states(states))
        # At level TABLE no SEGMENT unit is written that would replace the stored ones.
        deleted = frozenset(stored.states) if self._request.level is MetadataType.TABLE else changes.removed
        if deleted:
            of_deleted = And(of_table(self._source.table), In(term="metadataKey", literals=set(deleted)))
            self._modify.delete(of_deleted, MetadataType.ALL)
        removed_rows = stored.tops(changes.removed)
        self._tally.replace_segments(removed_rows)
        self._tally.add_files(ChangeCounts(removed=files_in(removed_rows)))
        touched = changes.touched if decision.reason is None else frozenset(states)
        tops = self._rebuild_segments(sorted(touched), decision, stored)
        total = _total(stored, pa.concat_tables(self._tally.replaced), tops, touched | changes.removed)
        return self._write_table(total, segments=len(touched), removed=deleted, owner=owner)

    def _rebuild_segments(self, keys: Sequence[str], decision: SegmentsToRebuild, stored: StoredMetadata) -> list[Part]:
        """Rebuild the segments ``keys`` in tasks or on the driver; returns their parts for the table's roll-up."""
        groups = stored.partitions(keys)
        # Above level FILE no file's units are stored.
        reads_all = decision.footers or not stored.keeps_files
        unread = {
            key: self._listing.size(key).files
            if reads_all or key not in groups
            else self._listing.later(key, stored.last_modified_ms)
            for key in keys
        }
        self._reading.expect(sum(unread.values()))
        stored_bytes = {key: groups[key].files.size_bytes if key in groups else 0 for key in keys}
        task_keys = [key for key in keys if self._fits_task(key, unread[key], stored_bytes[key])]
        parts = self._rebuild_in_tasks(task_keys, groups, anew=decision.footers)
        weights = {key: groups[key].files.rows if key in groups else 0 for key in keys if key not in parts}
        tops = list(parts.values())
        for driver_keys in _groups(weights, self._limits.driver_rows):
            tops += self._rebuild_on_driver(self._list_segments(driver_keys), decision, groups)
        return tops

    def _fits_task(self, key: str, unread: int, stored_bytes: int = 0) -> bool:
        """Whether one task both reads a segment's files and makes the segment; ``unread`` files are to be read.

        This holds only if footers suffice; otherwise tasks of their own read the files.
        """
        limits, size = self._limits, self._listing.size(key)
        if not self._reading.of_footers:
            return False
        if key in self._listing.surveyed:
            # Data that must be read for bounds is shared directory by directory.
            return size.files <= limits.directory_files[1] and stored_bytes <= limits.directory_bytes
        if unread > 0 and self._request.bounds_read.may_read_data and size.bytes > limits.data_bytes:
            return False  # several tasks share the data of large files
        # The task receives the listing of a known segment.
        is_listed = not stored_bytes or size.files <= limits.known_files
        return is_listed and unread <= limits.chunk_files[1] and stored_bytes <= limits.stored_bytes

    def _list_segments(self, keys: Sequence[str]) -> _Segments:
        """Returns the files of the segments ``keys``. Surveyed ones are listed again, which gives their states."""
        segments = self._listing.list_segments(self._source, keys)
        self._require_files(keys, segments)
        for key in self._listing.surveyed.keys() & segments.keys():
            self._tally.states[key] = segment_state(segments[key])
            self._tally.directories[key] = {file.directories for file in segments[key]}
        return segments

    def _require_files(self, keys: Sequence[str], segments: Collection[str]) -> None:
        """Raise ConflictError if one of ``keys`` is not among ``segments``, which have files now."""
        if lost := [key for key in keys if key not in segments]:
            raise ConflictError(
                f"the directory {lost[0]} of {self._source.table} lost its files while the table was analyzed; "
                "nothing was changed"
            )

    def _rebuild_on_driver(
        self, segments: _Segments, decision: SegmentsToRebuild, groups: Mapping[str, FileGroup]
    ) -> list[Part]:
        """Rebuild ``segments`` from their stored units and the files that must be read; returns their parts."""
        batches = chain.from_iterable(groups[key].batches() for key in segments if key in groups)
        stored = StoredSegments.of(pa.Table.from_batches(batches, UNIT_SCHEMA))
        files = list(chain.from_iterable(segments.values()))
        comparison = stored.compare(files)
        valid_rows = comparison.kept.select(["metadataType", "path", "schema", "additionalMetadata"])
        valid_files = of_kind(valid_rows, MetadataType.FILE)
        missing = self._request.describing_with_columns
        descriptions = {} if decision.anew else stored_descriptions(valid_files, missing)
        reads = self._reading.lacking(files, valid_files, descriptions, anew=decision.footers)
        self._tally.replace_segments(stored.tops)
        self._tally.add_files(comparison.changes.counts)
        kept_rows = comparison.standing(self._request.level, anew=decision.footers)
        return self._build_segments(reads, segments, kept_rows, descriptions)

    def _build_segments(
        self,
        reads: Sequence[FileRead],
        segments: _Segments,
        kept_rows: pa.Table,
        descriptions: dict[str, Descriptions],
    ) -> list[Part]:
        """Read files, and write ``segments`` from them and from ``kept_rows``; returns the segments' parts.

        ``descriptions`` by path get those of the files that are read.
        """
        if self._reading.of_footers:
            return list(self._build_from_footers(reads, segments, kept_rows))
        answers = self._reading.files(reads)
        for path, own in answers.descriptions.items():
            descriptions.setdefault(path, {}).update(own)
        rows = pa.concat_tables([kept_rows, pa.Table.from_batches(answers.details, UNIT_SCHEMA)])
        details = with_descriptions(rows, descriptions)
        may_lack_counts = self._source.provided is not None
        self._tally.has_row_counts = not (may_lack_counts and lacks_count(of_kind(details, MetadataType.FILE)))
        return self._write_segments(file_parts(details, self._source.location), details)

    def _build_from_footers(
        self, reads: Sequence[FileRead], segments: _Segments, kept_rows: pa.Table
    ) -> Iterator[Part]:
        """Read footers, and write each segment when all of its files have arrived. Yields the segments' parts."""
        awaited = Counter(metadata_key(read.file.directories) for read in reads)
        gathering = Gathering({key: awaited[key] for key in segments}, kept_rows)
        batches = self._reading.footers([read.file for read in reads])
        # Unchanged files are added up while others are read.
        kept_parts = {key: file_parts(rows, self._source.location) for key, rows in gathering.kept_rows().items()}
        if complete := gathering.complete():
            yield from self._write_complete_segments(complete, kept_parts)
        for batch in batches:
            if complete := gathering.add(batch):
                yield from self._write_complete_segments(complete, kept_parts)

    def _rebuild_in_tasks(self, keys: Sequence[str], groups: Mapping[str, FileGroup], *, anew: bool) -> dict[str, Part]:
        """Rebuild segments in tasks, from their files and the stored units in ``groups``; returns their parts by key.

        The result lacks the remaining segments if one turns out larger than the engine hands over at once. This happens
        with files of thousands of columns: their width is unknown before they are read.
        """
        surveyed = [self._listing.surveyed[key] for key in keys if key in self._listing.surveyed]
        listed = {key: self._listing.segments[key] for key in keys if key not in self._listing.surveyed}
        parts = self._make_listed(listed, groups, anew=anew)
        return parts | self._make_surveyed(surveyed, groups, anew=anew)

    def _make_listed(self, segments: _Segments, groups: Mapping[str, FileGroup], *, anew: bool) -> dict[str, Part]:
        """Rebuild segments whose files the driver has listed, as :meth:`_rebuild_in_tasks`."""
        parts: dict[str, Part] = {}
        if segments:
            encoder = self._modify.encoder()
            chunks = self._reading.cutting.segments(segments, self._tally.states, groups, anew=anew, encoder=encoder)
            with suppress(ResultsTooLargeError):
                for batch in run_named(self._reading.engine, chunks, make_segments, segments_schema(UNIT_SCHEMA)):
                    parts |= self._store_made_segments(MadeSegments.of(batch))
        return parts

    def _make_surveyed(
        self, surveyed: Sequence[SurveyedSegment], groups: Mapping[str, FileGroup], *, anew: bool
    ) -> dict[str, Part]:
        """Rebuild segments that tasks list themselves, as :meth:`_rebuild_in_tasks`."""
        parts: dict[str, Part] = {}
        if not surveyed:
            return parts
        table = self._source.table
        # The partitions of segments are in the same folder as the table's own.
        own_partition = (table.storage_plugin, table.workspace, table.name, GENERAL_INFO)
        template = self._reading.cutting.directory_template(
            reach=self._modify.reach(),
            sender=self._modify.sender(own_partition),
            encoder=self._modify.encoder(),
            anew=anew,
            reads_stored=self._listing.reached_on is self._reading.engine,
        )
        chunks = self._reading.cutting.directories(surveyed, template, groups)
        with suppress(ResultsTooLargeError):
            for batch in run_named(self._reading.engine, chunks, make_directories, segments_schema(UNIT_SCHEMA)):
                made = MadeSegments.of(batch)
                self._tally.states |= made.states
                self._tally.directories |= made.directories
                parts |= self._store_made_segments(made)
            self._require_files([each.key for each in surveyed], parts)
        return parts

    def _store_made_segments(self, made: MadeSegments) -> dict[str, Part]:
        """Store and count what a task has made; returns the segments' parts by key."""
        self._modify.overwrite_encoded(made.partitions)
        self._tally.units += made.units
        self._tally.add_files(made.counts)
        self._tally.replace_segments(made.before)
        self._reading.count_read(made.read)
        return {metadata_key(top.directories): top for top in made.tops}

    def _write_complete_segments(self, segments: CompleteSegments, kept_parts: Mapping[str, list[Part]]) -> list[Part]:
        """Write segments all of whose files have arrived; returns their parts."""
        parts = [*segment_parts(segments.fragments), *chain.from_iterable(kept_parts[key] for key in segments.kept)]
        return self._write_segments(parts, pa.concat_tables([*segments.kept.values(), segments.read]))

    def _write_segments(self, parts: Sequence[Part], details: pa.Table) -> list[Part]:
        """Write the units of the segments that ``parts`` add up to; returns a part of the table for each."""
        level, states = self._request.level, self._tally.states
        units, tops = segment_units(
            self._source, UNIT_SCHEMA, parts, details, level=level, states=states, is_flat=is_flat(states)
        )
        self._modify.overwrite_ahead(units)
        self._tally.units += units.num_rows
        return [top.for_table() for top in tops]

    def _write_table(self, total: Total, *, segments: int, removed: frozenset[str], owner: str) -> ExecutionOutcome:
        """Write the TABLE unit, the last one of the run; returns the run's outcome."""
        tally, request = self._tally, self._request
        directories = self._listing.directories(tally.directories)
        unit = table_unit(
            self._source, UNIT_SCHEMA, total, directories, owner=owner, request=request, states=tally.states
        )
        self._modify.overwrite(unit)
        schema = TupleSchema.from_json(unit["schema"][0].as_py())
        statistics = dict(unit["columnsStatistics"][0].as_py() or ())
        return ExecutionOutcome(
            files=tally.files,
            segments=segments,
            removed=removed,
            units=tally.units + unit.num_rows,
            rows=total.part.rows if tally.has_row_counts else None,
            without_bounds=columns_without_bounds(schema, statistics, request.bounds_read, request.format),
        )


def _total(stored: StoredMetadata, replaced: pa.Table, tops: Sequence[Part], keys: frozenset[str]) -> Total:
    """Returns the table's total with ``tops`` in place of the segments ``keys``, whose SEGMENT rows are ``replaced``.

    Raises FormatError if another program has stored a segment that cannot be added up.
    """
    others = stored.states.keys() - keys
    if not others:
        return Total.sum_of(tops)
    total = stored.total(keys, states_by_key(replaced))
    if total is not None and not incomplete_segments(replaced):
        exchanged = total.exchange_segments(segment_parts(replaced), tops)
        if exchanged is not None:
            return exchanged
    kept_rows = stored.segments.filter(pc.is_in(stored.segments["metadataKey"], pa.array(others, pa.string())))
    if incomplete := incomplete_segments(kept_rows):
        raise FormatError(
            f"{stored.table}: the metadata of the directory {incomplete[0]!r} lacks a row count, schema or statistics: "
            "another program wrote it; drop the table's metadata with `metastore drop-metadata`, and analyze it again"
        )
    return Total.sum_of([*tops, *segment_parts(kept_rows)])


def _groups(weights: Mapping[str, int], most: int) -> Iterator[Sequence[str]]:
    """Yields the segments in groups that weigh at most ``most``; a heavier segment is a group of its own."""
    group: list[str] = []
    weight = 0
    for key, own in weights.items():
        if group and weight + own > most:
            yield group
            group, weight = [], 0
        group.append(key)
        weight += own
    if group:
        yield group
