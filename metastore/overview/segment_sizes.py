"""Sizes of tables by top-level segment, from what manifests say of each; few data files are opened.

A manifest entry holds the digest of a segment: its numbers of files and row groups, and their bytes. Segments without
one (nested folders, a few files) are opened, unless too much is stored of them. Then the table's size is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from metastore.components.requests import Request, of_names
from metastore.model.bounds.units import LENGTH
from metastore.model.identity import TableInfo
from metastore.model.mapping.segment_digest import SegmentDigest
from metastore.model.vocabulary import GENERAL_INFO, MetadataType
from metastore.session import Session

_TYPES: Final = (MetadataType.SEGMENT, MetadataType.FILE, MetadataType.ROW_GROUP)
_MOST_OPENED: Final = 4 << 20
"""Bytes of metadata that are read for one question."""
_BYTES_OF_A_SEGMENT: Final = 200


@dataclass(frozen=True)
class DirectorySize:
    """One directory at the top of a table, with its subdirectories; ``bytes`` is None if unknown."""

    segment: str
    files: int
    row_groups: int
    bytes: int | None


@dataclass(frozen=True)
class TableSize:
    """The known ``segments`` of a table by name; ``unknown`` others would have to be opened."""

    segments: tuple[DirectorySize, ...] = ()
    unknown: int = 0

    @cached_property
    def files(self) -> int | None:
        """Number of data files; None if not all segments are known, or if ANALYZE stored no files."""
        return None if self.unknown else sum(each.files for each in self.segments) or None

    @cached_property
    def bytes(self) -> int | None:
        """Size of all data files; None if the size of one is unknown."""
        known = [each.bytes for each in self.segments if each.bytes is not None]
        return sum(known) if self.files and len(known) == len(self.segments) else None


def table_sizes(session: Session, tables: Collection[TableInfo], version: int) -> Mapping[TableInfo, TableSize]:
    """Returns the sizes of ``tables`` at ``version``. They are kept for the version."""
    cache = session.metastore.tables.backing.reader.cache
    known = {table: cache.find(f"size {version} {table}") for table in tables}
    found = {table: size for table, size in known.items() if isinstance(size, TableSize)}
    missing = set(tables) - set(found)
    if missing:
        for table, size in _sum_sizes(session, missing, version).items():
            cache.put(f"size {version} {table}", size, _BYTES_OF_A_SEGMENT * (len(size.segments) + 1))
            found[table] = size
    return found


def _sum_sizes(session: Session, tables: Collection[TableInfo], version: int) -> Mapping[TableInfo, TableSize]:
    """Sizes from digests. Segments without one are opened, small tables first, while the limit lasts."""
    read = session.metastore.tables.read().metadata_types(*_TYPES).filter(of_names(each.name for each in tables))
    digests: dict[TableInfo, dict[str, list[SegmentDigest | None]]] = {table: defaultdict(list) for table in tables}
    stored: dict[TableInfo, int] = defaultdict(int)
    for group in read.columns("path").at(version).groups():
        for planned in group.files.planned:
            *name, key = map(str, planned.key)
            if (table := TableInfo(*name)) in digests and key != GENERAL_INFO:
                digests[table][key].append(digest := SegmentDigest.from_bytes(planned.digest))
                stored[table] += planned.size_bytes if digest is None else 0
    counted: dict[TableInfo, dict[str, DirectorySize]] = defaultdict(dict)
    left = _MOST_OPENED
    for table, size in sorted(stored.items(), key=lambda each: each[1]):
        if size and (left := left - size) >= 0:
            unsaid = [key for key, of_key in digests[table].items() if len(of_key) != 1 or of_key[0] is None]
            counted[table] = dict(_measure_segments(session, table, unsaid, version))
    return {table: _size(digests[table], counted[table]) for table in tables}


def _size(digests: Mapping[str, list[SegmentDigest | None]], counted: Mapping[str, DirectorySize]) -> TableSize:
    segments = []
    for key, of_key in sorted(digests.items()):
        if len(of_key) == 1 and (digest := of_key[0]) is not None:
            segments.append(DirectorySize(key, digest.files, digest.row_groups, digest.size))
        elif key in counted:
            segments.append(counted[key])
    return TableSize(tuple(segments), len(digests) - len(segments))


def _measure_segments(
    session: Session, table: TableInfo, keys: Collection[str], version: int
) -> Iterator[tuple[str, DirectorySize]]:
    """Yields the sizes of the segments ``keys`` of one table from their units."""
    read = session.metastore.tables.read().metadata_types(MetadataType.FILE, MetadataType.ROW_GROUP)
    read = read.filter(Request(table, metadata_keys=list(keys)).expression()).at(version)
    lengths: dict[str, list[Any]] = {key: [] for key in keys}
    row_groups = dict.fromkeys(keys, 0)
    for facts in read.facts("metadataKey", "metadataType", LENGTH):
        columns = (facts[name].to_pylist() for name in ("metadataKey", "metadataType", LENGTH))
        for key, kind, length in zip(*columns, strict=True):
            if kind == MetadataType.FILE.value:
                lengths[key].append(length)
            else:
                row_groups[key] += 1
    for key, of_key in lengths.items():
        yield key, DirectorySize(key, len(of_key), row_groups[key], None if None in of_key else sum(of_key))
