"""The digest of a segment in its manifest entry, which lets a reader skip the segment without opening its file.

A digest is stored in the entry's lower bounds, under a field id that no column has. Iceberg's readers look up bounds by
column id, so they never see it. It belongs to one data file and is valid for the life of that file. A program that
rewrites the segment writes an entry without a digest, and readers then open the file.

A partition has a digest only if it is a single segment: one SEGMENT unit, whose folder contains every file.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from metastore.model.mapping.recorded_numbers import UNKNOWN, recorded_numbers
from metastore.model.statistics import ColumnStatistics
from metastore.model.vocabulary import DEFAULT_SEGMENT, IDENTIFIER_SEPARATOR, MetadataType, Statistic

DIGEST_ID: Final = 2_000_000_035
"""Higher than the ids of any table's columns, and lower than the ids that Iceberg reserves."""

_VERSION: Final = 1
_MOST_COLUMNS: Final = 64
_MOST_BYTES: Final = 2_048
"""Maximum compressed size. Entries are decoded with every manifest, so statistics of wide tables are not stored in
them. The files of such segments are opened instead."""

_MOST_TEXT: Final = 1 << 20
"""Maximum decompressed size; no larger text was written as a digest."""

_USUAL: Final = (
    ColumnStatistics("VARCHAR", "a", "b", min_exact=False, max_exact=False).to_json()
    + ColumnStatistics("BIGINT", 0, 0, nulls=0, non_nulls=0, rows=0).to_json()
).encode()
"""Compression dictionary with the common parts of digests: it reduces them to a tenth. It is part of the format of
:data:`_VERSION`."""


@dataclass(frozen=True)
class SegmentDigest:
    """One segment: its numbers of files and row groups, and the column metadata of its SEGMENT unit.

    ``size`` is the bytes of all files, None if one is unknown; ``schema`` is Drill's JSON; ``statistics`` are JSON by
    quoted path.
    """

    files: int
    row_groups: int
    size: int | None
    schema: str | None
    statistics: Mapping[str, str]

    def to_bytes(self) -> bytes | None:
        """Returns the digest as it is stored, or None if it is too large."""
        fields = [_VERSION, self.files, self.row_groups, self.size, self.schema, dict(self.statistics)]
        compressor = zlib.compressobj(zdict=_USUAL)
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        try:
            content = compressor.compress(text.encode()) + compressor.flush()
        except UnicodeEncodeError:  # an incomplete surrogate pair in a bound
            return None
        return content if len(content) <= _MOST_BYTES else None

    @classmethod
    def from_bytes(cls, content: bytes | None) -> SegmentDigest | None:
        """Returns the digest stored as ``content``; None if there is none, or if it has another version."""
        if not content:
            return None
        stored = zlib.decompressobj(zdict=_USUAL)
        try:
            text = stored.decompress(content, _MOST_TEXT)
            fields: Any = json.loads(text.decode()) if stored.eof and not stored.unused_data else None
        except (zlib.error, ValueError):
            return None
        return cls(*fields[1:]) if isinstance(fields, list) and fields[:1] == [_VERSION] else None


def digest_of(rows: pa.Table) -> bytes | None:
    """Returns the digest of a partition of ``rows``, units of one table in on-disk columns; None if it has none."""
    kinds: list[Any] = rows["metadataType"].to_pylist()
    if kinds.count(MetadataType.SEGMENT.value) != 1:
        return None
    place = kinds.index(MetadataType.SEGMENT.value)
    key, identifier, schema = (rows[name][place].as_py() for name in ("metadataKey", "metadataIdentifier", "schema"))
    statistics = dict(rows["columnsStatistics"][place].as_py() or ())
    if identifier != key or len(statistics) > _MOST_COLUMNS:
        return None
    files = np.array([place for place, kind in enumerate(kinds) if kind == MetadataType.FILE.value], np.int64)
    if not _are_of(rows["metadataIdentifier"].take(files), key):
        return None
    holders: Any = rows["metadataStatistics"].take(files).combine_chunks()
    [sizes] = recorded_numbers(holders, Statistic.LENGTH)
    size = None if (sizes == UNKNOWN).any() else int(np.sum(sizes))
    row_groups = kinds.count(MetadataType.ROW_GROUP.value)
    return SegmentDigest(len(files), row_groups, size, schema, statistics).to_bytes()


def _are_of(identifiers: pa.ChunkedArray[Any], key: str) -> bool:
    """Returns whether all files lie directly in the folder of the segment ``key``."""
    folder = "" if key == DEFAULT_SEGMENT else key
    texts: list[Any] = identifiers.to_pylist()
    return all(text is not None and text.rpartition(IDENTIFIER_SEPARATOR)[0] == folder for text in texts)
