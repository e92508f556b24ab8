"""What has changed since the last ANALYZE: known state and fresh listing -> what to do. Pure.

Whether a top-level segment changed follows from the state of all its files, which is stored with the segment. A run
that finds nothing to do has read no unit of any file. Which files changed is asked only within such segments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import add
from typing import Any, Final, NamedTuple

from metastore.analyze.levels import reaches
from metastore.analyze.states import TableState, is_of_this_form, segment_state, table_fingerprint
from metastore.errors import InvalidRequestError
from metastore.formats.bounds_from_data import AUTO, BoundsFrom
from metastore.formats.names import ORC, PARQUET
from metastore.formats.source_file import SourceFile
from metastore.formats.text_options import DEFAULTS, TextOptions
from metastore.model.column_path import ColumnPath
from metastore.model.identity import metadata_key
from metastore.model.recorded_file import is_as_recorded
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import DEFAULT_SEGMENT, GENERAL_INFO, MetadataType
from metastore.sketches.description import Describing

_OF_FOOTERS: Final = (PARQUET, ORC)
"""Formats whose bounds come from footers, from data, or from both."""


@dataclass(frozen=True)
class WantedMetadata:
    """What an ANALYZE is to bring about.

    ``columns`` None means statistics of every column, ``describing`` None that no column is described, ``declared``
    None that the files' own schemas make the table's. ``named`` are the columns that this run names itself: the table
    must have these, but may have lost others that are kept up. ``text`` says how delimited text is written, None that
    it is as it was; ``text_is_own`` that an ANALYZE of the table said so, not the configuration. ``bounds`` says where
    bounds of Parquet columns come from, None that they come from where they came from; ``bounds_are_own`` as for text.
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
    """Whether names that differ in case alone are names of different columns."""
    bounds: BoundsFrom | None = None
    bounds_are_own: bool = False

    @property
    def bounds_read(self) -> BoundsFrom:
        """Where bounds come from; columns that are described are read anyway, so theirs come from data, too."""
        wanted = self.bounds or AUTO
        if self.describing is None:
            return wanted
        described = self.describing.columns
        if described is None:
            return BoundsFrom("data", wanted.columns) if self.columns is None else _with(wanted, self.columns)
        return _with(wanted, described)

    @property
    def written(self) -> TextOptions:
        """How delimited text is written; of files without a header line with the columns that are declared."""
        text = self.text or DEFAULTS
        if text.header or self.declared is None:
            return text
        return replace(text, names=tuple(column.name for column in self.declared.columns))

    @property
    def described(self) -> Describing | None:
        """``describing`` with its columns: those that are analyzed where none are named."""
        if self.describing is None or self.describing.columns is not None:
            return self.describing
        return Describing(self.columns, self.describing.percent)


def _with(bounds: BoundsFrom, columns: Sequence[ColumnPath]) -> BoundsFrom:
    return BoundsFrom(bounds.source, tuple(dict.fromkeys((*bounds.columns, *columns))))


@dataclass(frozen=True)
class KnownTable:
    """What the metastore knows of a table as a whole; two equal values mean the same metadata."""

    location: str | None
    level: MetadataType | None
    columns: tuple[ColumnPath, ...] | None
    state: TableState
    format: str = PARQUET


@dataclass(frozen=True)
class Unchanged:
    """Nothing to do."""


@dataclass(frozen=True)
class Full:
    """Everything is made anew, for ``reason``; ``wanted`` is what is to come of it."""

    wanted: WantedMetadata
    reason: str


@dataclass(frozen=True)
class Changed:
    """Some segments changed; which ones, :func:`changed_segments` tells. Or all are to say something else than before.

    ``wanted`` is what is to come of it, ``reason`` tells why it concerns unchanged segments too (None: it does not),
    ``footers`` that even of unchanged files the exact statistics must be read again, ``anew`` that descriptions must.
    """

    wanted: WantedMetadata
    reason: str | None = None
    footers: bool = False
    anew: bool = False


@dataclass(frozen=True)
class ChangedSegments:
    """Only the ``touched`` top-level segments are made anew; ``removed`` ones have no file any more."""

    touched: frozenset[str]
    removed: frozenset[str]


