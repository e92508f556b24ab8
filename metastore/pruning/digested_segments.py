"""Segments from their digests: as units above the files, and as counts of their files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from metastore.bounds.portion_columns import CountedFiles, PortionColumns
from metastore.mapping.segment_digest import SegmentDigest
from metastore.model.vocabulary import DEFAULT_SEGMENT, MetadataType


def digested_segments(digests: Mapping[str, SegmentDigest], schema: pa.Schema) -> pa.Table:
    """SEGMENT units in the columns of ``schema``, with the content of digests (by metadata key)."""
    contents: dict[str, list[Any]] = {
        "metadataType": [MetadataType.SEGMENT.value] * len(digests),
        "metadataIdentifier": list(digests),
        "schema": [digest.schema for digest in digests.values()],
        "columnsStatistics": [list(digest.statistics.items()) for digest in digests.values()],
    }
    columns = [
        pa.array(contents[field.name], field.type) if field.name in contents else pa.nulls(len(digests), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def counted(digests: Iterable[tuple[str, SegmentDigest]]) -> PortionColumns:
    """The files of segments (by metadata key) as counts."""
    files = tuple(
        CountedFiles("" if key == DEFAULT_SEGMENT else key, digest.files, digest.row_groups, digest.size)
        for key, digest in digests
    )
    return PortionColumns((), (), frozenset(), files)
