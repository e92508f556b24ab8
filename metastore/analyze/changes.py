"""What has changed since the last ANALYZE: known state and fresh listing -> what to do. Pure.

Whether a top-level segment changed is told by the fingerprint of all its files, which is stored with the segment; so a
run that finds nothing to do has read no unit of any file. Which files changed is asked only within such segments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby

from metastore.errors import InvalidRequestError
from metastore.model.column_path import ColumnPath
from metastore.model.identity import metadata_key
from metastore.model.vocabulary import DEFAULT_SEGMENT, GENERAL_INFO, MetadataType
from metastore.sources.listing import Fingerprint, SourceFile

_FINGERPRINT = "metastore.fingerprint"
_FORM = "1"
"""Raised whenever units are made differently, so that every table is then analyzed anew."""


@dataclass(frozen=True)
class Known:
    """What the metastore knows of a table as a whole; ``columns`` None means statistics of every column.

    The fingerprint is that of all files, None where another program wrote the metadata. So two equal values mean the
    same metadata.
    """

    location: str | None
    level: MetadataType | None
    columns: tuple[ColumnPath, ...] | None
    fingerprint: str | None


@dataclass(frozen=True)
class Unchanged:
    """Nothing to do."""


@dataclass(frozen=True)
class Full:
    """Everything is made anew, for ``reason``."""

    reason: str


@dataclass(frozen=True)
class Changed:
    """Some segments changed; which ones, :func:`changed_segments` tells."""


@dataclass(frozen=True)
class ChangedSegments:
    """Only the ``touched`` top-level segments are made anew; ``removed`` ones have no file any more."""

    touched: frozenset[str]
    removed: frozenset[str]


Decision = Unchanged | Full | Changed


@dataclass(frozen=True)
class FileChanges:
    """The files of some segments against what is known of them, by path."""

    new: frozenset[str]
    changed: frozenset[str]
    removed: frozenset[str]


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


def fingerprint_of(parts: Iterable[Iterable[object]]) -> str:
    """One text that differs whenever anything in ``parts`` does."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(repr(tuple(part)).encode("utf-8", "surrogateescape"))
    return json.dumps({_FINGERPRINT: f"{_FORM}-{digest.hexdigest()}"}, separators=(",", ":"))


def table_fingerprint(segments: Mapping[str, str]) -> str:
    """The state of a table's files, from the fingerprints of its segments by key."""
    return fingerprint_of(sorted(segments.items()))


def decide(
    known: Known | None,
    fresh: Mapping[str, str],
    *,
    location: str,
    level: MetadataType,
    columns: Sequence[ColumnPath] | None,
) -> Decision:
    """What an ANALYZE with ``level`` and ``columns`` has to do, given the ``fresh`` fingerprints by segment.

    Columns that are among those of the last run (of which "all" has every one) are kept up with the last run's.
    """
    if known is None:
        return Full("the table was not analyzed before")
    if known.location != location:
        return Full(f"the table has moved from {known.location}")
    if known.level != level:
        return Full(f"the level was {known.level}")
    if known.columns is not None and (columns is None or not set(columns).issubset(known.columns)):
        return Full("the last run analyzed other columns")
    if known.fingerprint == table_fingerprint(fresh):
        return Unchanged()
    if level is MetadataType.TABLE:
        return Full("the files have changed, and no segments are kept at level TABLE")
    return Changed()


def changed_segments(known: Mapping[str, str | None], fresh: Mapping[str, str]) -> ChangedSegments:
    """Compare the segments' fingerprints, by key; a known segment without one counts as changed."""
    touched = frozenset(key for key, fingerprint in fresh.items() if known.get(key) != fingerprint)
    return ChangedSegments(touched, frozenset(known.keys() - fresh.keys()))


def file_changes(known: Mapping[str, Fingerprint], files: Iterable[SourceFile]) -> FileChanges:
    """Compare the files of the touched segments with what is known of them."""
    fresh = {file.path: file.fingerprint for file in files}
    return FileChanges(
        new=frozenset(fresh.keys() - known.keys()),
        changed=frozenset(path for path, print_ in fresh.items() if known.get(path, print_) != print_),
        removed=frozenset(known.keys() - fresh.keys()),
    )
