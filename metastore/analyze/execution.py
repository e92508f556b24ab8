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

from metastore.analyze.changes import Changed, FileCounts, WantedMetadata, changed_segments, is_flat
from metastore.analyze.reading import Descriptions, Progress, Reading
from metastore.analyze.states import short_states
from metastore.analyze.stored import Stored
from metastore.analyze.tasks.chunks import (
    UNIT_SCHEMA,
    Limits,
    Read,
    run_named,
)
from metastore.analyze.tasks.segments import MadeSegments, make_segments, segments_schema
from metastore.analyze.units.gathering import Gathered, Gathering, files_in
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
from metastore.analyze.units.unit_rows import of_kind, values
from metastore.analyze.unprunable import columns_without_bounds
from metastore.components.requests import of_table
from metastore.engine import Engine, ResultsTooLargeError
from metastore.errors import FormatError
from metastore.formats.source_file import SourceFile
from metastore.model.column_path import is_among, parse
from metastore.model.identity import metadata_key
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import MetadataType
from metastore.operations.modify import Modify
from metastore.sketches.description import Describing, descriptions_in, descriptions_text
from metastore.sources.directories import Directories
from metastore.sources.source_table import SourceTable
from metastore.storage.file_groups import FileGroup

_CHUNKS: Final = 256

_Segments = Mapping[str, Sequence[SourceFile]]


