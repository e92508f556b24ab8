"""Carries out one decision of an ANALYZE up to the commit: makes and stores segments, and adds them up to the table.

Place in the flow: tasks make most segments, each from its files and its stored units
(:mod:`metastore.analyze.tasks.segments`). The driver makes a segment here if it has more files than one task reads, or
if more than footers must be read. It uses the same pieces: tasks read the files (:mod:`metastore.analyze.reading`). The
driver takes a few known segments at a time, so stored units are never all in memory at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, In

from metastore.analyze.changes import ChangeCounts, SegmentsToRebuild, WantedMetadata, changed_segments, is_flat
from metastore.analyze.found_files import FoundFiles
from metastore.analyze.reading import Descriptions, Progress, Reading, stored_descriptions, with_descriptions
from metastore.analyze.states import segment_state, short_states
from metastore.analyze.stored_metadata import StoredMetadata
from metastore.analyze.tasks.chunks import (
    UNIT_SCHEMA,
    FileRead,
    Limits,
    run_named,
)
from metastore.analyze.tasks.directories import make_directories
from metastore.analyze.tasks.segments import MadeSegments, make_segments, segments_schema
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
from metastore.engines.engine import Engine, ResultsTooLargeError
from metastore.errors import ConflictError, FormatError
from metastore.lake.formats.source_file import SourceFile
from metastore.model.identity import metadata_key
from metastore.model.mapping.rows import PartitionKey
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


class Execution:
    """Carries out one decision up to the commit of ``modify``; units go to ``modify`` as soon as they are known.

    ``engine`` is chosen once the number of files to read is known.
    """

    def __init__(
        self,
        modify: Modify[TableMetadataUnit],
        source: SourceTable,
        engine: Engine | Callable[[int], Engine],
        request: WantedMetadata,
        on_progress: Progress | None,
        limits: Limits,
    ) -> None:
        self._modify = modify
        self._source = source
        self._wanted = request
        self._limits = limits
        self._reading = Reading(source, request, engine, on_progress, limits)
        self._units = 0
        self._files = ChangeCounts()
        self._counts_rows = True
        self._before: list[pa.Table] = []
        self._states: dict[str, str] = {}
        self._directories: dict[str, Collection[Directories]] = {}

    @property
    def engine(self) -> str | None:
        """The name of the engine that read files; None if there were no files to read."""
        return self._reading.engine_name

    def full(self, found_files: FoundFiles, *, owner: str, is_known: bool) -> ExecutionOutcome:
        """Rebuilds everything; ``is_known`` means that stored metadata of the table is replaced.

        Raises ConflictError if a surveyed directory has lost its files since.
        """
        if is_known:
            self._modify.delete(of_table(self._source.table), MetadataType.ALL)
        self._reading.expect(found_files.count)
        self._states = dict(found_files.states)
        sizes = {key: found_files.size(key) for key in found_files.states}
        for_tasks = [key for key, size in sizes.items() if self._is_for_tasks(found_files, key, size.files)]
        made = self._made_by_tasks(for_tasks, found_files, {}, anew=False)
        tops = list(made.values())
        rest = [key for key in found_files.states if key not in made]
        # Files that the driver has listed are read together; of others, a few segments at a time.
        files_at_once = {key: sizes[key].files if key in found_files.surveyed else 0 for key in rest}
        for keys in _at_once(rest, files_at_once, self._limits.driver_rows):
            segments = self._list_segments(found_files, keys)
            files = [file for own in segments.values() for file in own]
            reads = [FileRead(file, exact=True, missing=self._wanted.describing_with_columns) for file in files]
            tops += self._build_parts(reads, segments, UNIT_SCHEMA.empty_table(), {})
            self._files = self._files.plus(ChangeCounts(new=len(files)))
        return self._outcome(Total.sum_of(tops), found_files, len(found_files.states), frozenset(), owner)

    def incremental(
        self, found_files: FoundFiles, decision: SegmentsToRebuild, stored: StoredMetadata, *, owner: str
    ) -> ExecutionOutcome:
        """Rebuilds the changed segments, on top of the ``stored`` units. Raises as :meth:`full`."""
        self._states = dict(found_files.states)
        segment_changes = changed_segments(stored.states, short_states(found_files.states))
        # At level TABLE no SEGMENT unit is written that would replace the stored ones.
        gone = frozenset(stored.states) if self._wanted.level is MetadataType.TABLE else segment_changes.removed
        if gone:
            of_gone = And(of_table(self._source.table), In(term="metadataKey", literals=set(gone)))
            self._modify.delete(of_gone, MetadataType.ALL)
        removed = stored.tops(segment_changes.removed)
        self._stood_before(removed)
        self._files = ChangeCounts(removed=files_in(removed))
        touched = segment_changes.touched if decision.reason is None else frozenset(found_files.states)
        tops = self._made_anew(sorted(touched), found_files, decision, stored)
        keys = touched | segment_changes.removed
        total = _total(stored, pa.concat_tables(self._before), tops, keys)
        return self._outcome(total, found_files, len(touched), gone, owner)

    def _made_anew(
        self, keys: Sequence[str], found_files: FoundFiles, decision: SegmentsToRebuild, stored: StoredMetadata
    ) -> list[Part]:
        """Rebuilds the segments ``keys``, by tasks or by the driver; all, some or none of their files may be known."""
        known = stored.partitions(keys)
        # Above level FILE no file's units are stored.
        all_unknown = decision.footers or not stored.keeps_files
        unknown = {
            key: found_files.size(key).files
            if key not in known or all_unknown
            else found_files.later(key, stored.last_modified_ms)
            for key in keys
        }
        self._reading.expect(sum(unknown.values()))
        for_tasks = [
            key
            for key in keys
            if self._is_for_tasks(found_files, key, unknown[key], known[key].size_bytes if key in known else 0)
        ]
        made = self._made_by_tasks(for_tasks, found_files, known, anew=decision.footers)
        tops = list(made.values())
        rest = [key for key in keys if key not in made]
        rows = {key: known[key].rows if key in known else 0 for key in rest}
        for some in _at_once(rest, rows, self._limits.driver_rows):
            tops += self._made_here(self._list_segments(found_files, some), decision, known)
        return tops

    def _is_for_tasks(self, found_files: FoundFiles, key: str, unknown: int, stored_bytes: int = 0) -> bool:
        """Whether one task both reads a segment's files and makes the segment, given the number of files to read.

        This holds only if footers suffice; otherwise tasks of their own read the files.
        """
        limits, size = self._limits, found_files.size(key)
        if not self._reading.of_footers:
            return False
        if key in found_files.surveyed:
            # Data that must be read for bounds is shared directory by directory.
            return size.files <= limits.directory_files[1] and stored_bytes <= limits.directory_bytes
        if unknown > 0 and self._wanted.bounds_read.may_read_data and size.bytes > limits.data_bytes:
            return False  # several tasks share the data of large files
        # The task receives the listing of a known segment.
        is_listed = not stored_bytes or size.files <= limits.known_files
        return is_listed and unknown <= limits.chunk_files[1] and stored_bytes <= limits.stored_bytes

    def _list_segments(self, found_files: FoundFiles, keys: Sequence[str]) -> _Segments:
        """The files of the segments ``keys``; for surveyed ones, their states are those of this listing."""
        segments = found_files.list_segments(self._source, keys)
        self._refuse_gone(keys, segments)
        for key in found_files.surveyed.keys() & segments.keys():
            self._states[key] = segment_state(segments[key])
            self._directories[key] = {file.directories for file in segments[key]}
        return segments

    def _refuse_gone(self, keys: Sequence[str], segments: Collection[str]) -> None:
        if gone := [key for key in keys if key not in segments]:
            raise ConflictError(
                f"the directory {gone[0]} of {self._source.table} lost its files while the table was analyzed; "
                "nothing was changed"
            )

    def _made_here(
        self, segments: _Segments, decision: SegmentsToRebuild, groups_by_key: Mapping[str, FileGroup]
    ) -> list[Part]:
        """Rebuilds ``segments`` on the driver, from their stored units and the files that must be read."""
        groups = [groups_by_key[key] for key in segments if key in groups_by_key]
        batches = chain.from_iterable(group.batches() for group in groups)
        before = StoredSegments.of(pa.Table.from_batches(batches, UNIT_SCHEMA))
        files = list(chain.from_iterable(segments.values()))
        compared = before.compare(files)
        true = compared.kept.select(["metadataType", "path", "schema", "additionalMetadata"])
        true = of_kind(true, MetadataType.FILE)
        described = {} if decision.anew else stored_descriptions(true, self._wanted.describing_with_columns)
        reads = self._reading.lacking(files, true, described, anew=decision.footers)
        self._stood_before(before.tops)
        self._files = self._files.plus(compared.changes.counts)
        kept = compared.standing(self._wanted.level, anew=decision.footers)
        return self._build_parts(reads, segments, kept, described)

    def _build_parts(
        self,
        reads: Sequence[FileRead],
        segments: _Segments,
        kept_rows: pa.Table,
        described: dict[str, Descriptions],
    ) -> list[Part]:
        """Rebuilds ``segments`` from the files read and ``kept_rows``.

        Returns their parts for the table's roll-up.
        """
        if self._reading.of_footers:
            return list(self._from_footers(reads, segments, kept_rows))
        found = self._reading.files(reads)
        for path, descriptions in found.descriptions.items():
            described.setdefault(path, {}).update(descriptions)
        details = with_descriptions(
            pa.concat_tables([kept_rows, pa.Table.from_batches(found.details, UNIT_SCHEMA)]), described
        )
        self._counts_rows = self._source.provided is None or not lacks_count(of_kind(details, MetadataType.FILE))
        return self._segments(file_parts(details, self._source.location), details)

    def _from_footers(self, reads: Sequence[FileRead], segments: _Segments, kept_rows: pa.Table) -> Iterator[Part]:
        """Reads footers, and makes each segment when all of its files have arrived."""
        awaited = Counter(metadata_key(read.file.directories) for read in reads)
        gathering = Gathering({key: awaited[key] for key in segments}, kept_rows)
        batches = self._reading.footers([read.file for read in reads])
        # Unchanged files are added up while others are read.
        staying = {key: file_parts(rows, self._source.location) for key, rows in gathering.kept_rows().items()}
        if found := gathering.complete():
            yield from self._write_complete_segments(found, staying)
        for batch in batches:
            if found := gathering.add(batch):
                yield from self._write_complete_segments(found, staying)

    def _made_by_tasks(
        self, keys: Sequence[str], found_files: FoundFiles, stored: Mapping[str, FileGroup], *, anew: bool
    ) -> dict[str, Part]:
        """Lets tasks make segments from their ``stored`` units and their files; returns their parts by key.

        The result lacks the remaining segments if one turns out larger than the engine hands over at once. This happens
        with files of thousands of columns: their width is unknown before they are read.
        """
        tops: dict[str, Part] = {}
        if not keys:
            return tops
        cutting, encoder = self._reading.cutting, self._modify.encoder()
        listed = {key: found_files.segments[key] for key in keys if key not in found_files.surveyed}
        if listed:
            chunks = cutting.segments(listed, self._states, stored, anew=anew, encoder=encoder)
            with suppress(ResultsTooLargeError):
                for batch in run_named(self._reading.engine, chunks, make_segments, segments_schema(UNIT_SCHEMA)):
                    tops |= self._store_made_segments(MadeSegments.of(batch))
        surveyed = [found_files.surveyed[key] for key in keys if key in found_files.surveyed]
        if not surveyed:
            return tops
        template = cutting.directory_template(
            reach=self._modify.reach(),
            sender=self._modify.sender(self._partition_key()),
            encoder=encoder,
            anew=anew,
            reads_stored=found_files.reached_on is self._reading.engine,
        )
        directories = cutting.directories(surveyed, template, stored)
        with suppress(ResultsTooLargeError):
            for batch in run_named(self._reading.engine, directories, make_directories, segments_schema(UNIT_SCHEMA)):
                made = MadeSegments.of(batch)
                self._states |= made.states
                self._directories |= made.directories
                tops |= self._store_made_segments(made)
            self._refuse_gone([each.key for each in surveyed], tops)
        return tops

    def _partition_key(self) -> PartitionKey:
        """The key of the table's own partition; those of its segments are in the same folder."""
        table = self._source.table
        return (table.storage_plugin, table.workspace, table.name, GENERAL_INFO)

    def _store_made_segments(self, made: MadeSegments) -> dict[str, Part]:
        """Has what a task made stored, and counts it; returns the segments' parts by key."""
        self._modify.overwrite_encoded(made.partitions)
        self._units += made.units
        self._files = self._files.plus(made.counts)
        self._stood_before(made.before)
        self._reading.tell(made.read)
        return {metadata_key(top.directories): top for top in made.tops}

    def _stood_before(self, tops: pa.Table) -> None:
        """Keeps the stored SEGMENT rows that this run replaces."""
        self._before.append(tops.select(OF_SEGMENTS))
        # A chunk takes as much memory as dozens of rows.
        if len(self._before) > _CHUNKS:
            self._before = [pa.concat_tables(self._before).combine_chunks()]

    def _write_complete_segments(self, segments: CompleteSegments, staying: Mapping[str, list[Part]]) -> list[Part]:
        """Has the units of complete segments written; returns their parts for the table's roll-up."""
        parts = [*segment_parts(segments.fragments), *chain.from_iterable(staying[key] for key in segments.kept)]
        return self._segments(parts, pa.concat_tables([*segments.kept.values(), segments.read]))

    def _segments(self, parts: Sequence[Part], details: pa.Table) -> list[Part]:
        level, states = self._wanted.level, self._states
        units, tops = segment_units(
            self._source, UNIT_SCHEMA, parts, details, level=level, states=states, is_flat=is_flat(states)
        )
        self._modify.overwrite_ahead(units)
        self._units += units.num_rows
        return [top.for_table() for top in tops]

    def _outcome(
        self, total: Total, found_files: FoundFiles, segments: int, removed: frozenset[str], owner: str
    ) -> ExecutionOutcome:
        directories = found_files.directories(self._directories)
        general = table_unit(
            self._source, UNIT_SCHEMA, total, directories, owner=owner, request=self._wanted, states=self._states
        )
        self._modify.overwrite(general)
        units = self._units + general.num_rows
        rows = total.part.rows if self._counts_rows else None
        return ExecutionOutcome(self._files, segments, removed, units, rows, self._without_bounds(general))

    def _without_bounds(self, general: pa.Table) -> Mapping[str, str]:
        """The columns of the TABLE unit without bounds, each with the reason."""
        schema = TupleSchema.from_json(general["schema"][0].as_py())
        statistics = dict(general["columnsStatistics"][0].as_py() or ())
        return columns_without_bounds(schema, statistics, self._wanted.bounds_read, self._wanted.format)


