"""Facts of a partition's units in the bytes that its data file carries, for lists that read no Parquet and no JSON.

Place in the flow: :func:`metastore.bounds.embedded_columns.embedded` stores the columns of :func:`fact_columns` in the
same record batch as statistics. :class:`FactBatches` reads facts from many batches.

What follows from other columns is not stored: the path of a row group is that of its file. An identifier is usually
the end of the path, and a time of modification is usually the recorded time in milliseconds. Columns without any value
are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.bounds.bound_arrays import mask_of
from metastore.bounds.embedded_place import EmbeddedPlace, opened, runs_of, texts_of
from metastore.bounds.unit_columns import Coded, Longs
from metastore.bounds.unit_facts import FACTS, FILE_COUNT, LENGTH, ROW_COUNT, START
from metastore.mapping.recorded_numbers import exact_row_counts, recorded_numbers, with_nulls
from metastore.mapping.row_test import RowTest
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import IDENTIFIER_SEPARATOR, Statistic

_NANOS: Final = 1_000_000
"""Nanoseconds of a millisecond."""

KIND: Final = "kind"
"""The column with the metadata type of each unit, in batches with facts."""

_MOST: Final = 1 << 62
"""Times beyond are not stored as differences, which could exceed 64 bits."""


def fact_columns(files: pa.Table, groups: pa.Table, others: pa.Table, found: Any, times: Any) -> dict[str, Any] | None:
    """The facts of ``files``, row ``groups`` and ``others``, in this order, as columns of the same rows.

    ``found`` has each row group's index in ``files``, and ``times`` the recorded times of files in nanoseconds. Returns
    None for units that these columns cannot hold, such as a unit without identifier.
    """
    lower = pa.concat_tables([groups, others])
    if lower["metadataIdentifier"].null_count:
        return None
    units = pa.concat_tables([files, lower]).combine_chunks()
    owners = _places(found, len(files), units.num_rows)
    modified = _longs(units["lastModifiedTime"])
    if ((modified > _MOST) | (modified < -_MOST)).any():
        return None
    differences = modified - _base_times(modified, times, owners)
    identifiers = _stored_identifiers(files, groups, owners[len(files) : len(files) + len(groups)])
    holders = units["metadataStatistics"].combine_chunks()
    own_path: Any = pc.if_else(pa.array(owners < 0), units["path"].combine_chunks(), pa.scalar(None, pa.string()))
    nothing = pa.nulls(len(files), pa.string())
    columns: dict[str, Any] = {
        KIND: runs_of(Coded.of(units["metadataType"])),
        "location": runs_of(Coded.of(units["location"])),
        "cut": pa.concat_arrays([identifiers[0], pa.nulls(lower.num_rows, pa.int32())]),
        "identifier": pa.concat_arrays([identifiers[1], identifiers[2], _whole(others["metadataIdentifier"])]),
        "place": pa.concat_arrays([nothing, own_path.slice(len(files))]),
        "modified": pa.array(differences, mask=~mask_of(units["lastModifiedTime"].combine_chunks().is_valid())),
        ROW_COUNT: exact_row_counts(holders),
        START: with_nulls(recorded_numbers(holders, Statistic.START)),
        FILE_COUNT: pc.list_value_length(units["locations"].combine_chunks()).cast(pa.int64()),
        "column": runs_of(Coded.of(units["column"])) if units["column"].null_count < units.num_rows else _NOTHING,
        "partitionValues": _whole(units["partitionValues"]),
    }
    return {name: column for name, column in columns.items() if column.null_count < len(column)}


_PLACE: Final = "row"
_NOTHING: Final = pa.nulls(1)


def _stored_identifiers(files: pa.Table, groups: pa.Table, owners: Longs) -> tuple[Any, Any, Any]:
    """Characters of each path that precede its identifier, and the other identifiers of files and of row groups."""
    names: list[Any] = files["metadataIdentifier"].to_pylist()
    paths: list[Any] = files["path"].to_pylist()
    cuts = [len(path) - len(name) if path.endswith(name) else None for path, name in zip(paths, names, strict=True)]
    of_files = [None if cut is not None else name for cut, name in zip(cuts, names, strict=True)]
    numbers, given = groups["rowGroupIndex"].to_pylist(), groups["metadataIdentifier"].to_pylist()
    of_groups = [
        None if owner >= 0 and number is not None and name == f"{names[owner]}{IDENTIFIER_SEPARATOR}{number}" else name
        for owner, number, name in zip(owners.tolist(), numbers, given, strict=True)
    ]
    return pa.array(cuts, pa.int32()), pa.array(of_files, pa.string()), pa.array(of_groups, pa.string())


def _base_times(modified: Longs, times: Any, owners: Longs) -> Longs:
    """The times of modification that are expected: from the recorded time of a file, or from a row group's file."""
    base = np.zeros(len(modified), np.int64)
    base[: len(times)] = _longs(times) // _NANOS
    return np.where(owners >= 0, modified[owners], base)


def _places(found: Any, before: int, count: int) -> Longs:
    places = np.full(count, -1, np.int64)
    places[before : before + len(found)] = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)
    return places