@dataclass(frozen=True)
class Outcome:
    """The result: file changes, rebuilt ``segments``, ``removed`` segments, units written, the table's rows if known.

    ``without_bounds`` maps each column that cannot skip files to the reason.
    """

    files: FileCounts
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
        wanted: WantedMetadata,
        on_progress: Progress | None,
        limits: Limits,
    ) -> None:
        self._modify = modify
        self._source = source
        self._wanted = wanted
        self._limits = limits
        self._reading = Reading(source, wanted, engine, on_progress, limits)
        self._units = 0
        self._files = FileCounts()
        self._counts_rows = True
        self._before: list[pa.Table] = []

    @property
    def engine(self) -> str | None:
        """The name of the engine that read files; None if there were no files to read."""
        return self._reading.engine_name

    def full(self, segments: _Segments, fresh: Mapping[str, str], *, owner: str, known: bool) -> Outcome:
        """Rebuilds everything; ``known`` means that stored metadata of the table is replaced."""
        if known:
            self._modify.delete(of_table(self._source.table), MetadataType.ALL)
        self._reading.expect(sum(map(len, segments.values())))
        for_tasks = {key: files for key, files in segments.items() if self._is_for_tasks(len(files), files=files)}
        made = self._made_by_tasks(for_tasks, fresh, {}, anew=False)
        tops = list(made.values())
        rest = {key: files for key, files in segments.items() if key not in made}
        if rest:
            files = [file for own in rest.values() for file in own]
            reads = [Read(file, exact=True, missing=self._wanted.described) for file in files]
            tops += self._made(reads, rest, fresh, UNIT_SCHEMA.empty_table(), {})
            self._files = self._files.plus(FileCounts(new=len(files)))
        return self._outcome(Total.added(tops), segments, fresh, len(fresh), frozenset(), owner)

    def incremental(
        self,
        segments: _Segments,
        fresh: Mapping[str, str],
        decision: Changed,
        stored: Stored,
        *,
        owner: str,
        others: Collection[Directories] = (),
    ) -> Outcome:
        """Rebuilds the changed segments, on top of the ``stored`` units.

        ``segments`` may lack unchanged ones; ``others`` are then the directories of their files.
        """
        segment_changes = changed_segments(stored.states, short_states(fresh))
        # At level TABLE no SEGMENT unit is written that would replace the stored ones.
        gone = frozenset(stored.states) if self._wanted.level is MetadataType.TABLE else segment_changes.removed
        if gone:
            of_gone = And(of_table(self._source.table), In(term="metadataKey", literals=set(gone)))
            self._modify.delete(of_gone, MetadataType.ALL)
        removed = stored.tops(segment_changes.removed)
        self._stood_before(removed)
        self._files = FileCounts(removed=files_in(removed))
        touched = segment_changes.touched if decision.reason is None else frozenset(fresh)
        tops = self._made_anew({key: segments[key] for key in sorted(touched)}, fresh, decision, stored)
        keys = touched | segment_changes.removed
        total = _total(stored, pa.concat_tables(self._before), tops, keys)
        return self._outcome(total, segments, fresh, len(touched), gone, owner, others)

    def _made_anew(
        self, segments: _Segments, fresh: Mapping[str, str], decision: Changed, stored: Stored
    ) -> list[Part]:
        """Rebuilds ``segments``, by tasks or by the driver; all, some or none of their files may be known."""
        known = stored.partitions(segments)
        # Above level FILE no file's units are stored.
        all_unknown = decision.footers or not stored.keeps_files
        unknown = {
            key: len(files) if key not in known or all_unknown else _later(files, stored.modified)
            for key, files in segments.items()
        }
        self._reading.expect(sum(unknown.values()))
        for_tasks = {
            key: files
            for key, files in segments.items()
            if len(files) <= self._limits.known_files
            and self._is_for_tasks(unknown[key], known[key].size_bytes if key in known else 0, files)
        }
        made = self._made_by_tasks(for_tasks, fresh, known, anew=decision.footers)
        tops = list(made.values())
        rest = [key for key in segments if key not in made]
        for keys in _at_once(rest, known, self._limits.driver_rows):
            tops += self._made_here({key: segments[key] for key in keys}, fresh, decision, known)
        return tops

    def _is_for_tasks(self, unknown: int, stored_bytes: int = 0, files: Sequence[SourceFile] = ()) -> bool:
        """Whether one task both reads a segment's files and makes the segment, given the number of files to read.

        This holds only if footers suffice; otherwise tasks of their own read the files.
        """
        limits = self._limits
        may_read_data = unknown > 0 and self._wanted.bounds_read.may_read_data
        if may_read_data and sum(file.size for file in files) > limits.data_bytes:
            return False  # several tasks share the data of large files
        return self._reading.of_footers and unknown <= limits.chunk_files[1] and stored_bytes <= limits.stored_bytes

    def _made_here(
        self, segments: _Segments, fresh: Mapping[str, str], decision: Changed, known: Mapping[str, FileGroup]
    ) -> list[Part]:
        """Rebuilds ``segments`` on the driver, from their stored units and the files that must be read."""
        groups = [known[key] for key in segments if key in known]
        batches = chain.from_iterable(group.batches() for group in groups)
        before = StoredSegments.of(pa.Table.from_batches(batches, UNIT_SCHEMA))
        files = list(chain.from_iterable(segments.values()))
        compared = before.compared(files)
        true = compared.kept.select(["metadataType", "path", "schema", "additionalMetadata"])
        true = of_kind(true, MetadataType.FILE)
        described = {} if decision.anew else _descriptions(true, self._wanted.described)
        reads = self._reading.lacking(files, true, described, anew=decision.footers)
        self._stood_before(before.tops)
        self._files = self._files.plus(compared.changes.counts)
        kept = compared.standing(self._wanted.level, anew=decision.footers)
        return self._made(reads, segments, fresh, kept, described)

    def _made(
        self,
        reads: Sequence[Read],
        segments: _Segments,
        fresh: Mapping[str, str],
        kept: pa.Table,
        described: dict[str, Descriptions],
    ) -> list[Part]:
        """Rebuilds ``segments`` from the files read and the ``kept`` rows.

        Returns their parts for the table's roll-up.
        """
        if self._reading.of_footers:
            return list(self._from_footers(reads, segments, fresh, kept))
        found = self._reading.files(reads)
        for path, descriptions in found.descriptions.items():
            described.setdefault(path, {}).update(descriptions)
        details = _with_descriptions(
            pa.concat_tables([kept, pa.Table.from_batches(found.details, UNIT_SCHEMA)]), described
        )
        self._counts_rows = self._source.provided is None or not lacks_count(of_kind(details, MetadataType.FILE))
        return self._segments(file_parts(details, self._source.location), details, fresh)

    def _from_footers(
        self, reads: Sequence[Read], segments: _Segments, fresh: Mapping[str, str], kept: pa.Table
    ) -> Iterator[Part]:
        """Reads footers, and makes each segment when all of its files have arrived."""
        awaited = Counter(metadata_key(read.file.directories) for read in reads)
        gathering = Gathering({key: awaited[key] for key in segments}, kept)
        batches = self._reading.footers([read.file for read in reads])
        # Unchanged files are added up while others are read.
        staying = {key: file_parts(rows, self._source.location) for key, rows in gathering.kept().items()}
        if found := gathering.complete():
            yield from self._stored(found, staying, fresh)
        for batch in batches:
            if found := gathering.add(batch):
                yield from self._stored(found, staying, fresh)

    def _made_by_tasks(
        self, segments: _Segments, fresh: Mapping[str, str], stored: Mapping[str, FileGroup], *, anew: bool
    ) -> dict[str, Part]:
        """Lets tasks make segments from their ``stored`` units and their files, and has the results stored; by key.

        The result lacks the remaining segments if one turns out larger than the engine hands over at once. This happens
        with files of thousands of columns: their width is unknown before they are read.
        """
        tops: dict[str, Part] = {}
        if not segments:
            return tops
        encoder = self._modify.encoder()
        chunks = self._reading.cutting.segments(segments, fresh, stored, anew=anew, encoder=encoder)
        with suppress(ResultsTooLargeError):
            for batch in run_named(self._reading.engine, chunks, make_segments, segments_schema(UNIT_SCHEMA)):
                made = MadeSegments.of(batch)
                self._modify.overwrite_encoded(made.partitions)
                self._units += made.units
                self._files = self._files.plus(made.counts)
                self._stood_before(made.before)
                self._reading.tell(made.read)
                tops.update((metadata_key(top.directories), top) for top in made.tops)
        return tops

    def _stood_before(self, tops: pa.Table) -> None:
        """Keeps the stored SEGMENT rows that this run replaces."""
        self._before.append(tops.select(OF_SEGMENTS))
        # A chunk takes as much memory as dozens of rows.
        if len(self._before) > _CHUNKS:
            self._before = [pa.concat_tables(self._before).combine_chunks()]

    def _stored(self, found: Gathered, staying: Mapping[str, list[Part]], fresh: Mapping[str, str]) -> list[Part]:
        """Has the units of complete segments written; returns their parts for the table's roll-up."""
        parts = [*segment_parts(found.fragments), *chain.from_iterable(staying[key] for key in found.kept)]
        return self._segments(parts, pa.concat_tables([*found.kept.values(), found.read]), fresh)

    def _segments(self, parts: Sequence[Part], details: pa.Table, fresh: Mapping[str, str]) -> list[Part]:
        level = self._wanted.level
        units, tops = segment_units(
            self._source, UNIT_SCHEMA, parts, details, level=level, states=fresh, is_flat=is_flat(fresh)
        )
        self._modify.overwrite_ahead(units)
        self._units += units.num_rows
        return [top.for_table() for top in tops]

    def _outcome(
        self,
        total: Total,
        all_segments: _Segments,
        fresh: Mapping[str, str],
        segments: int,
        removed: frozenset[str],
        owner: str,
        others: Collection[Directories] = (),
    ) -> Outcome:
        directories = {file.directories for files in all_segments.values() for file in files} | set(others)
        general = table_unit(
            self._source, UNIT_SCHEMA, total, directories, owner=owner, wanted=self._wanted, states=fresh
        )
        self._modify.overwrite(general)
        units = self._units + general.num_rows
        rows = total.part.rows if self._counts_rows else None
        return Outcome(self._files, segments, removed, units, rows, self._without_bounds(general))

    def _without_bounds(self, general: pa.Table) -> Mapping[str, str]:
        """The columns of the TABLE unit without bounds, each with the reason."""
        schema = TupleSchema.from_json(general["schema"][0].as_py())
        statistics = dict(general["columnsStatistics"][0].as_py() or ())
        return columns_without_bounds(schema, statistics, self._wanted.bounds_read, self._wanted.format)