def _total(stored: StoredMetadata, before: pa.Table, tops: Sequence[Part], keys: frozenset[str]) -> Total:
    """The table's total with ``tops`` in place of the segments ``keys``, whose stored SEGMENT rows are ``before``."""
    others = stored.states.keys() - keys
    if not others:
        return Total.sum_of(tops)
    total = stored.total(keys, states_by_key(before))
    if total is not None and not incomplete_segments(before):
        exchanged = total.exchange_segments(segment_parts(before), tops)
        if exchanged is not None:
            return exchanged
    kept = stored.segments.filter(pc.is_in(stored.segments["metadataKey"], pa.array(others, pa.string())))
    if incomplete := incomplete_segments(kept):
        raise FormatError(
            f"{stored.table}: the metadata of the directory {incomplete[0]!r} lacks a row count, schema or statistics: "
            "another program wrote it; drop the table's metadata with `metastore drop-metadata`, and analyze it again"
        )
    return Total.sum_of([*tops, *segment_parts(kept)])


def _at_once(keys: Sequence[str], weights: Mapping[str, int], most: int) -> Iterator[Sequence[str]]:
    """Splits the segments ``keys`` into groups of at most ``most`` together, by their ``weights``.

    A heavier segment is a group of its own.
    """
    turn: list[str] = []
    held = 0
    for key in keys:
        if turn and held + weights[key] > most:
            yield turn
            turn, held = [], 0
        turn.append(key)
        held += weights[key]
    if turn:
        yield turn
