"""One decision of an ANALYZE carried out up to the commit: what must be read is read on an engine, the rest is stored.

Of every file there are two things to know: its exact statistics (of Parquet from the footer, else from the data) and
its columns' descriptions (always from the data). Each is read only where it is not stored, or is not true any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, In

from metastore.analyze.changes import (
    Changed,
    FileChanges,
    Wanted,
    changed_segments,
    file_changes,
    is_flat,
)
from metastore.analyze.chunks import (
    SEGMENT_FILES,
    UNIT_SCHEMA,
    Read,
    data_chunks,
    footer_chunks,
    run_named,
    segment_chunks,
)
from metastore.analyze.description import Describing, Description, descriptions_in, descriptions_text
from metastore.analyze.file_rows import DataChunk, file_row, read_chunk
from metastore.analyze.footers import FooterChunk, read_footers
from metastore.analyze.gathering import Gathered, Gathering, files_in, parts_of
from metastore.analyze.levels import reaches
from metastore.analyze.parts import Part, file_parts, holders_of, schema_of, segment_parts
from metastore.analyze.remainder import Before
from metastore.analyze.rollup import segment_units, table_unit
from metastore.analyze.states import short_states
from metastore.analyze.stored import Stored, StoredSegments
from metastore.analyze.total import Total
from metastore.analyze.unit_rows import of_kind, to_batch, values
from metastore.analyze.whole_segments import made, make_segments, segments_schema
from metastore.components.requests import of_table
from metastore.engine import Engine
from metastore.model.column_path import is_among, parse, quote
from metastore.model.drill_types import DrillType, parse_type
from metastore.model.identity import metadata_key
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import MetadataType, Statistic
from metastore.operations.modify import Modify
from metastore.sources.formats import PARQUET
from metastore.sources.listing import Fingerprint, SourceFile
from metastore.sources.provided import Provided
from metastore.sources.source_table import SourceTable

Progress = Callable[[int, int], None]
"""Told how many files are read so far, and how many there are to read; one read twice counts twice."""

_Descriptions = dict[str, "Description | None"]
_Segments = Mapping[str, Sequence[SourceFile]]


@dataclass(frozen=True)
class Outcome:
    """What was found: changed files, ``segments`` made anew, ``removed`` ones, units written, rows of the table."""

    changes: FileChanges
    segments: int
    removed: frozenset[str]
    units: int
    rows: int


@dataclass
class _Found:
    """What reading data came to: FILE rows, and descriptions by path."""

    details: list[pa.RecordBatch] = field(default_factory=list)
    descriptions: dict[str, _Descriptions] = field(default_factory=dict)


class Work:
    """One decision carried out, up to the commit of ``modify``, which the units go to as soon as they are known.

    ``engine`` is asked for when it is known how many files there are to read.
    """

    def __init__(
        self,
        modify: Modify[TableMetadataUnit],
        source: SourceTable,
        engine: Engine | Callable[[int], Engine],
        wanted: Wanted,
        on_progress: Progress | None,
    ) -> None:
        self._modify = modify
        self._source = source
        self._engine = engine
        self.engine: str | None = None
        self._wanted = wanted
        self._told = _Told(on_progress)
        self._units = 0
        self._before = Before({}, {})

    def full(self, segments: _Segments, fresh: Mapping[str, str], *, owner: str, known: bool) -> Outcome:
        """Everything anew; ``known`` tells that there is something to take the place of."""
        if known:
            self._modify.delete(of_table(self._source.table), MetadataType.ALL)
        files = [file for own in segments.values() for file in own]
        reads = [Read(file, exact=True, missing=self._wanted.described) for file in files]
        tops = self._made(reads, segments, fresh, UNIT_SCHEMA.empty_table(), {})
        changes = FileChanges(frozenset(file.path for file in files), frozenset(), frozenset())
        return self._outcome(Total.added(tops), segments, fresh, len(fresh), changes, frozenset(), owner)

    def incremental(
        self, segments: _Segments, fresh: Mapping[str, str], decision: Changed, stored: Stored, *, owner: str
    ) -> Outcome:
        """What changed, on top of what is ``stored``."""
        segment_changes = changed_segments(stored.states, short_states(fresh))
        # At level TABLE no unit of a segment takes the place of those that are stored.
        gone = frozenset(stored.states) if self._wanted.level is MetadataType.TABLE else segment_changes.removed
        if gone:
            of_gone = And(of_table(self._source.table), In(term="metadataKey", literals=set(gone)))
            self._modify.delete(of_gone, MetadataType.ALL)
        touched = segment_changes.touched if decision.reason is None else frozenset(fresh)
        files = [file for key in sorted(touched) for file in segments[key]]
        before = stored.of_segments(touched | segment_changes.removed)
        changes = file_changes(_fingerprints(before.details), files)
        is_gone = pc.is_in(before.details["path"], pa.array(changes.changed | changes.removed, pa.string()))
        lost = of_kind(before.details.filter(is_gone), MetadataType.FILE)
        kept = before.details.filter(pc.invert(is_gone))
        true = of_kind(kept.select(["metadataType", "path", "schema", "additionalMetadata"]), MetadataType.FILE)
        described = {} if decision.anew else _descriptions(true, self._wanted.described)
        reads = self._lacking(files, true, described, decision)
        if decision.footers:
            kept = kept.slice(0, 0)
        kept = kept if reaches(self._wanted.level, MetadataType.ROW_GROUP) else of_kind(kept, MetadataType.FILE)
        self._before = Before.of(before.parts, lost)
        tops = self._made(reads, {key: segments[key] for key in touched}, fresh, kept, described)
        total = _total(stored, before, tops, touched | segment_changes.removed)
        return self._outcome(total, segments, fresh, len(touched), changes, gone, owner)

    def _lacking(
        self,
        files: Sequence[SourceFile],
        kept: pa.Table,
        described: Mapping[str, Mapping[str, object]],
        decision: Changed,
    ) -> list[Read]:
        """What is to be read of ``files``, of which the FILE rows ``kept`` are true."""
        schemas = dict(zip(values(kept, "path"), values(kept, "schema"), strict=True))
        wanted = self._wanted.described
        reads = []
        for file in files:
            schema = schemas.get(file.path)
            missing = wanted
            if schema is not None and wanted is not None:
                missing = _missing(wanted, schema_of(schema), described.get(file.path, {}))
            exact = schema is None or decision.footers
            if exact or missing is not None:
                reads.append(Read(file, exact, missing))
        return reads

    def _made(
        self,
        reads: Sequence[Read],
        segments: _Segments,
        fresh: Mapping[str, str],
        kept: pa.Table,
        described: dict[str, _Descriptions],
    ) -> list[Part]:
        """Make ``segments`` anew of what is read and of the ``kept`` rows; their parts for the table's roll-up."""
        if self._wanted.format == PARQUET and self._wanted.describing is None and self._source.provided is None:
            return list(self._from_footers(reads, segments, fresh, kept))
        found = self._read(reads)
        for path, descriptions in found.descriptions.items():
            described.setdefault(path, {}).update(descriptions)
        details = _with_descriptions(pa.concat_tables([kept, _table(found.details)]), described)
        return self._segments(file_parts(details, self._source.location), details, fresh)

    def _from_footers(
        self, reads: Sequence[Read], segments: _Segments, fresh: Mapping[str, str], kept: pa.Table
    ) -> Iterator[Part]:
        """Read footers; first of the segments that are made by the tasks which read them."""
        awaited = Counter(metadata_key(read.file.directories) for read in reads)
        whole = {key: files for key, files in segments.items() if awaited[key] == len(files) <= SEGMENT_FILES}
        gathering = Gathering({key: awaited[key] for key in segments if key not in whole}, kept)
        batches: Iterator[pa.RecordBatch] = iter(())
        if reads:
            engine = self._started(len(reads))
            self._told.total = len(reads)
            yield from self._made_by_tasks(engine, whole, fresh)
            rest = [read.file for read in reads if metadata_key(read.file.directories) not in whole]
            chunks = footer_chunks(self._source, self._wanted, rest, engine.parallelism)
            batches = run_named(engine, chunks, read_footers, UNIT_SCHEMA)
        # Files that stay are added up while others are read.
        remaining = {key: self._remaining(key, rows) for key, rows in gathering.kept().items()}
        if found := gathering.complete():
            yield from self._stored(found, remaining, fresh)
        for batch in batches:
            if found := gathering.add(batch):
                yield from self._stored(found, remaining, fresh)
            self._told.more(files_in(parts_of(batch)[1]))

    def _made_by_tasks(self, engine: Engine, segments: _Segments, fresh: Mapping[str, str]) -> Iterator[Part]:
        """Have whole segments made by tasks, and their files stored."""
        if not segments:
            return
        encoder = self._modify.encoder()
        chunks = segment_chunks(self._source, self._wanted, segments, fresh, encoder, engine.parallelism)
        for batch in run_named(engine, chunks, make_segments, segments_schema(UNIT_SCHEMA)):
            found = made(batch)
            self._modify.overwrite_encoded(found.partitions)
            self._units += found.units
            self._told.more(found.files)
            yield from found.tops

    def _remaining(self, key: str, kept: pa.Table) -> list[Part]:
        """What the ``kept`` files of a segment come to."""
        return self._before.remaining(key, of_kind(kept, MetadataType.FILE), self._source.location)

    def _stored(self, found: Gathered, remaining: Mapping[str, list[Part]], fresh: Mapping[str, str]) -> list[Part]:
        """Have the units of complete segments written; what the table's roll-up needs of them."""
        parts = [*segment_parts(found.fragments), *chain.from_iterable(remaining[key] for key in found.kept)]
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
        changes: FileChanges,
        removed: frozenset[str],
        owner: str,
    ) -> Outcome:
        directories = {file.directories for files in all_segments.values() for file in files}
        general = table_unit(
            self._source, UNIT_SCHEMA, total, directories, owner=owner, wanted=self._wanted, states=fresh
        )
        self._modify.overwrite(general)
        return Outcome(changes, segments, removed, self._units + general.num_rows, total.part.rows)

    def _started(self, files: int) -> Engine:
        engine = self._engine(files) if callable(self._engine) else self._engine
        self.engine = engine.name
        return engine

    def _read(self, reads: Sequence[Read]) -> _Found:
        """Read on the engine, footers and data in one job, since every job costs time of its own."""
        found = _Found()
        if not reads:
            return found
        if self._source.provided is not None:
            return self._asked(self._source.provided, [read.file for read in reads])
        engine = self._started(len(reads))
        of_parquet = self._wanted.format == PARQUET
        exact = [read for read in reads if read.exact] if of_parquet else []
        footers = footer_chunks(self._source, self._wanted, [read.file for read in exact], engine.parallelism)
        data = data_chunks(
            self._source, self._wanted, [read for read in reads if read.missing is not None or not of_parquet]
        )
        self._told.total = sum(len(chunk.files) for chunk in footers) + sum(len(chunk.files) for chunk in data)
        measured = {read.file.path for read in reads if read.exact}
        chunks: list[FooterChunk | DataChunk] = [*footers, *data]
        for batch in run_named(engine, chunks, read_chunk, UNIT_SCHEMA):
            details, fragments = parts_of(batch)
            if fragments.num_rows:
                found.details.append(details)
                self._told.more(files_in(fragments))
                continue
            for path, text in zip(batch["path"].to_pylist(), batch["additionalMetadata"].to_pylist(), strict=True):
                found.descriptions[str(path)] = descriptions_in(text)
            if not of_parquet:
                found.details.append(batch.filter(pc.is_in(batch["path"], pa.array(measured, pa.string()))))
            self._told.more(batch.num_rows)
        return found

    def _asked(self, provided: Provided, files: Sequence[SourceFile]) -> _Found:
        """What somebody else knows of ``files``."""
        self._told.total = len(files)
        rows = []
        for content in provided.contents(files):
            chosen = {
                key: statistics.to_json()
                for key, statistics in content.statistics.items()
                if self._wanted.columns is None or is_among(parse(key), self._wanted.columns)
            }
            row = file_row(content.file, content.schema, chosen, content.rows, whole=content.whole)
            rows.append(row._replace(location=self._source.location))
            self._told.more(1)
        return _Found([to_batch(UNIT_SCHEMA, self._source.table, rows)])


