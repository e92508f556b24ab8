"""One table's metadata units as pruning reads them: the levels above the files at once, what is below in portions.

A portion is what is held at a time. So a table may have any number of files: of those that lie in excluded segments not
even the statistics are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import MetadataType

UPPER_TYPES: Final = (MetadataType.TABLE, MetadataType.SEGMENT)
LOWER_TYPES: Final = (MetadataType.FILE, MetadataType.ROW_GROUP)
UNIT_TYPES: Final = (*UPPER_TYPES, *LOWER_TYPES)
"""The metadata types that pruning makes use of."""

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
"""What it needs of files and row groups, by the on-disk names."""

UNIT_COLUMNS: Final = (*LOWER_COLUMNS, "partitionKeys")
"""What it needs of all."""

FINGERPRINT_COLUMNS: Final = ("metadataType", "metadataIdentifier", "path", "metadataStatistics")
"""Those that tell which files there are, and whether they are as they were."""


class Portion(Protocol):
    """Units of some files, each file with all of its row groups."""

    def files(self) -> Iterator[pa.Table]:
        """The FILE units."""

    def row_groups(self) -> Iterator[pa.Table]:
        """The ROW_GROUP units."""


class Units(Protocol):
    """The units of one table, in on-disk columns."""

    def upper(self) -> pa.Table:
        """All units of :data:`UPPER_TYPES`, in :data:`UNIT_COLUMNS`."""

    def lower(self, without: frozenset[str]) -> Iterator[Portion]:
        """The files in :data:`LOWER_COLUMNS`; those below the top-level segments ``without`` may be left out."""

    def fingerprints(self, of: frozenset[str] | None) -> Iterator[Portion]:
        """The files in :data:`FINGERPRINT_COLUMNS`: all of them for None, else those that ``lower(of)`` leaves out."""


@dataclass(frozen=True)
class TablePortion:
    """Units in memory, of both lower types; each type is taken out once, however often it is asked for."""

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


@dataclass(frozen=True)
class TableUnits:
    """All units of a table in memory."""

    units: pa.Table

    def upper(self) -> pa.Table:
        """See :class:`Units`."""
        return self.units

    def lower(self, without: frozenset[str]) -> Iterator[Portion]:
        """See :class:`Units`."""
        yield self._portion

    def fingerprints(self, of: frozenset[str] | None) -> Iterator[Portion]:
        """See :class:`Units`."""
        if of is None:
            yield self._portion

    @cached_property
    def _portion(self) -> TablePortion:
        return TablePortion(self.units)


@dataclass(frozen=True)
class UnitsWithSchema:
    """``units`` of a table whose columns are now those of ``schema`` (JSON), whatever they were at ANALYZE."""

    units: Units
    schema: str

    @classmethod
    def of(cls, units: Units, now: Callable[[TupleSchema], TupleSchema]) -> UnitsWithSchema:
        """``units`` with what the columns are ``now``, by those that are stored."""
        [stored] = of_kind(units.upper(), MetadataType.TABLE)["schema"].to_pylist() or [None]
        return cls(units, now(TupleSchema.from_json(stored) if stored else TupleSchema()).to_json())

    def upper(self) -> pa.Table:
        """See :class:`Units`."""
        units = self.units.upper()
        of_table = pc.equal(units["metadataType"], pa.scalar(MetadataType.TABLE.value))
        place = units.schema.get_field_index("schema")
        now = pc.if_else(of_table, pa.scalar(self.schema, units.schema.field(place).type), units["schema"])
        return units.set_column(place, units.schema.field(place), now)

    def lower(self, without: frozenset[str]) -> Iterator[Portion]:
        """See :class:`Units`."""
        return self.units.lower(without)

    def fingerprints(self, of: frozenset[str] | None) -> Iterator[Portion]:
        """See :class:`Units`."""
        return self.units.fingerprints(of)


def of_kind(units: pa.Table, kind: MetadataType) -> pa.Table:
    """Those of ``units`` that are of one type, in one chunk."""
    return units.filter(pc.equal(units["metadataType"], pa.scalar(kind.value))).combine_chunks()
