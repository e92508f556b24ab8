"""The columns of a query as rows of a table: by position, with fixed values and write defaults for the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from metastore.errors import InvalidRequestError
from metastore.lake.writes.conforming import conform_columns, require_storable, require_zones
from metastore.lake.writes.fields_by_name import order_fields, type_by_name
from metastore.lake.writes.job import RewriteJob

VERSION_OF_NANOSECONDS: Final = 3
"""The first format version with times in nanoseconds."""


@dataclass(frozen=True)
class InsertValues:
    """Which columns of ``schema`` a query's columns are, by position, and the ``fixed`` value of others.

    ``place`` is where an error is in the statement, or empty. The columns are cast to the types ``stored`` before. Rows
    in ``defaulted``, by the query's column, have the write default. ``by_name``: fields of structs go to those of the
    same name, in any case.
    """

    schema: Schema
    places: Sequence[int]
    fixed: Mapping[int, Any]
    place: str
    stored: pa.Schema | None = None
    defaulted: Mapping[int, Sequence[int]] = field(default_factory=dict)
    by_name: bool = False

    def rows(self, job: RewriteJob, batch: pa.RecordBatch | pa.Table) -> pa.Table:
        """Returns the table's rows for rows of the query. Raises InvalidRequestError for a value that does not fit."""
        rows = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        if self.stored is not None:
            try:
                rows = rows.rename_columns(self.stored.names).cast(self.stored)
            except pa.ArrowInvalid as error:
                raise InvalidRequestError(
                    f"{error}: tables below format version {VERSION_OF_NANOSECONDS} have times in microseconds; write "
                    f"CAST(… AS TIMESTAMP), or give format_version = {VERSION_OF_NANOSECONDS}"
                ) from error
        given: dict[str, Any] = {}
        for at, place in enumerate(self.places):
            column, target = rows.column(at), job.arrow_schema.field(place).type
            given[self.schema.fields[place].name] = order_fields(column, target) if self.by_name else column
        first = np.zeros(rows.num_rows, dtype=np.int64)
        given.update({self.schema.fields[place].name: value.take(first) for place, value in self.fixed.items()})
        defaulted = {self.schema.fields[self.places[at]].name: own for at, own in self.defaulted.items()}
        try:
            return conform_columns(given, self.schema, job.arrow_schema, rows.num_rows, defaulted)
        except InvalidRequestError as error:
            raise InvalidRequestError(f"{self.place}: {error}" if self.place else str(error)) from error

    def require_storable(self, job: RewriteJob, columns: pa.Schema) -> None:
        """Raises InvalidRequestError if Spark's rows with ``columns`` have one that cannot be stored in its column."""
        for place, given in zip(self.places, columns if self.stored is None else self.stored, strict=True):
            target = job.arrow_schema.field(place).type
            own = type_by_name(given.type, target) if self.by_name else given.type
            require_storable(self.schema.fields[place], target, own)
            require_zones(self.schema.fields[place], target, own)