def _descriptions(units: pa.Table, wanted: Describing | None) -> dict[str, Descriptions]:
    """The stored descriptions of the FILE rows among ``units``, by path; only for the columns ``wanted``."""
    if wanted is None:
        return {}
    files = of_kind(units, MetadataType.FILE)
    texts = zip(values(files, "path"), values(files, "additionalMetadata"), strict=True)
    return {
        path: {
            key: description
            for key, description in descriptions_in(text).items()
            if wanted.columns is None or is_among(parse(key), wanted.columns)
        }
        for path, text in texts
    }


def _with_descriptions(units: pa.Table, descriptions: Mapping[str, Descriptions]) -> pa.Table:
    """``units`` with ``descriptions`` as the only content of additionalMetadata in the FILE rows."""
    if not any(descriptions.values()) and units["additionalMetadata"].null_count == units.num_rows:
        return units
    kinds, paths = values(units, "metadataType"), values(units, "path")
    texts = [
        descriptions_text(descriptions.get(path, {})) if kind == MetadataType.FILE.value else None
        for kind, path in zip(kinds, paths, strict=True)
    ]
    at = units.schema.get_field_index("additionalMetadata")
    return units.set_column(at, units.schema.field(at), pa.array(texts, pa.string()))


def _total(stored: Stored, before: pa.Table, tops: Sequence[Part], keys: frozenset[str]) -> Total:
    """The table's total with ``tops`` in place of the segments ``keys``, whose stored SEGMENT rows are ``before``."""
    others = stored.states.keys() - keys
    if not others:
        return Total.added(tops)
    total = stored.total(keys, states_by_key(before))
    if total is not None and not incomplete_segments(before):
        exchanged = total.exchanged(segment_parts(before), tops)
        if exchanged is not None:
            return exchanged
    kept = stored.segments.filter(pc.is_in(stored.segments["metadataKey"], pa.array(others, pa.string())))
    if incomplete := incomplete_segments(kept):
        raise FormatError(
            f"{stored.table}: the metadata of the directory {incomplete[0]!r} lacks a row count, schema or statistics: "
            "another program wrote it; drop the table's metadata with `metastore drop-metadata`, and analyze it again"
        )
    return Total.added([*tops, *segment_parts(kept)])


def _later(files: Sequence[SourceFile], modified: int) -> int:
    """Number of ``files`` modified after the time in epoch ms: at least this number is new or changed."""
    return sum(file.mtime_ns // 1_000_000 > modified for file in files)


def _at_once(keys: Sequence[str], known: Mapping[str, FileGroup], most: int) -> Iterator[Sequence[str]]:
    """Splits the segments ``keys`` into groups of at most ``most`` known rows.

    A larger segment is a group of its own.
    """
    turn: list[str] = []
    rows = 0
    for key in keys:
        held = known[key].rows if key in known else 0
        if turn and rows + held > most:
            yield turn
            turn, rows = [], 0
        turn.append(key)
        rows += held
    if turn:
        yield turn
