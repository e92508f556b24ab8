"""ANALYZE TABLE … REFRESH METADATA and DROP METADATA: list, decide, read footers on an engine, roll up, commit once.

The whole of a run is one transaction: readers see the metadata of before or of after it, and a run that fails (at a
corrupt file, say) leaves nothing behind. Concurrent runs over one table end in the result of one: a commit is made
only on top of the very metadata that the decision was based on; if another run came first, the decision is made again.
Commits to other tables only cost a second look.
"""

from __future__ import annotations

import getpass
import os
import pwd
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, In

from metastore.analyze.changes import (
    FileChanges,
    Full,
    Known,
    Unchanged,
    changed_segments,
    decide,
    file_changes,
    fingerprint_of,
    segments_of,
    table_fingerprint,
)
from metastore.analyze.footers import FooterChunk, read_footers
from metastore.analyze.levels import level_named, reaches
from metastore.analyze.rollup import Part, file_parts, refuse_unknown_columns, segment_parts, segment_units, table_unit
from metastore.analyze.unit_rows import of_kind, values
from metastore.components.requests import of_table
from metastore.components.tables import Tables
from metastore.engine import Engine
from metastore.errors import ConflictError, NotFoundError
from metastore.mapping.schema import plain_arrow_schema
from metastore.model.column_path import ColumnPath, parse
from metastore.model.identity import TableInfo
from metastore.model.statistics_json import read_holders
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import MetadataType, Statistic
from metastore.sources.listing import Fingerprint, SourceFile, list_files
from metastore.sources.naming import SourceTable

UNIT_SCHEMA = plain_arrow_schema(TableMetadataUnit)

Progress = Callable[[int, int], None]
"""Told how many footers are read so far, and how many there are to read."""

_DECISIONS = 5
"""How often a run starts over because another one analyzed the same table meanwhile."""

_CHUNK_FILES = (16, 256)
"""Fewest and most files in a chunk: below, the cost per chunk shows; above, the last chunk keeps others waiting."""


_CHUNKS_PER_TASK = 12
"""Chunks for each of the engine's tasks at once, so that none waits long for the last chunk of another."""


@dataclass(frozen=True)
class AnalyzeResult:
    """What a run found and did. ``status`` is "analyzed" or "up to date"; ``reason`` tells why a run was a full one.

    File counts compare the table with its metadata; in a full run every file counts as new. ``units`` counts those
    written. ``version`` is the component's version that holds the result. ``engine`` names the one that read footers;
    None when there were none to read.
    """

    status: str
    table: TableInfo
    version: int
    files: int
    new: int = 0
    changed: int = 0
    removed: int = 0
    segments_written: int = 0
    segments_removed: int = 0
    units: int = 0
    rows: int = 0
    seconds: float = 0.0
    reason: str | None = None
    engine: str | None = None


@dataclass(frozen=True)
class _Outcome:
    """What is to be committed: the units of whole partitions, and the segments that go (None: everything first)."""

    units: pa.Table
    removed: frozenset[str] | None
    changes: FileChanges
    segments: int
    rows: int


def analyze(
    tables: Tables,
    source: SourceTable,
    engine: Engine | Callable[[int], Engine],
    *,
    columns: Sequence[str] | None = None,
    level: MetadataType | str = MetadataType.ROW_GROUP,
    clock: Callable[[], float] = time.monotonic,
    on_progress: Progress | None = None,
) -> AnalyzeResult:
    """Bring the metadata of ``source`` up to date with its files; ``engine`` may be chosen by how many are to be read.

    ``columns`` limits statistics to these columns (a struct stands for its leaves), an empty list wants none, None
    wants all. Unchanged data: nothing is written. Changed data: only top-level segments with changes are written again,
    and only changed files' footers are read; but everything is done anew when the level differs from the last run's,
    or the columns are not among the last run's.

    Raises NotFoundError when nothing lies at the location, InvalidRequestError for a view, an unknown column or level,
    FormatError naming a corrupt file, ConflictError when other runs over this table keep coming first. On any error the
    metadata stays as it was.
    """
    began = clock()
    wanted = level_named(str(level))
    paths = None if columns is None else tuple(dict.fromkeys(parse(column) for column in columns))
    for _ in range(_DECISIONS):
        version = tables.metadata.version
        known = _known(tables, source.table, version)
        files = list_files(source.location, options=source.options).files
        segments = segments_of(files)
        fresh = {key: fingerprint_of(own) for key, own in segments.items()}
        decision = decide(known, fresh, location=source.location, level=wanted, columns=paths)
        if isinstance(decision, Unchanged):
            return AnalyzeResult("up to date", source.table, version, len(files), seconds=clock() - began)
        run = _Run(tables, source, engine, wanted, paths if isinstance(decision, Full) else _kept(known), on_progress)
        if isinstance(decision, Full):
            outcome = run.full(files, fresh, known=known is not None)
        else:
            outcome = run.incremental(segments, fresh, version)
        committed = _commit(tables, source.table, outcome, version)
        if committed is not None:
            return AnalyzeResult(
                "analyzed",
                source.table,
                committed,
                len(files),
                len(outcome.changes.new),
                len(outcome.changes.changed),
                len(outcome.changes.removed),
                outcome.segments,
                len(outcome.removed or ()),
                outcome.units.num_rows,
                outcome.rows,
                clock() - began,
                decision.reason if isinstance(decision, Full) else None,
                run.engine,
            )
    raise ConflictError(f"other runs kept analyzing {source.table}; nothing was changed by this one, run it again")


