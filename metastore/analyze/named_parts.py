"""The files of an ANALYZE of named parts of a table: only files of named partitions or paths.

Place in the flow: a run begins with :class:`FoundFiles`. For named partitions, only their directories are listed. For
named paths, each file is looked up and nothing is listed. All other files count as unchanged since the last run. So the
result equals that of a whole run if nothing else changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from metastore.analyze.changes import KnownTable, is_flat, segments_of
from metastore.analyze.found_files import FoundFiles
from metastore.analyze.states import segment_state
from metastore.analyze.stored_metadata import StoredMetadata
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.lake.formats.source_file import SourceFile
from metastore.model.identity import metadata_key
from metastore.model.vocabulary import DEFAULT_SEGMENT
from metastore.sources.named_paths import files_at
from metastore.sources.partition_choice import PartitionChoice
from metastore.sources.path_lists import paths_of
from metastore.sources.source_table import SourceTable


@dataclass(frozen=True)
class NamedParts:
    """The parts of a table to bring up to date: ``partitions``, or files by their ``paths``."""

    partitions: PartitionChoice | None = None
    paths: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        partitions: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
        since: Mapping[str, Any] | None,
        paths: Iterable[str | Mapping[str, Any]] | None,
        *,
        case_sensitive: bool,
    ) -> NamedParts | None:
        """Returns the parts for the arguments of :meth:`Session.analyze`; None if they name none.

        Raises InvalidRequestError if both kinds are given, or if one of them is invalid.
        """
        choice = PartitionChoice.of(partitions, since, case_sensitive=case_sensitive)
        if choice is not None and paths is not None:
            raise InvalidRequestError("name either partitions or paths, not both")
        return None if choice is None and paths is None else cls(choice, tuple(paths_of(paths or ())))


def found_parts(source: SourceTable, stored: StoredMetadata, parts: NamedParts) -> FoundFiles:
    """Looks up the named ``parts`` of a table with metadata.

    Raises InvalidRequestError if the table's metadata cannot be brought up to date in part, NotFoundError if no
    partition is found or stored, and the errors of a listing.
    """
    known = stored.known_table
    if known is None:
        raise whole_is_needed(source, "it was not analyzed before")
    if known.location != source.location:
        raise whole_is_needed(source, f"it has moved from {known.location}")
    if source.provided is not None or source.lister is not None:
        raise whole_is_needed(source, "its catalog says which files it has")
    passed_over: Sequence[str] = ()
    if parts.partitions is not None:
        looked_at, segments = _in_partitions(source, stored, known, parts.partitions)
    else:
        looked_at, segments, passed_over = _at_paths(source, stored, known, parts.paths)
    segments |= _flat_files(source, stored, known, segments)
    states = {key: state for key, state in stored.states.items() if key not in segments}
    present = {key: own for key, own in segments.items() if own}
    others = stored.directories(states.keys())
    states |= {key: segment_state(own) for key, own in present.items()}
    return FoundFiles(present, states, looked_at, others, passed_over)


_Segments = dict[str, list[SourceFile]]
"""Files by segment; an empty list means that the segment has no files any more."""


def _in_partitions(
    source: SourceTable, stored: StoredMetadata, known_table: KnownTable, choice: PartitionChoice
) -> tuple[Sequence[SourceFile], _Segments]:
    """The listed files of ``choice``, and all files of the segments that they belong to: unnamed ones as recorded."""
    listed = [file for file in source.files(choice.may_hold) if choice.holds(file.directories)]
    fresh = segments_of(listed)
    # A first-level directory that is named itself is replaced as a whole. In others, unnamed files stay as recorded.
    tops = {key for key in stored.states if key != DEFAULT_SEGMENT and choice.may_hold(key)}
    whole = {key for key in tops if choice.holds((key,))}
    stored_in_part = {path[0] for path in stored.directories(tops - whole) if choice.holds(path)}
    kept = _read_recorded_files(source, stored, known_table, stored_in_part | ((tops - whole) & fresh.keys()))
    for key, files in kept.items():
        staying = [file for file in files if not choice.holds(file.directories)]
        fresh[key] = sorted([*staying, *fresh.get(key, ())])
    if not (listed or whole or stored_in_part or choice.is_open):
        raise NotFoundError(
            f"{source.table} has no partition where {choice}; look at its directories in {source.location}"
        )
    return listed, {key: [] for key in whole} | fresh


def _at_paths(
    source: SourceTable, stored: StoredMetadata, known_table: KnownTable, paths: Sequence[str]
) -> tuple[Sequence[SourceFile], _Segments, Sequence[str]]:
    looked = files_at(source, paths)
    found = sorted(file for file in looked.values() if file is not None)
    start = len(source.location) + 1
    keys = {metadata_key(path[start:].split("/")[:-1]) for path in looked}
    kept = _read_recorded_files(source, stored, known_table, [key for key in stored.states if key in keys])
    segments = segments_of(found)
    for key, files in kept.items():
        staying = [file for file in files if file.path not in looked]
        segments[key] = sorted([*staying, *segments.get(key, ())])
    recorded = {file.path for files in kept.values() for file in files}
    passed_over = [path for path, file in looked.items() if file is None and path not in recorded]
    return found, segments, passed_over


def _flat_files(source: SourceTable, stored: StoredMetadata, known_table: KnownTable, segments: _Segments) -> _Segments:
    """Returns the files in no directory if the first directory appears or the last goes: their segment changes then."""
    after = {key for key in stored.states if key not in segments} | {key for key, own in segments.items() if own}
    if DEFAULT_SEGMENT in segments or DEFAULT_SEGMENT not in stored.states or is_flat(stored.states) is is_flat(after):
        return {}
    return _read_recorded_files(source, stored, known_table, [DEFAULT_SEGMENT])


def _read_recorded_files(
    source: SourceTable, stored: StoredMetadata, known_table: KnownTable, keys: Collection[str]
) -> _Segments:
    """Returns the files in the metadata of the segments ``keys``."""
    if not keys:
        return {}
    files = stored.files(keys)
    if files is None:
        why = (
            "another program wrote its units"
            if stored.keeps_files
            else f"no files are kept at its level {known_table.level}"
        )
        raise whole_is_needed(source, why)
    by_key: _Segments = {key: [] for key in keys}
    for file in files:
        by_key[metadata_key(file.directories)].append(file)
    return by_key


def whole_is_needed(source: SourceTable, reason: str) -> InvalidRequestError:
    """Returns the error for a table that cannot be brought up to date in part."""
    return InvalidRequestError(
        f"{source.table} cannot be analyzed in part: {reason}; analyze it whole: metastore analyze {source.table}"
    )
