"""Metadata units of a table without ANALYZE, made from its manifests or log for one plan, and not stored.

Place in the flow: manifests and logs of Iceberg and Delta tables contain everything that ANALYZE would store. So scans
plan such a table without ANALYZE. Statistics are made only for the columns that a plan uses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from metastore.analyze.changes import WantedMetadata, is_flat, segments_of
from metastore.analyze.reading import kept_rows
from metastore.analyze.states import segment_state
from metastore.analyze.tasks.chunks import UNIT_SCHEMA
from metastore.analyze.units.partial_aggregates import file_parts
from metastore.analyze.units.rollup import segment_units, table_unit
from metastore.analyze.units.total import Total
from metastore.analyze.units.unit_rows import to_batch
from metastore.lake.formats.source_file import SourceFile
from metastore.model.bounds.portion_columns import PortionColumns
from metastore.model.bounds.unit_columns import UnitColumns
from metastore.model.bounds.units import Portion, TablePortion, of_kind
from metastore.model.column_path import ColumnPath, parse
from metastore.model.vocabulary import MetadataType
from metastore.sources.provided_tables import ProvidedTable
from metastore.sources.source_table import SourceTable


@dataclass(frozen=True)
class UnstoredUnits:
    """The units of ``source``, made of its metadata ``provided``.

    It has the methods of :class:`metastore.scan.pruning.table_units.Units`. Segments have no column statistics, because
    files are not found through them. Every method raises the errors of reading ``provided``.
    """

    source: SourceTable
    provided: ProvidedTable
    _made: dict[frozenset[str], PortionColumns] = field(default_factory=dict, compare=False, repr=False)

    def upper(self) -> pa.Table:
        """Returns the TABLE unit and the SEGMENT units."""
        return self._upper

    def segments(self, columns: Collection[str]) -> UnitColumns:
        """Returns the SEGMENT units."""
        return UnitColumns.of(of_kind(self._upper, MetadataType.SEGMENT), columns)

    def lower(self, without: frozenset[str]) -> Iterator[Portion]:
        """Yields all files, with the statistics of all columns."""
        yield TablePortion(self._files(self._wanted_metadata(None)))

    def portions(self, without: frozenset[str], names: Collection[str]) -> Iterator[PortionColumns]:
        """Yields all files, with the statistics of the columns ``names``."""
        columns = frozenset(names)
        if columns not in self._made:
            files = self._files(self._wanted_metadata(sorted(map(parse, columns))))
            self._made[columns] = PortionColumns.of(TablePortion(files), columns)
        yield self._made[columns]

    def all_files(self) -> Iterator[PortionColumns]:
        """Yields all files, without statistics."""
        return self.portions(frozenset(), ())

    @cached_property
    def _all_files(self) -> Sequence[SourceFile]:
        return self.provided.files()

    def _wanted_metadata(self, columns: Sequence[ColumnPath] | None) -> WantedMetadata:
        paths = None if columns is None else tuple(columns)
        return WantedMetadata(level=MetadataType.FILE, columns=paths, format=self.provided.format)

    def _files(self, request: WantedMetadata) -> pa.Table:
        rows = list(kept_rows(self.source, self.provided, request, self._all_files))
        return pa.Table.from_batches([to_batch(UNIT_SCHEMA, self.source.table, rows)])

    @cached_property
    def _upper(self) -> pa.Table:
        source, wanted = self.source, self._wanted_metadata(())
        details = self._files(wanted)
        states = {key: segment_state(own) for key, own in segments_of(self._all_files).items()}
        parts = file_parts(details, source.location)
        segments, tops = segment_units(
            source, UNIT_SCHEMA, parts, details, level=MetadataType.SEGMENT, states=states, is_flat=is_flat(states)
        )
        total, owner = Total.sum_of(tops), source.owner or ""
        of_table = table_unit(source, UNIT_SCHEMA, total, {()}, owner=owner, request=wanted, states=states)
        return pa.concat_tables([of_table, segments])
