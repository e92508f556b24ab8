"""Metadata units in on-disk columns; files are read in portions.

A table may have any number of files: not even the statistics of files in excluded segments are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from metastore.model.vocabulary import MetadataType

UPPER_TYPES: Final = (MetadataType.TABLE, MetadataType.SEGMENT)
LOWER_TYPES: Final = (MetadataType.FILE, MetadataType.ROW_GROUP)
UNIT_TYPES: Final = (*UPPER_TYPES, *LOWER_TYPES)
"""The metadata types that pruning uses."""

LOWER_COLUMNS: Final = (
    "metadataType",
    "metadataIdentifier",
    "location",
    "path",
    "rowGroupIndex",
    "schema",
    "columnsStatistics",
    "metadataStatistics",
)
"""On-disk columns that pruning needs of files and row groups."""

UNIT_COLUMNS: Final = (*LOWER_COLUMNS, "partitionKeys")
"""On-disk columns that pruning needs of all units."""

FILE_COLUMNS: Final = ("metadataType", "metadataIdentifier", "path", "rowGroupIndex", "schema", "metadataStatistics")
"""Columns that identify files and their recorded state: all except statistics of columns."""


ROW_COUNT: Final = "rowCount"
"""The number of rows; null if it is not exact."""
LENGTH: Final = "length"
"""The size of a file or row group in bytes."""
START: Final = "start"
"""The offset of a row group in its file."""
FILE_COUNT: Final = "fileCount"
"""The number of files of a segment or partition."""


class Portion(Protocol):
    """Units of some files, each file with all of its row groups."""

    def files(self) -> Iterator[pa.Table]:
        """The FILE units."""

    def row_groups(self) -> Iterator[pa.Table]:
        """The ROW_GROUP units."""


@dataclass(frozen=True)
class TablePortion:
    """Units of both lower types in memory; each type is selected once, however often it is requested."""

    units: pa.Table

    def files(self) -> Iterator[pa.Table]:
        """See :class:`Portion`."""
        if self._files.num_rows:
            yield self._files

    def row_groups(self) -> Iterator[pa.Table]:
        """See :class:`Portion`."""
        if self._row_groups.num_rows:
            yield self._row_groups

    @cached_property
    def _files(self) -> pa.Table:
        return of_kind(self.units, MetadataType.FILE)

    @cached_property
    def _row_groups(self) -> pa.Table:
        return of_kind(self.units, MetadataType.ROW_GROUP)


def of_kind(units: pa.Table, kind: MetadataType) -> pa.Table:
    """The ``units`` of one type, in one chunk."""
    return units.filter(pc.equal(units["metadataType"], pa.scalar(kind.value))).combine_chunks()
