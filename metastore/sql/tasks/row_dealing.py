"""Deals the rows of a query's tables to groups, by keys that DuckDB computes.

Place in the flow: the first tasks of a query that is divided by keys read parts of its tables here. All rows of one key
go to one group, whichever table they are of. Rows travel as they were read; DuckDB only returns the numbers of their
groups, so no type changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.duck.queries import Duck
from metastore.lake.writes.groups import by_group
from metastore.lake.writes.row_changes import FILE
from metastore.sql.queries.divided_query import DividedQuery
from metastore.sql.queries.query_keys import PLACE
from metastore.sql.queries.row_parts import AddressedFiles, RowPart, in_schema
from metastore.sql.tasks.dealt_rows import Place, group_of, labelled, rows_of_group
from metastore.sql.tasks.statement_tasks import Dealt, packed_part

PARTS: Final = -1
"""The number of the table of parts: each row is a pickled part of the table that changes."""

_FILE_BITS: Final = 32
"""Bits of a file's number in its part; the bits above are the number of the part."""


@dataclass(frozen=True)
class DealtTable:
    """A table whose rows are dealt: by the expression ``key``, or by parts if it is None.

    ``top`` is a query for the places of the only rows of a batch that are needed. None: all are.
    """

    name: str
    schema: pa.Schema
    key: str | None
    top: str | None = None


@dataclass(frozen=True)
class TablePart:
    """A part of the table ``table``; ``number`` counts the parts of all tables."""

    number: int
    table: int
    rows: RowPart


@dataclass(frozen=True)
class Dealing:
    """Deals to ``shares`` groups of ``groups``; parts of the table that changes go to groups of their own numbers."""

    tables: Mapping[int, DealtTable]
    shares: int
    groups: int

    def deal(self, part: TablePart) -> Iterator[Dealt]:
        """Yields the rows of ``part``, labelled, each with its group. Raises the errors of reading it."""
        if isinstance(part.rows, AddressedFiles):
            group = part.number % self.groups
            yield group, labelled(packed_part(part.number, part.rows), PARTS, group, Place(part.number, 0))
        table = self.tables[part.table]
        if self.shares == 1 and part.number == 0:  # the query runs even if there are no rows
            yield 0, labelled(pa.RecordBatch.from_pylist([], table.schema), part.table, 0, Place(0, -1))
        with Duck(threads=1) as duck:
            read = _Reading(duck, table, self.shares)
            for minor, batch in enumerate(in_schema(part.rows, table.schema)):
                for group, rows in read.dealt(batch, part.number):
                    if FILE in rows.schema.names:
                        rows = _with_part(rows, part.number)  # noqa: PLW2901 - the rows as they travel
                    yield group, labelled(rows, part.table, group, Place(part.number, minor))


@dataclass(frozen=True)
class LowerHalf:
    """The lower half of a query that is cut in two: its rows are dealt as those of the table of the upper half."""

    query: DividedQuery
    table: DealtTable
    groups: int

    def of_part(self, part: TablePart) -> Iterator[Dealt]:
        """Yields the rows for a part of the only divided table that it has rows of."""
        return self._dealt(self.query.rows({part.table: part.rows}), part.number)

    def of_group(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Dealt]:
        """Yields the rows for the dealt rows of a group."""
        first = next(batches, None)
        if first is not None:
            yield from self._dealt(rows_of_group(self.query, chain([first], batches)), group_of(first))

    def _dealt(self, rows: Iterator[pa.RecordBatch], major: int) -> Iterator[Dealt]:
        with Duck(threads=1) as duck:
            read = _Reading(duck, self.table, self.groups)
            for minor, batch in enumerate(rows):
                for group, own in read.dealt(batch, major):
                    yield group, labelled(own, 0, group, Place(major, minor))


class _Reading:
    """Computes the groups of one batch after another."""

    def __init__(self, duck: Duck, table: DealtTable, shares: int) -> None:
        self._duck = duck
        self._table = table
        self._shares = shares
        self._batch = table.schema.empty_table().to_batches()
        columns = table.schema
        if table.top is not None:
            columns = columns.append(pa.field(PLACE, pa.int64()))
        self._name = duck.add(table.name, columns, lambda: iter(self._batch))

    def dealt(self, batch: pa.RecordBatch, part: int) -> Iterator[Dealt]:
        """Yields the rows of ``batch`` by group."""
        if self._table.top is not None:
            self._batch = [batch.append_column(PLACE, pa.array(range(batch.num_rows), pa.int64()))]
            places = self._column(self._table.top)
            batch = batch.take(pa.array(np.sort(places), pa.int64()))
        if self._table.key is None or self._shares == 1:
            yield part % self._shares, batch
            return
        self._batch = [batch]
        query = f"FROM {self._name} SELECT hash({self._table.key}) % {self._shares}"
        yield from by_group(batch, self._column(query).astype(np.int64))

    def _column(self, query: str) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        found = [batch.column(0).to_numpy(zero_copy_only=False) for batch in self._duck.stream(query)]
        return np.concatenate(found) if found else np.empty(0, dtype=np.uint64)


def _with_part(rows: pa.RecordBatch, part: int) -> pa.RecordBatch:
    place = rows.schema.get_field_index(FILE)
    numbers = pc.bit_wise_or(rows.column(place), pa.scalar(part << _FILE_BITS, pa.int64()))
    return rows.set_column(place, rows.schema.field(place), numbers)


def parts_of(rows: pa.RecordBatch | pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Returns the number of the part that each of the dealt ``rows`` is in."""
    return rows.column(FILE).to_numpy() >> _FILE_BITS


def by_part(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yields the dealt ``rows`` of each part, with the numbers of files that they have in the part."""
    place = rows.schema.get_field_index(FILE)
    own = pa.array(rows.column(FILE).to_numpy() & ((1 << _FILE_BITS) - 1), pa.int64())
    numbers = parts_of(rows)
    rows = rows.set_column(place, rows.schema.field(place), own)
    for number in np.unique(numbers):
        yield int(number), rows.filter(pa.array(numbers == number))
