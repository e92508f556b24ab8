"""Decides what an ANALYZE has to do, from the known state and a fresh listing. Pure.

Each top-level segment stores the state of all its files. The segment has changed if that state differs from the
listing's. A run that finds no change has therefore read no file's unit. Only within changed segments does the run
compare single files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import add
from typing import Any, NamedTuple

from metastore.analyze.levels import reaches
from metastore.analyze.states import StoredTableState, is_of_this_form, segment_state, table_fingerprint
from metastore.errors import InvalidRequestError
from metastore.lake.formats.bounds_from_data import AUTO, BoundsFrom
from metastore.lake.formats.names import PARQUET, WITH_FOOTERS
from metastore.lake.formats.source_file import SourceFile
from metastore.lake.formats.text.text_options import DEFAULTS, TextOptions
from metastore.model.column_path import ColumnPath
from metastore.model.identity import metadata_key
from metastore.model.recorded_file import is_as_recorded
from metastore.model.sketches.description import Describing
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import DEFAULT_SEGMENT, GENERAL_INFO, MetadataType


@dataclass(frozen=True)
class WantedMetadata:
    """What an ANALYZE is to produce.

    * ``columns``: None means statistics of every column.
    * ``describing``: None means that no column is described.
    * ``declared``: None means that the table's schema is made from the files' schemas.
    * ``named``: the columns that this run itself names. The table must have these; columns carried over from earlier
      runs may have disappeared.
    * ``text`` says how delimited text is written; None keeps the earlier setting. ``text_is_own`` means that an ANALYZE
      of this table set it, not the configuration.
    * ``bounds`` says where bounds of Parquet columns come from; None keeps the earlier setting. ``bounds_are_own`` is
      the same as ``text_is_own``, for bounds.
    """

    level: MetadataType
    columns: tuple[ColumnPath, ...] | None = None
    describing: Describing | None = None
    format: str = PARQUET
    declared: TupleSchema | None = None
    named: tuple[ColumnPath, ...] = ()
    text: TextOptions | None = None
    text_is_own: bool = False
    case_sensitive: bool = False
    """Whether names that differ only in case are names of different columns."""
    bounds: BoundsFrom | None = None
    bounds_are_own: bool = False

    @property
    def bounds_read(self) -> BoundsFrom:
        """Where bounds come from. The data of described columns is read anyway, so their bounds come from data too."""
        wanted = self.bounds or AUTO
        if self.describing is None:
            return wanted
        described = self.describing.columns
        if described is None:
            return BoundsFrom("data", wanted.columns) if self.columns is None else _with(wanted, self.columns)
        return _with(wanted, described)

    @property
    def text_options(self) -> TextOptions:
        """How delimited text is written; files without a header line get the declared columns."""
        text = self.text or DEFAULTS
        if text.header or self.declared is None:
            return text
        return replace(text, names=tuple(column.name for column in self.declared.columns))

    @property
    def describing_with_columns(self) -> Describing | None:
        """``describing`` with its columns filled in: the analyzed columns if it names none."""
        if self.describing is None or self.describing.columns is not None:
            return self.describing
        return Describing(self.columns, self.describing.percent)


def _with(bounds: BoundsFrom, columns: Sequence[ColumnPath]) -> BoundsFrom:
    return BoundsFrom(bounds.source, tuple(dict.fromkeys((*bounds.columns, *columns))))


@dataclass(frozen=True)
class KnownTable:
    """What the metastore knows of a table as a whole. Two equal values mean the same metadata."""

    location: str | None
    level: MetadataType | None
    columns: tuple[ColumnPath, ...] | None
    state: StoredTableState
    format: str = PARQUET


@dataclass(frozen=True)
class NothingToDo:
    """There is nothing to do."""


@dataclass(frozen=True)
class Full:
    """Everything is rebuilt, for ``reason``; ``wanted`` is the target."""

    wanted: WantedMetadata
    reason: str


@dataclass(frozen=True)
class SegmentsToRebuild:
    """Some segments changed (see :func:`changed_segments`), or the units of all segments must be rewritten.

    * ``wanted`` is the target.
    * ``reason`` says why unchanged segments are affected too; None if they are not.
    * ``footers`` means that exact statistics of unchanged files are read again.
    * ``anew`` means that descriptions of unchanged files are computed again.
    """

    wanted: WantedMetadata
    reason: str | None = None
    footers: bool = False
    anew: bool = False


@dataclass(frozen=True)
class ChangedSegments:
    """Only the ``touched`` top-level segments are rebuilt; the ``removed`` segments have no files any more."""

    touched: frozenset[str]
    removed: frozenset[str]


Decision = NothingToDo | Full | SegmentsToRebuild


class ChangeCounts(NamedTuple):
    """Numbers of new, changed and removed files."""

    new: int = 0
    changed: int = 0
    removed: int = 0

    def plus(self, other: ChangeCounts) -> ChangeCounts:
        """The sums of both counts."""
        return ChangeCounts(*map(add, self, other))


@dataclass(frozen=True)
class FileChanges:
    """The files of some segments compared with their stored units, by path."""

    new: frozenset[str]
    changed: frozenset[str]
    removed: frozenset[str]

    @property
    def counts(self) -> ChangeCounts:
        """The number of new, changed and removed files."""
        return ChangeCounts(len(self.new), len(self.changed), len(self.removed))

    def is_untrue(self, path: str) -> bool:
        """Whether the stored unit of the file at ``path`` is missing or out of date."""
        return path in self.new or path in self.changed


def segments_of(files: Sequence[SourceFile]) -> dict[str, list[SourceFile]]:
    """Groups files by top-level segment. Raises InvalidRequestError if a directory has the name of a reserved key."""
    segments: dict[str, list[SourceFile]] = {}
    for directories, own in groupby(files, lambda file: file.directories[:1]):
        if directories and directories[0] in (GENERAL_INFO, DEFAULT_SEGMENT):
            raise InvalidRequestError(
                f"the table has a directory {directories[0]}, a key the metastore keeps for itself; rename it"
            )
        segments[metadata_key(directories)] = list(own)
    return segments


def state_of_files(files: Iterable[SourceFile]) -> str:
    """The state of a table's files, in the form that the next ANALYZE would store in the table's unit.

    Raises as :func:`segments_of`.
    """
    return table_fingerprint({key: segment_state(own) for key, own in segments_of(sorted(files)).items()})


def is_flat(segments: Collection[str]) -> bool:
    """Whether a table with these top-level segments (keys) has no directories."""
    return all(key == DEFAULT_SEGMENT for key in segments)


def decide(
    known_table: KnownTable | None,
    fresh: Mapping[str, str],
    *,
    location: str,
    request: WantedMetadata,
    other_columns: bool = False,
    lacks_bounds: Callable[[BoundsFrom], bool] = lambda _: False,
) -> Decision:
    """Decides what an ANALYZE has to do for ``request``, given the ``fresh`` states by segment.

    Requests of earlier runs stay in effect. If the requested columns are among the earlier ones, all earlier
    columns are kept; descriptions and a declared schema stay. ``other_columns`` means that the table's catalog
    now names other columns. ``lacks_bounds`` tells whether a column whose data would be read for bounds has no
    bounds yet.
    """
    if known_table is None:
        return Full(request, "the table was not analyzed before")
    columns = known_table.columns if _are_among(request.columns, known_table.columns) else request.columns
    describing = Describing.combine(_kept_up(known_table, request.describing), request.describing)
    if columns is not None and describing is not None and describing.columns is not None:
        columns = tuple(dict.fromkeys((*columns, *describing.columns)))  # described columns are analyzed, too
    text, is_own = request.text, request.text_is_own
    if text is None and request.format == known_table.format:
        text, is_own = known_table.state.text, known_table.state.text_is_own
    declared = request.declared or known_table.state.declared
    wanted = replace(
        request,
        columns=columns,
        describing=describing,
        declared=declared,
        text=text,
        text_is_own=is_own,
        **_bounds_kept_up(known_table, request),
    )
    if (reason := _foreign(known_table, wanted, location)) is not None:
        return Full(wanted, reason)
    if other_columns:
        return Full(wanted, "the table has other columns now")
    same_files = known_table.state.fingerprint == table_fingerprint(fresh)
    reason = _changed_request(known_table, wanted)
    if same_files and reason is None:
        return NothingToDo()
    if known_table.level is MetadataType.TABLE:
        return Full(wanted, reason or "the files have changed, and no segments are kept at level TABLE")
    if wanted.level is MetadataType.TABLE and not same_files:
        return Full(wanted, reason or "the files have changed, and no segments are kept at level TABLE")
    assert known_table.level is not None
    return SegmentsToRebuild(
        wanted,
        reason,
        footers=wanted.columns != known_table.columns
        or not reaches(known_table.level, wanted.level)
        or (wanted.format in WITH_FOOTERS and _takes_other_bounds(known_table, wanted, lacks_bounds)),
        anew=known_table.state.describing is not None
        and wanted.describing is not None
        and wanted.describing.percent != known_table.state.describing.percent,
    )


def _bounds_kept_up(known_table: KnownTable, request: WantedMetadata) -> dict[str, Any]:
    """The bounds settings combined with those of an earlier ANALYZE; columns named now join those named earlier."""
    before = known_table.state
    if before.bounds_are_own and not request.bounds_are_own:
        return {"bounds": before.bounds, "bounds_are_own": True}
    bounds = request.bounds
    if before.bounds_are_own and bounds is not None and bounds.columns:
        bounds = _with(before.bounds, bounds.columns)
    return {"bounds": bounds, "bounds_are_own": request.bounds_are_own}


def _kept_up(known_table: KnownTable, asked: Describing | None) -> Describing | None:
    """The descriptions to keep up, by column name if ``asked`` names another.

    "all" would otherwise include that one too.
    """
    before = known_table.state.describing
    if (
        before is None
        or before.columns is not None
        or known_table.columns is None
        or asked is None
        or asked.columns is None
    ):
        return before
    return before if set(asked.columns) <= set(known_table.columns) else Describing(known_table.columns, before.percent)


def _foreign(known_table: KnownTable, request: WantedMetadata, location: str) -> str | None:
    """The reason why none of the known metadata can be used; None if some can."""
    if known_table.location != location:
        return f"the table has moved from {known_table.location}"
    if known_table.state.fingerprint is None:
        return "another program analyzed the table"
    if not is_of_this_form(known_table.state.fingerprint):
        return "an earlier release analyzed the table"
    if known_table.level is None:
        return "the level was not recorded"
    if known_table.format != request.format:
        return f"the files were {known_table.format}"
    if known_table.state.declared != request.declared:
        return "another schema was declared"
    if known_table.state.text != request.text_options:
        return "the files were read with other options of text"
    return None


def _changed_request(known_table: KnownTable, request: WantedMetadata) -> str | None:
    """The reason why units of unchanged files must be rewritten; None if they need not be."""
    if known_table.level != request.level:
        return f"the level was {known_table.level}"
    if known_table.columns != request.columns:
        return "the last run analyzed other columns"
    if known_table.state.describing != request.describing:
        return "the last run computed other statistics"
    if request.format in WITH_FOOTERS and known_table.state.bounds != (request.bounds or AUTO):
        return "the last run took bounds from elsewhere"
    return None


def _takes_other_bounds(
    known_table: KnownTable, request: WantedMetadata, lacks_bounds: Callable[[BoundsFrom], bool]
) -> bool:
    """Whether bounds of unchanged files now come from elsewhere.

    Newly described columns count only if they lack bounds.
    """
    if known_table.state.bounds != (request.bounds or AUTO):
        return True
    return known_table.state.describing != request.describing and lacks_bounds(request.bounds_read)


def _are_among(columns: Sequence[ColumnPath] | None, known: Sequence[ColumnPath] | None) -> bool:
    return known is None or (columns is not None and set(columns).issubset(known))


def changed_segments(stored_states: Mapping[str, str], fresh: Mapping[str, str]) -> ChangedSegments:
    """Compares the segments' states, by key; a known segment without a state counts as changed.

    The segment of files in no directory also counts as changed if the table got its first directory or lost its last.
    """
    touched = frozenset(
        key
        for key, state in fresh.items()
        if stored_states.get(key) != state or (key == DEFAULT_SEGMENT and is_flat(stored_states) != is_flat(fresh))
    )
    return ChangedSegments(touched, frozenset(stored_states.keys() - fresh.keys()))


def file_changes(stored_states: Mapping[str, Sequence[str]], files: Iterable[SourceFile]) -> FileChanges:
    """Compares the files of the touched segments with ``stored_states``: statistics of stored units, by path."""
    fresh = {file.path: file for file in files}
    return FileChanges(
        new=frozenset(fresh.keys() - stored_states.keys()),
        changed=frozenset(
            path
            for path, holders in stored_states.items()
            if path in fresh and not is_as_recorded(*fresh[path].fingerprint, holders)
        ),
        removed=frozenset(stored_states.keys() - fresh.keys()),
    )