Decision = Unchanged | Full | Changed


class FileCounts(NamedTuple):
    """How many files are new, changed and removed."""

    new: int = 0
    changed: int = 0
    removed: int = 0

    def plus(self, other: FileCounts) -> FileCounts:
        """Both together."""
        return FileCounts(*map(add, self, other))


@dataclass(frozen=True)
class FileChanges:
    """The files of some segments against what is known of them, by path."""

    new: frozenset[str]
    changed: frozenset[str]
    removed: frozenset[str]

    @property
    def counts(self) -> FileCounts:
        """How many there are of each."""
        return FileCounts(len(self.new), len(self.changed), len(self.removed))

    def is_untrue(self, path: str) -> bool:
        """Whether what is stored, if anything, does not tell the file at ``path``."""
        return path in self.new or path in self.changed


def segments_of(files: Sequence[SourceFile]) -> dict[str, list[SourceFile]]:
    """Files by top-level segment. InvalidRequestError for a directory that is called like a reserved key."""
    segments: dict[str, list[SourceFile]] = {}
    for directories, own in groupby(files, lambda file: file.directories[:1]):
        if directories and directories[0] in (GENERAL_INFO, DEFAULT_SEGMENT):
            raise InvalidRequestError(
                f"the table has a directory {directories[0]}, a key the metastore keeps for itself; rename it"
            )
        segments[metadata_key(directories)] = list(own)
    return segments


def state_of_files(files: Iterable[SourceFile]) -> str:
    """The state of a table's files, as the next ANALYZE would keep it in the table's unit.

    Raises as :func:`segments_of`.
    """
    return table_fingerprint({key: segment_state(own) for key, own in segments_of(sorted(files)).items()})


def is_flat(segments: Collection[str]) -> bool:
    """Whether a table of these top-level segments, by key, has no directories."""
    return all(key == DEFAULT_SEGMENT for key in segments)


def decide(
    known: KnownTable | None,
    fresh: Mapping[str, str],
    *,
    location: str,
    asked: WantedMetadata,
    other_columns: bool = False,
    lacks_bounds: Callable[[BoundsFrom], bool] = lambda _: False,
) -> Decision:
    """What an ANALYZE has to do for what was ``asked``, given the ``fresh`` states by segment.

    What an earlier run was asked for is kept up: columns that are among its own stand for all of them, descriptions and
    a declared schema stay. ``other_columns`` tells that whoever decides on the columns names others than before,
    ``lacks_bounds`` whether a column that would be read for bounds has none as yet.
    """
    if known is None:
        return Full(asked, "the table was not analyzed before")
    columns = known.columns if _are_among(asked.columns, known.columns) else asked.columns
    describing = Describing.asked(_kept_up(known, asked.describing), asked.describing)
    if columns is not None and describing is not None and describing.columns is not None:
        columns = tuple(dict.fromkeys((*columns, *describing.columns)))  # what is described is analyzed, too
    text, is_own = asked.text, asked.text_is_own
    if text is None and asked.format == known.format:
        text, is_own = known.state.text, known.state.text_is_own
    declared = asked.declared or known.state.declared
    wanted = replace(
        asked,
        columns=columns,
        describing=describing,
        declared=declared,
        text=text,
        text_is_own=is_own,
        **_bounds_kept_up(known, asked),
    )
    if (reason := _foreign(known, wanted, location)) is not None:
        return Full(wanted, reason)
    if other_columns:
        return Full(wanted, "the table has other columns now")
    same_files = known.state.fingerprint == table_fingerprint(fresh)
    reason = _other_wishes(known, wanted)
    if same_files and reason is None:
        return Unchanged()
    if known.level is MetadataType.TABLE:
        return Full(wanted, reason or "the files have changed, and no segments are kept at level TABLE")
    if wanted.level is MetadataType.TABLE and not same_files:
        return Full(wanted, reason or "the files have changed, and no segments are kept at level TABLE")
    assert known.level is not None
    return Changed(
        wanted,
        reason,
        footers=wanted.columns != known.columns
        or not reaches(known.level, wanted.level)
        or (wanted.format in _OF_FOOTERS and _takes_other_bounds(known, wanted, lacks_bounds)),
        anew=known.state.describing is not None
        and wanted.describing is not None
        and wanted.describing.percent != known.state.describing.percent,
    )


