"""Row lineage of format version 3: each row's id, and the sequence number of the commit that last changed it.

A row that moves to another file keeps both, as columns of the new file. A file without these columns, or with NULL in
them, has them from its entry: its first row's id plus the row's position, and the sequence number of the commit that
added the file. Rows of a file without a first row id have neither; the next commit after an upgrade gives them ids.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from metastore.errors import InvalidRequestError

ROW_ID: Final = NestedField(2147483540, "_row_id", LongType(), required=False)
LAST_UPDATED: Final = NestedField(2147483539, "_last_updated_sequence_number", LongType(), required=False)
LINEAGE_IDS: Final = frozenset({ROW_ID.field_id, LAST_UPDATED.field_id})
"""The columns' ids and names in data files, as the specification has them."""

VERSION_OF_LINEAGE: Final = 3
"""The first format version whose rows have lineage."""

POSITION: Final = "_pos"
"""A row's number in its data file, from 0, deleted rows counted: Spark's name for it."""

_compute: Any = pc
"""Arrow's functions, for arguments that the stubs do not accept."""


def with_lineage(schema: Schema) -> Schema:
    """Return ``schema`` with the two columns at the end. InvalidRequestError if it has a column of such a name."""
    own = [field for field in schema.fields if field.field_id not in LINEAGE_IDS]
    if taken := {ROW_ID.name, LAST_UPDATED.name} & {field.name for field in own}:
        raise InvalidRequestError(
            f"column {min(taken)} has a name that format version 3 reserves for row lineage; rename the column first"
        )
    return Schema(*own, ROW_ID, LAST_UPDATED, schema_id=schema.schema_id)


@dataclass(frozen=True)
class FileLineage:
    """Lineage of the rows of one data file, whose columns are ``held``, as its entry and its columns have it."""

    held: Schema
    first_row_id: int | None
    added_number: int

    @property
    def columns(self) -> list[str]:
        """The names of the file's own columns of lineage."""
        return [field.name for field in self.held.fields if field.field_id in LINEAGE_IDS]

    def added_to(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """Return the rows, from row ``first`` of the file on, with both columns at the end; they replace its own."""
        ids = numbers = None
        if self.first_row_id is not None:
            start = self.first_row_id + first
            ids = pa.array(np.arange(start, start + batch.num_rows, dtype=np.int64))
            numbers = pa.array(np.full(batch.num_rows, self.added_number, dtype=np.int64))
        made = [self._column(batch, ROW_ID, ids), self._column(batch, LAST_UPDATED, numbers)]
        kept = [name for name in batch.schema.names if name not in self.columns]
        return pa.RecordBatch.from_arrays(
            [*(batch.column(name) for name in kept), *made], names=[*kept, ROW_ID.name, LAST_UPDATED.name]
        )

    def _column(self, batch: pa.RecordBatch, field: NestedField, inherited: Any) -> Any:
        own = [each.name for each in self.held.fields if each.field_id == field.field_id]
        if not own:
            return _compute.cast(pa.nulls(batch.num_rows), pa.int64()) if inherited is None else inherited
        stored = batch.column(own[0])
        return stored if inherited is None else _compute.coalesce(stored, inherited)


def add_places(
    batches: Iterable[pa.RecordBatch], lineage: FileLineage, names: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a file with the columns ``names`` at the end: :data:`POSITION`, and those of lineage."""
    first = 0
    for batch in batches:
        wide = batch if set(names) == {POSITION} else lineage.added_to(batch, first)
        if POSITION in names:
            places = pa.array(np.arange(first, first + batch.num_rows, dtype=np.int64))
            wide = wide.append_column(POSITION, places)
        first += batch.num_rows
        yield wide
