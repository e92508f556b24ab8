"""A table or view of a query: its columns, and how to read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.schema import Schema

from metastore.sql.queries.narrowed_read import NarrowedRead
from metastore.sql.queries.push_down import AskedRows
from metastore.sql.queries.row_parts import RowsOnStore


@dataclass(frozen=True)
class Relation:
    """Something that a query can read.

    It has columns (``schema``), a function that reads some of them, and one that says which part is read. ``fits`` is
    its Iceberg schema, if any.
    """

    schema: pa.Schema
    read: Callable[[AskedRows], Iterator[pa.RecordBatch]]
    narrow: Callable[[AskedRows], NarrowedRead]
    fits: Schema | None = None
    unlisted: Sequence[str] = ()
    """Columns that ``*`` leaves out."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Columns of the table that cannot be read, each with the reason."""
    on_store: Callable[[AskedRows], RowsOnStore | None] = lambda _: None
    """Returns the rows in parts for tasks; None if they are in no files that tasks can read."""

    def batches(self, request: AskedRows) -> Iterator[pa.RecordBatch]:
        """Yields rows in exactly the types of the schema."""
        schema = self.part(request.columns)
        found = self.read(request)  # planned at once, in the caller's thread
        return (batch if batch.schema.equals(schema) else batch.cast(schema) for batch in found)

    def part(self, columns: Sequence[str]) -> pa.Schema:
        """Returns the schema of some columns."""
        return pa.schema([self.schema.field(name) for name in columns])
