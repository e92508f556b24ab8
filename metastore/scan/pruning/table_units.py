"""All units of one table for pruning: the levels above the files at once, files and row groups in portions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from metastore.model.bounds.portion_columns import PortionColumns
from metastore.model.bounds.unit_columns import UnitColumns
from metastore.model.bounds.units import Portion, TablePortion, of_kind
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import MetadataType
from metastore.scan.pruning.kept_portions import KeptPortions


class Units(Protocol):
    """The units of one table."""

    def upper(self) -> pa.Table:
        """All units above the files, in on-disk columns: :data:`metastore.model.bounds.units.UNIT_COLUMNS`."""

    def segments(self, columns: Collection[str]) -> UnitColumns:
        """The SEGMENT units of :meth:`upper`, in order, with the statistics of ``columns``."""

    def lower(self, without: frozenset[str]) -> Iterator[Portion]:
        """The files as stored, in on-disk columns: :data:`metastore.model.bounds.units.LOWER_COLUMNS`.

        Files below the top-level segments ``without`` may be left out.
        """

    def portions(self, without: frozenset[str], columns: Collection[str]) -> Iterator[PortionColumns]:
        """All files, with the statistics of ``columns``.

        Files below the top-level segments ``without`` may lack statistics.
        """

    def all_files(self) -> Iterator[PortionColumns]:
        """All files; they may lack statistics."""


@dataclass(frozen=True)
class TableUnits:
    """All units of a table in memory; decoded columns are cached in ``kept`` under ``name``, if ``kept`` is given."""

    units: pa.Table
    kept: KeptPortions | None = None
    name: str = ""
    _decoded: dict[frozenset[str], PortionColumns] = field(default_factory=dict, compare=False, repr=False)

    def upper(self) -> pa.Table:
        """See :class:`Units`."""
        return self.units

    def segments(self, columns: Collection[str]) -> UnitColumns:
        """See :class:`Units`."""
        segments = of_kind(self.units, MetadataType.SEGMENT)
        if self.kept is None:
            return UnitColumns.of(segments, columns)
        return self.kept.segments(self.name, columns, segments)

    def lower(self, without: frozenset[str]) -> Iterator[Portion]:
        """See :class:`Units`."""
        yield self._portion

    def portions(self, without: frozenset[str], names: Collection[str]) -> Iterator[PortionColumns]:
        """See :class:`Units`."""
        if self.kept is not None:
            yield self.kept.get(self.name, names, lambda: PortionColumns.of(self._portion, names))
            return
        columns = frozenset(names)
        if columns not in self._decoded:
            self._decoded[columns] = PortionColumns.of(self._portion, names)
        yield self._decoded[columns]

    def all_files(self) -> Iterator[PortionColumns]:
        """See :class:`Units`."""
        return self.portions(frozenset(), ())

    @cached_property
    def _portion(self) -> TablePortion:
        return TablePortion(self.units)


@dataclass(frozen=True)
class UnitsWithSchema:
    """``units`` of a table whose columns are now those of ``schema`` (JSON), not those at ANALYZE."""

    units: Units
    schema: str

    @classmethod
    def of(cls, units: Units, now: Callable[[TupleSchema], TupleSchema]) -> UnitsWithSchema:
        """``units`` with the present columns, which ``now`` computes from the stored ones."""
        [stored] = of_kind(units.upper(), MetadataType.TABLE)["schema"].to_pylist() or [None]
        return cls(units, now(TupleSchema.from_json(stored) if stored else TupleSchema()).to_json())

    def upper(self) -> pa.Table:
        """See :class:`Units`."""
        units = self.units.upper()
        of_table = pc.equal(units["metadataType"], pa.scalar(MetadataType.TABLE.value))
        place = units.schema.get_field_index("schema")
        now = pc.if_else(of_table, pa.scalar(self.schema, units.schema.field(place).type), units["schema"])
        return units.set_column(place, units.schema.field(place), now)

    def segments(self, columns: Collection[str]) -> UnitColumns:
        """See :class:`Units`."""
        return self.units.segments(columns)

    def lower(self, without: frozenset[str]) -> Iterator[Portion]:
        """See :class:`Units`."""
        return self.units.lower(without)

    def portions(self, without: frozenset[str], columns: Collection[str]) -> Iterator[PortionColumns]:
        """See :class:`Units`."""
        return self.units.portions(without, columns)

    def all_files(self) -> Iterator[PortionColumns]:
        """See :class:`Units`."""
        return self.units.all_files()
