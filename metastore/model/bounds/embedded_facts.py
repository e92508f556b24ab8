"""Reads facts of units from the bytes that data files carry, for lists that read no Parquet and no JSON.

The stored columns, and what is derived from them, are described in :mod:`metastore.model.bounds.fact_columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.model.bounds.bound_arrays import mask_of
from metastore.model.bounds.embedded_place import EmbeddedPlace, texts_of, unpack_content
from metastore.model.bounds.fact_columns import KIND, NANOS, longs, whole
from metastore.model.bounds.unit_columns import Longs
from metastore.model.bounds.unit_facts import FACTS
from metastore.model.bounds.units import LENGTH
from metastore.model.mapping.row_test import RowTest
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import IDENTIFIER_SEPARATOR

_PLACE: Final = "row"


@dataclass(frozen=True)
class FactBatches:
    """The batches with facts read so far, grouped by their stored schema: batches of one schema are read together."""

    wanted: Sequence[str]
    """Names of :data:`metastore.model.bounds.unit_facts.FACTS`."""
    _by_schema: dict[bytes, tuple[pa.Schema, list[pa.RecordBatch], list[Sequence[Any]]]] = field(default_factory=dict)

    def add(self, place: EmbeddedPlace, content: pa.Buffer, key: Sequence[Any]) -> None:
        """Adds the bytes read at ``place``, which has facts; ``key`` are the values of the unit's partition columns.

        Raises FormatError if the bytes are not those that were written there.
        """
        stored = unpack_content(place, content)
        known = self._by_schema.get(stored.schema)
        if known is None:
            known = self._by_schema[stored.schema] = (pa.ipc.read_schema(pa.py_buffer(stored.schema)), [], [])
        schema, batches, keys = known
        batches.append(pa.ipc.read_record_batch(stored.content, schema))
        keys.append(key)

    def tables(self, test: RowTest) -> list[pa.Table]:
        """The facts ``wanted`` of all units that pass ``test``, which tests facts only."""
        return [
            _Units.of(schema, batches, keys).passing(test).facts(self.wanted)
            for schema, batches, keys in self._by_schema.values()
        ]


@dataclass(frozen=True, eq=False)
class _Units:
    """The stored columns of several batches, and what is derived from them."""

    arrays: Mapping[str, Any]
    keys: Sequence[Sequence[Any]]
    lengths: Longs
    owners: Longs
    """For each row, the row of its file; -1 if it is no row group, or its file is not there."""
    rows: Longs
    """The rows to return."""

    @classmethod
    def of(cls, schema: pa.Schema, batches: Sequence[pa.RecordBatch], keys: Sequence[Sequence[Any]]) -> _Units:
        names = [name for name in schema.names if not name.startswith("=")]
        units = pa.Table.from_batches(batches, schema).select(names)
        arrays = {name: whole(units[name]) for name in names}
        lengths: Longs = np.array([batch.num_rows for batch in batches], np.int64)
        first = np.repeat(np.cumsum(lengths) - lengths, lengths)
        own = pc.fill_null(arrays["file"], -1).to_numpy(zero_copy_only=False)
        return cls(arrays, keys, lengths, np.where(own < 0, -1, own + first), np.arange(len(own)))

    def passing(self, test: RowTest) -> _Units:
        """Only the units that pass ``test``."""
        names = sorted(test.tested_columns)
        tested = pa.Table.from_arrays([*self.facts(names).columns, pa.array(self.rows)], [*names, _PLACE])
        return replace(self, rows=test.passing(tested)[_PLACE].to_numpy())

    def facts(self, columns: Sequence[str]) -> pa.Table:
        """The facts named ``columns``."""
        schema = pa.schema([FACTS.field(name) for name in columns])
        return pa.Table.from_arrays([self._fact(fact) for fact in schema], schema=schema)

    def _fact(self, fact: pa.Field[Any]) -> Any:
        if fact.name in TableMetadataUnit.partition_columns:
            place = TableMetadataUnit.partition_columns.index(fact.name)
            return self._of_partitions([key[place] for key in self.keys])
        derived = _DERIVED.get(fact.name)
        return derived(self) if derived else self.stored_column(fact.name).cast(fact.type)

    def _of_partitions(self, texts: Sequence[Any]) -> Any:
        encoded: Any = pa.array(texts, pa.string()).dictionary_encode()
        codes: Any = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        chosen: Any = np.repeat(codes, self.lengths)[self.rows]
        return encoded.dictionary.take(pa.array(chosen, mask=chosen < 0))

    def stored_column(self, name: str) -> Any:
        """A column as it is stored; null if no batch has a value."""
        column = self.arrays.get(name)
        return pa.nulls(len(self.rows)) if column is None else self._take_rows(column, self.rows)

    def _take_rows(self, column: Any, rows: Longs) -> Any:
        is_whole = len(rows) == len(column) and bool((rows == np.arange(len(rows))).all())
        return column if is_whole else column.take(rows)

    def texts(self, name: str) -> Any:
        """A column that is stored as runs of equal texts."""
        if name not in self.arrays:
            return pa.nulls(len(self.rows), pa.string())
        texts = texts_of(self.arrays[name])
        codes: Any = texts.codes[self.rows]
        return pa.array([*texts.names], pa.string()).take(pa.array(codes, mask=codes < 0))

    @property
    def _files(self) -> Longs:
        """The row of the file of each row group; a unit of another kind has its own row."""
        owners = self.owners[self.rows]
        found: Longs = np.where(owners < 0, self.rows, owners)
        return found

    def paths(self) -> Any:
        """Paths; that of its file for a row group."""
        found = self._take_rows(self.arrays["path"], self._files)
        return pc.coalesce(found, self.stored_column("place")) if "place" in self.arrays else found

    def identifiers(self) -> Any:
        """Identifiers: the end of the path, or the file's with the number of the row group, or as they are stored."""
        found = self._identifiers_of_files(self._files)
        is_group = self.owners[self.rows] >= 0
        if is_group.any():
            join: Any = pc.binary_join_element_wise
            numbered = join(found, self.stored_column("number").cast(pa.string()), IDENTIFIER_SEPARATOR)
            found = pc.if_else(pa.array(is_group), numbered, found)
        return pc.coalesce(self.stored_column("identifier"), found) if "identifier" in self.arrays else found

    def _identifiers_of_files(self, files: Longs) -> Any:
        """The identifiers of the units at ``files``; null for those that are neither stored nor the end of a path."""
        found: Any = pa.nulls(len(files), pa.string())
        if "identifier" in self.arrays:
            found = self._take_rows(self.arrays["identifier"], files)
        if "cut" in self.arrays:
            paths, cuts = self._take_rows(self.arrays["path"], files), self._take_rows(self.arrays["cut"], files)
            distinct = cuts.unique().to_pylist()
            for cut in distinct:
                if cut is not None:
                    ends = pc.utf8_slice_codeunits(paths, cut)
                    found = (
                        ends
                        if len(distinct) == 1
                        else pc.if_else(pc.fill_null(pc.equal(cuts, cut), False), ends, found)
                    )
        return found

    def modification_times(self) -> Any:
        """Times of the last change, in epoch milliseconds."""
        if "modified" not in self.arrays:
            return pa.nulls(len(self.rows), pa.int64())
        stored, is_group = self.arrays["modified"], self.owners >= 0
        is_known = mask_of(stored.is_valid())
        times = longs(self.arrays["time"]) // NANOS
        own = np.where(is_known, longs(stored) + np.where(is_group, 0, times), 0)
        found = own + np.where(is_group, own[self.owners], 0)
        return pa.array(found[self.rows], mask=~is_known[self.rows])


_DERIVED: Final[Mapping[str, Callable[[_Units], Any]]] = {
    "metadataType": lambda units: units.texts(KIND),
    "metadataIdentifier": _Units.identifiers,
    "location": lambda units: units.texts("location"),
    "path": _Units.paths,
    "rowGroupIndex": lambda units: units.stored_column("number"),
    "lastModifiedTime": _Units.modification_times,
    "column": lambda units: units.texts("column"),
    LENGTH: lambda units: units.stored_column("size"),
}
"""Facts that are not stored under their own name, or not as they are."""