def _longs(column: Any) -> Longs:
    """Whole numbers, zero for null."""
    found: Longs = pc.fill_null(_whole(column).cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return found


def _whole(column: Any) -> Any:
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


@dataclass(frozen=True)
class FactBatches:
    """The batches with facts read so far, grouped by their stored schema: batches of one schema are read together."""

    wanted: Sequence[str]
    """Names of :data:`metastore.bounds.unit_facts.FACTS`."""
    _by_schema: dict[bytes, tuple[pa.Schema, list[pa.RecordBatch], list[Sequence[Any]]]] = field(default_factory=dict)

    def add(self, place: EmbeddedPlace, content: pa.Buffer, key: Sequence[Any]) -> None:
        """Adds the bytes read at ``place``, which has facts; ``key`` are the values of the unit's partition columns.

        Raises FormatError if the bytes are not those that were written there.
        """
        stored = opened(place, content)
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
        arrays = {name: _whole(units[name]) for name in names}
        lengths: Longs = np.array([batch.num_rows for batch in batches], np.int64)
        first = np.repeat(np.cumsum(lengths) - lengths, lengths)
        own = pc.fill_null(arrays["file"], -1).to_numpy(zero_copy_only=False)
        return cls(arrays, keys, lengths, np.where(own < 0, -1, own + first), np.arange(len(own)))

    def passing(self, test: RowTest) -> _Units:
        """Only the units that pass ``test``."""
        names = sorted(test.tested)
        tested = pa.Table.from_arrays([*self.facts(names).columns, pa.array(self.rows)], [*names, _PLACE])
        return replace(self, rows=test.passing(tested)[_PLACE].to_numpy())

    def facts(self, wanted: Sequence[str]) -> pa.Table:
        """The facts ``wanted``."""
        schema = pa.schema([FACTS.field(name) for name in wanted])
        return pa.Table.from_arrays([self._fact(fact) for fact in schema], schema=schema)

    def _fact(self, fact: pa.Field[Any]) -> Any:
        if fact.name in TableMetadataUnit.partition_columns:
            place = TableMetadataUnit.partition_columns.index(fact.name)
            return self._of_partitions([key[place] for key in self.keys])
        derived = _DERIVED.get(fact.name)
        return derived(self) if derived else self.stored(fact.name).cast(fact.type)

    def _of_partitions(self, texts: Sequence[Any]) -> Any:
        encoded: Any = pa.array(texts, pa.string()).dictionary_encode()
        codes: Any = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        chosen: Any = np.repeat(codes, self.lengths)[self.rows]
        return encoded.dictionary.take(pa.array(chosen, mask=chosen < 0))

    def stored(self, name: str) -> Any:
        """A column as it is stored; null if no batch has a value."""
        column = self.arrays.get(name)
        return pa.nulls(len(self.rows)) if column is None else self._taken(column, self.rows)

    def _taken(self, column: Any, rows: Longs) -> Any:
        is_whole = len(rows) == len(column) and bool((rows == np.arange(len(rows))).all())
        return column if is_whole else column.take(rows)

    def texts(self, name: str) -> Any:
        """A column that is stored as runs of equal texts."""
        if name not in self.arrays:
            return pa.nulls(len(self.rows), pa.string())
        texts = texts_of(self.arrays[name])
        codes = texts.codes[self.rows]
        return pa.array([*texts.names], pa.string()).take(pa.array(codes, mask=codes < 0))

    @property
    def _files(self) -> Longs:
        """The row of the file of each row group; a unit of another kind has its own row."""
        owners = self.owners[self.rows]
        found: Longs = np.where(owners < 0, self.rows, owners)
        return found

    def paths(self) -> Any:
        """Paths; that of its file for a row group."""
        found = self._taken(self.arrays["path"], self._files)
        return pc.coalesce(found, self.stored("place")) if "place" in self.arrays else found

    def identifiers(self) -> Any:
        """Identifiers: the end of the path, or the file's with the number of the row group, or as they are stored."""
        found = self._identifiers_of_files(self._files)
        is_group = self.owners[self.rows] >= 0
        if is_group.any():
            join: Any = pc.binary_join_element_wise
            numbered = join(found, self.stored("number").cast(pa.string()), IDENTIFIER_SEPARATOR)
            found = pc.if_else(pa.array(is_group), numbered, found)
        return pc.coalesce(self.stored("identifier"), found) if "identifier" in self.arrays else found

    def _identifiers_of_files(self, files: Longs) -> Any:
        """The identifiers of the units at ``files``; null for those that are neither stored nor the end of a path."""
        found: Any = pa.nulls(len(files), pa.string())
        if "identifier" in self.arrays:
            found = self._taken(self.arrays["identifier"], files)
        if "cut" in self.arrays:
            paths, cuts = self._taken(self.arrays["path"], files), self._taken(self.arrays["cut"], files)
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

    def modified(self) -> Any:
        """Times of the last change, in epoch milliseconds."""
        if "modified" not in self.arrays:
            return pa.nulls(len(self.rows), pa.int64())
        stored, is_group = self.arrays["modified"], self.owners >= 0
        is_known = mask_of(stored.is_valid())
        times = _longs(self.arrays["time"]) // _NANOS
        own = np.where(is_known, _longs(stored) + np.where(is_group, 0, times), 0)
        found = own + np.where(is_group, own[self.owners], 0)
        return pa.array(found[self.rows], mask=~is_known[self.rows])


_DERIVED: Final[Mapping[str, Callable[[_Units], Any]]] = {
    "metadataType": lambda units: units.texts(KIND),
    "metadataIdentifier": _Units.identifiers,
    "location": lambda units: units.texts("location"),
    "path": _Units.paths,
    "rowGroupIndex": lambda units: units.stored("number"),
    "lastModifiedTime": _Units.modified,
    "column": lambda units: units.texts("column"),
    LENGTH: lambda units: units.stored("size"),
}
"""Facts that are not stored under their own name, or not as they are."""