def drop_metadata(tables: Tables, table: TableInfo, *, if_exists: bool = False) -> bool:
    """Forget everything about ``table``, whose data stays; True if there was anything to forget.

    NotFoundError when there was not, unless ``if_exists``.
    """
    if (
        tables.read()
        .metadata_types(MetadataType.ALL)
        .columns("metadataKey")
        .filter(of_table(table))
        .to_arrow()
        .num_rows
    ):
        tables.modify().delete(of_table(table), MetadataType.ALL).execute()
        return True
    if if_exists:
        return False
    raise NotFoundError(f"there is no metadata of {table}; analyze the table first")


class _Run:
    """One decision carried out up to the commit."""

    def __init__(
        self,
        tables: Tables,
        source: SourceTable,
        engine: Engine | Callable[[int], Engine],
        level: MetadataType,
        columns: Sequence[ColumnPath] | None,
        on_progress: Progress | None,
    ) -> None:
        self._tables = tables
        self._source = source
        self._engine = engine
        self.engine: str | None = None
        self._level = level
        self._columns = columns
        self._on_progress = on_progress

    def full(self, files: Sequence[SourceFile], fresh: Mapping[str, str], *, known: bool) -> _Outcome:
        fragments, details = self._footers(files)
        units, tops = self._segments(segment_parts(fragments), details, fresh)
        changes = FileChanges(frozenset(file.path for file in files), frozenset(), frozenset())
        return self._outcome(units, tops, fresh, len(fresh), changes, None if known else frozenset())

    def incremental(self, segments: Mapping[str, list[SourceFile]], fresh: Mapping[str, str], version: int) -> _Outcome:
        stored = self._stored_segments(version)
        known = dict(zip(values(stored, "metadataKey"), values(stored, "additionalMetadata"), strict=True))
        segment_changes = changed_segments(known, fresh)
        files = [file for key in sorted(segment_changes.touched) for file in segments[key]]
        kept = self._stored_files(version, segment_changes.touched | segment_changes.removed)
        changes = file_changes(_fingerprints(kept), files)
        stale = changes.changed | changes.removed
        kept = _without(kept, "path", stale)
        unread = set(values(kept, "path"))
        fragments, details = self._footers([file for file in files if file.path not in unread])
        parts = [*segment_parts(fragments), *file_parts(kept, self._source.location)]
        units, tops = self._segments(parts, pa.concat_tables([kept, details]), fresh)
        others = segment_parts(_without(stored, "metadataKey", segment_changes.touched | segment_changes.removed))
        return self._outcome(
            units, [*tops, *others], fresh, len(segment_changes.touched), changes, segment_changes.removed
        )

    def _segments(
        self, parts: Sequence[Part], details: pa.Table, fresh: Mapping[str, str]
    ) -> tuple[pa.Table, list[Part]]:
        return segment_units(self._source, UNIT_SCHEMA, parts, details, level=self._level, fingerprints=fresh)

    def _outcome(
        self,
        units: pa.Table,
        tops: Sequence[Part],
        fresh: Mapping[str, str],
        segments: int,
        changes: FileChanges,
        removed: frozenset[str] | None,
    ) -> _Outcome:
        general, rows = table_unit(
            self._source,
            UNIT_SCHEMA,
            tops,
            owner=_owner(self._source.location),
            level=self._level,
            columns=self._columns,
            fingerprint=table_fingerprint(fresh),
        )
        if self._columns and tops:
            refuse_unknown_columns(self._columns, TupleSchema.from_json(general["schema"][0].as_py()))
        return _Outcome(pa.concat_tables([general, units]), removed, changes, segments, rows)

    def _footers(self, files: Sequence[SourceFile]) -> tuple[pa.Table, pa.Table]:
        """SEGMENT fragments of ``files``, and their FILE and ROW_GROUP rows, read on the engine."""
        if not files:
            return UNIT_SCHEMA.empty_table(), UNIT_SCHEMA.empty_table()
        engine = self._engine(len(files)) if callable(self._engine) else self._engine
        self.engine = engine.name
        fewest, most = _CHUNK_FILES
        size = min(most, max(fewest, -(-len(files) // (_CHUNKS_PER_TASK * engine.parallelism))))
        chunks = [
            FooterChunk(
                self._source.table,
                self._source.location,
                UNIT_SCHEMA,
                files[start : start + size],
                self._columns,
                reaches(self._level, MetadataType.PARTITION),
                reaches(self._level, MetadataType.ROW_GROUP),
                self._source.options,
            )
            for start in range(0, len(files), size)
        ]
        segments, details = [], []
        done = 0
        for batch in engine.run(chunks, read_footers, UNIT_SCHEMA):
            if batch["metadataType"][0].as_py() != MetadataType.SEGMENT.value:
                details.append(batch)
                continue
            segments.append(batch)
            done += sum(len(paths or ()) for paths in batch["locations"].to_pylist())
            if self._on_progress is not None:
                self._on_progress(done, len(files))
        return pa.Table.from_batches(segments, UNIT_SCHEMA), pa.Table.from_batches(details, UNIT_SCHEMA)

    def _stored_segments(self, version: int) -> pa.Table:
        """The top-level SEGMENT rows of the table."""
        read = self._tables.read().metadata_types(MetadataType.SEGMENT).filter(of_table(self._source.table))
        rows = read.at(version).to_arrow()
        return rows.filter(pc.equal(rows["metadataKey"], rows["metadataIdentifier"]))

    def _stored_files(self, version: int, keys: Iterable[str]) -> pa.Table:
        """The FILE and ROW_GROUP rows of the top-level segments ``keys``; none where the level has none."""
        read = self._tables.read().metadata_types(MetadataType.FILE, MetadataType.ROW_GROUP)
        chosen = And(of_table(self._source.table), In(term="metadataKey", literals=set(keys)))
        return read.filter(chosen).at(version).to_arrow().cast(UNIT_SCHEMA)


def _commit(tables: Tables, table: TableInfo, outcome: _Outcome, version: int) -> int | None:
    """The new version; None if the table's metadata changed since ``version`` and must be decided on again."""
    modify = tables.modify()
    if outcome.removed is None:
        modify.delete(of_table(table), MetadataType.ALL)
    elif outcome.removed:
        modify.delete(And(of_table(table), In(term="metadataKey", literals=set(outcome.removed))), MetadataType.ALL)
    try:
        return modify.overwrite(outcome.units).execute(if_version=version, within=of_table(table))
    except ConflictError:
        return None


def _known(tables: Tables, table: TableInfo, version: int) -> Known | None:
    """What the metastore's ``version`` knows of the table as a whole."""
    columns = ("location", "interestingColumns", "metadataStatistics", "additionalMetadata")
    read = tables.read().metadata_types(MetadataType.TABLE).columns(*columns).filter(of_table(table))
    rows = read.at(version).to_arrow().to_pylist()
    if not rows:
        return None
    row: dict[str, Any] = rows[0]
    level = read_holders(row["metadataStatistics"] or ()).get(Statistic.ANALYZE_LEVEL)
    interesting = row["interestingColumns"]
    return Known(
        row["location"],
        None if level is None else level_named(level),
        None if interesting is None else tuple(parse(column) for column in interesting),
        row["additionalMetadata"],
    )


def _kept(known: Known | None) -> Sequence[ColumnPath] | None:
    return None if known is None else known.columns


def _without(units: pa.Table, column: str, unwanted: Iterable[str]) -> pa.Table:
    return units.filter(pc.invert(pc.is_in(units[column], pa.array(unwanted, pa.string()))))


def _fingerprints(units: pa.Table) -> dict[str, Fingerprint]:
    """Fingerprints by path, of the FILE rows; one that another program wrote has none, and matches no file."""
    files = of_kind(units, MetadataType.FILE)
    found = {}
    for path, texts in zip(values(files, "path"), values(files, "metadataStatistics"), strict=True):
        holders = read_holders(texts)
        found[path] = Fingerprint(holders.get(Statistic.LENGTH, -1), holders.get(Statistic.MODIFICATION_TIME_NANOS, -1))
    return found


def _owner(location: str) -> str:
    """The location's owner on the local disk, else whoever runs this."""
    try:
        return pwd.getpwuid(os.stat(location).st_uid).pw_name if location.startswith("/") else getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
