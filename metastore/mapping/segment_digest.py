"""What a manifest entry says about a segment, so that a reader can leave the segment out without opening its file.

A digest stands in the entry's lower bounds under a field id that no column has. Iceberg's readers ask for bounds by the
ids of columns and never meet it. It belongs to one data file, and so is right as long as that file is: a program that
writes the segment anew writes an entry without it, and the file is opened as ever.

Only a partition that is one segment has a digest: one SEGMENT unit, which names the folder of every file.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from metastore.mapping.recorded_numbers import UNKNOWN, recorded_numbers
from metastore.model.statistics import ColumnStatistics
from metastore.model.vocabulary import DEFAULT_SEGMENT, IDENTIFIER_SEPARATOR, MetadataType, Statistic

DIGEST_ID: Final = 2_000_000_035
"""Beyond the ids of any table's columns, and below those that Iceberg reserves."""

_VERSION: Final = 1
_MOST_COLUMNS: Final = 64
_MOST_BYTES: Final = 2_048
"""Compressed. Entries are decoded whenever a manifest is, so statistics of wide tables do not belong there: their
segments are opened."""

_MOST_TEXT: Final = 1 << 20
"""Nothing that is larger was written as a digest."""

_USUAL: Final = (
    ColumnStatistics("VARCHAR", "a", "b", min_exact=False, max_exact=False).to_json()
    + ColumnStatistics("BIGINT", 0, 0, nulls=0, non_nulls=0, rows=0).to_json()
).encode()
"""What most texts consist of: they are compressed to a tenth with it. It is part of the format of :data:`_VERSION`."""


@dataclass(frozen=True)
class SegmentDigest:
    """One segment: the numbers of its files and row groups, and all that its SEGMENT unit says about columns.

    ``size`` is the bytes of all files, None where one is unknown; ``schema`` is Drill's JSON; ``statistics`` are JSON
    by quoted path.
    """

    files: int
    row_groups: int
    size: int | None
    schema: str | None
    statistics: Mapping[str, str]

    def to_bytes(self) -> bytes | None:
        """The digest as it is stored; None where it is too large."""
        told = [_VERSION, self.files, self.row_groups, self.size, self.schema, dict(self.statistics)]
        compressor = zlib.compressobj(zdict=_USUAL)
        text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
        try:
            content = compressor.compress(text.encode()) + compressor.flush()
        except UnicodeEncodeError:  # half a character in a bound
            return None
        return content if len(content) <= _MOST_BYTES else None

    @classmethod
    def from_bytes(cls, content: bytes | None) -> SegmentDigest | None:
        """The digest that is stored as ``content``; None without one, and for one of another version."""
        if not content:
            return None
        stored = zlib.decompressobj(zdict=_USUAL)
        try:
            text = stored.decompress(content, _MOST_TEXT)
            told: Any = json.loads(text) if stored.eof and not stored.unused_data else None
        except (zlib.error, ValueError):
            return None
        return cls(*told[1:]) if isinstance(told, list) and told[:1] == [_VERSION] else None


def digest_of(rows: pa.Table) -> bytes | None:
    """The digest of a partition of ``rows``, units of one table in on-disk columns; None where it can have none."""
    kinds: list[Any] = rows["metadataType"].to_pylist()
    if kinds.count(MetadataType.SEGMENT.value) != 1:
        return None
    place = kinds.index(MetadataType.SEGMENT.value)
    [segment] = rows.select(_OF_A_SEGMENT).slice(place, 1).to_pylist()
    statistics = dict(segment["columnsStatistics"] or ())
    key = segment["metadataKey"]
    if segment["metadataIdentifier"] != key or len(statistics) > _MOST_COLUMNS:
        return None
    files = np.array([place for place, kind in enumerate(kinds) if kind == MetadataType.FILE.value], np.int64)
    if not _are_of(rows["metadataIdentifier"].take(files), key):
        return None
    holders: Any = rows["metadataStatistics"].take(files).combine_chunks()
    sizes = recorded_numbers(holders, Statistic.LENGTH)
    size = None if (sizes == UNKNOWN).any() else int(np.sum(sizes))
    row_groups = kinds.count(MetadataType.ROW_GROUP.value)
    return SegmentDigest(len(files), row_groups, size, segment["schema"], statistics).to_bytes()


_OF_A_SEGMENT: Final = ["metadataKey", "metadataIdentifier", "schema", "columnsStatistics"]


def _are_of(identifiers: pa.ChunkedArray[Any], key: str) -> bool:
    """Whether all files lie in the folder of the segment ``key`` itself."""
    folder = "" if key == DEFAULT_SEGMENT else key
    texts: list[Any] = identifiers.to_pylist()
    return all(text is not None and text.rpartition(IDENTIFIER_SEPARATOR)[0] == folder for text in texts)