class _Told:
    """Counts files, and tells."""

    def __init__(self, on_progress: Progress | None) -> None:
        self.total = 0
        self._done = 0
        self._on_progress = on_progress

    def more(self, files: int) -> None:
        """So many more files are read."""
        self._done += files
        if self._on_progress is not None:
            self._on_progress(self._done, self.total)


def _table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches, UNIT_SCHEMA)


def _missing(wanted: Describing, schema: TupleSchema, known: Mapping[str, object]) -> Describing | None:
    """What of ``wanted`` a file with ``schema`` lacks, whose descriptions ``known`` has; None for nothing."""
    lacking = tuple(
        path
        for path, type_ in schema.leaves()
        if _has_values(parse_type(type_))
        and quote(path) not in known
        and (wanted.columns is None or is_among(path, wanted.columns))
    )
    return Describing(lacking, wanted.percent) if lacking else None


def _has_values(leaf: DrillType) -> bool:
    """Whether there is something to describe: not of lists and maps, nor of structs without fields."""
    return not leaf.parts and leaf.name != "STRUCT"


def _descriptions(units: pa.Table, wanted: Describing | None) -> dict[str, _Descriptions]:
    """Those of the FILE rows among ``units``, by path; of columns that are ``wanted``."""
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


def _with_descriptions(units: pa.Table, descriptions: Mapping[str, _Descriptions]) -> pa.Table:
    """``units``, of which the FILE rows hold ``descriptions`` and nothing else in additionalMetadata."""
    if not any(descriptions.values()) and units["additionalMetadata"].null_count == units.num_rows:
        return units
    kinds, paths = values(units, "metadataType"), values(units, "path")
    texts = [
        descriptions_text(descriptions.get(path, {})) if kind == MetadataType.FILE.value else None
        for kind, path in zip(kinds, paths, strict=True)
    ]
    at = units.schema.get_field_index("additionalMetadata")
    return units.set_column(at, units.schema.field(at), pa.array(texts, pa.string()))


def _total(stored: Stored, before: StoredSegments, tops: Sequence[Part], keys: frozenset[str]) -> Total:
    """What the table comes to with ``tops`` in the place of its segments ``keys``, which were as ``before``."""
    others = stored.states.keys() - keys
    if not others:
        return Total.added(tops)
    exchanged = None if before.total is None else before.total.exchanged(before.parts.values(), tops)
    if exchanged is not None:
        return exchanged
    is_other = pc.is_in(stored.segments["metadataKey"], pa.array(others, pa.string()))
    return Total.added([*tops, *segment_parts(stored.segments.filter(is_other))])


def _fingerprints(units: pa.Table) -> dict[str, Fingerprint]:
    """Fingerprints by path, of the FILE rows; one that another program wrote has none, and matches no file."""
    files = of_kind(units.select(["metadataType", "path", "metadataStatistics"]), MetadataType.FILE)
    return {
        path: Fingerprint(holders.get(Statistic.LENGTH, -1), holders.get(Statistic.MODIFICATION_TIME_NANOS, -1))
        for path, holders in zip(values(files, "path"), holders_of(files), strict=True)
    }