def _bounds_kept_up(known: KnownTable, asked: WantedMetadata) -> dict[str, Any]:
    """Where bounds come from, with what an earlier ANALYZE said; columns that are named join those of earlier runs."""
    before = known.state
    if before.bounds_are_own and not asked.bounds_are_own:
        return {"bounds": before.bounds, "bounds_are_own": True}
    bounds = asked.bounds
    if before.bounds_are_own and bounds is not None and bounds.columns:
        bounds = _with(before.bounds, bounds.columns)
    return {"bounds": bounds, "bounds_are_own": asked.bounds_are_own}


def _kept_up(known: KnownTable, asked: Describing | None) -> Describing | None:
    """What was described, by name where ``asked`` names another column: "all" would come to mean that one as well."""
    before = known.state.describing
    if before is None or before.columns is not None or known.columns is None or asked is None or asked.columns is None:
        return before
    return before if set(asked.columns) <= set(known.columns) else Describing(known.columns, before.percent)


def _foreign(known: KnownTable, wanted: WantedMetadata, location: str) -> str | None:
    """Why nothing of what is known can be used; None if something can."""
    if known.location != location:
        return f"the table has moved from {known.location}"
    if known.state.fingerprint is None:
        return "another program analyzed the table"
    if not is_of_this_form(known.state.fingerprint):
        return "an earlier release analyzed the table"
    if known.level is None:
        return "the level was not recorded"
    if known.format != wanted.format:
        return f"the files were {known.format}"
    if known.state.declared != wanted.declared:
        return "another schema was declared"
    if known.state.text != wanted.written:
        return "the files were read with other options of text"
    return None


def _other_wishes(known: KnownTable, wanted: WantedMetadata) -> str | None:
    """Why units of unchanged files must say something else than before; None if they need not."""
    if known.level != wanted.level:
        return f"the level was {known.level}"
    if known.columns != wanted.columns:
        return "the last run analyzed other columns"
    if known.state.describing != wanted.describing:
        return "the last run computed other statistics"
    if wanted.format in _OF_FOOTERS and known.state.bounds != (wanted.bounds or AUTO):
        return "the last run took bounds from elsewhere"
    return None


def _takes_other_bounds(known: KnownTable, wanted: WantedMetadata, lacks_bounds: Callable[[BoundsFrom], bool]) -> bool:
    """Whether bounds of unchanged files come from elsewhere: of columns that are newly described if they lack any."""
    if known.state.bounds != (wanted.bounds or AUTO):
        return True
    return known.state.describing != wanted.describing and lacks_bounds(wanted.bounds_read)


def _are_among(columns: Sequence[ColumnPath] | None, known: Sequence[ColumnPath] | None) -> bool:
    return known is None or (columns is not None and set(columns).issubset(known))


def changed_segments(known: Mapping[str, str], fresh: Mapping[str, str]) -> ChangedSegments:
    """Compare the segments' states, by key; a known segment without one counts as changed.

    So does that of the files in no directory, when the table got its first directory or lost its last.
    """
    touched = frozenset(
        key
        for key, state in fresh.items()
        if known.get(key) != state or (key == DEFAULT_SEGMENT and is_flat(known) != is_flat(fresh))
    )
    return ChangedSegments(touched, frozenset(known.keys() - fresh.keys()))


def file_changes(known: Mapping[str, Sequence[str]], files: Iterable[SourceFile]) -> FileChanges:
    """Compare the files of the touched segments with what is known of them: the statistics of their units by path."""
    fresh = {file.path: file for file in files}
    return FileChanges(
        new=frozenset(fresh.keys() - known.keys()),
        changed=frozenset(
            path
            for path, holders in known.items()
            if path in fresh and not is_as_recorded(*fresh[path].fingerprint, holders)
        ),
        removed=frozenset(known.keys() - fresh.keys()),
    )
