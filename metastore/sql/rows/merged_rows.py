"""The pairs of rows that MERGE found, as changes of the table: each clause's deletes, updates and new rows.

Place in the flow: MERGE joins its source with the table by one query (:mod:`metastore.sql.rows.merge`). The rows of the
query come here, on this machine or in a task: the address, the number of the clause, and the values of each clause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from sqlglot import Token

from metastore.errors import InvalidRequestError
from metastore.lake.writes.conforming import conform_columns, conformed_column, default_column, require_zones
from metastore.lake.writes.fields_by_name import order_fields, type_by_name
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.row_changes import FILE, ROW, RowChanges, Update
from metastore.lake.writes.written_change import RowPlan
from metastore.sql.queries.default_keyword import is_default
from metastore.sql.rows.merge_clauses import MergeClause
from metastore.sql.statement import Statement

_ADDRESS: Final[dict[str, pa.DataType]] = {FILE: pa.int64(), ROW: pa.int64()}


@dataclass(frozen=True)
class MergedRows:
    """Turns pairs of rows into a plan. ``places`` are the columns that each clause gives values to; ``on`` for errors.

    ``job`` is about the table, whose columns are ``schema``. Only new values need that its columns can be written.
    """

    statement: Statement
    clauses: Sequence[MergeClause]
    places: Sequence[Sequence[int]]
    schema: Schema
    job: RewriteJob
    on: Token

    def require_zones(self, columns: pa.Schema) -> None:
        """Raises InvalidRequestError if Spark's rows with ``columns`` have times without the zone that is stored."""
        first = 3
        for clause, own in zip(self.clauses, self.places, strict=True):
            with self.statement.at(clause.token):
                for at, place in enumerate(own, first):
                    target = self.job.arrow_schema.field(place).type
                    require_zones(self.schema.fields[place], target, type_by_name(columns.field(at).type, target))
            first += len(own)

    def plan(self, rows: pa.Table) -> RowPlan:
        """Returns the change.

        Raises InvalidRequestError for a row that is changed twice, and for a value that does not fit.
        """
        action: Any = rows.column(2)
        first = 3
        deleted: list[pa.Table] = []
        updates: list[Update] = []
        inserted: list[pa.Table] = []
        for number, (clause, own) in enumerate(zip(self.clauses, self.places, strict=True)):
            found = rows.filter(pc.equal(action, pa.scalar(number)))
            columns = [self._values(clause, at, place, found.column(first + at)) for at, place in enumerate(own)]
            first += len(own)
            with self.statement.at(clause.token):
                if clause.action == "insert":
                    given = {self.schema.fields[place].name: values for place, values in zip(own, columns, strict=True)}
                    inserted.append(conform_columns(given, self.schema, self.job.arrow_schema, found.num_rows))
                    continue
                addresses = found.select([0, 1]).rename_columns([FILE, ROW])
                if clause.action == "delete":
                    deleted.append(addresses)
                    continue
                new = {
                    place: conformed_column(self.schema.fields[place], self.job.arrow_schema.field(place), values)
                    for place, values in zip(own, columns, strict=True)
                }
                updates.append(Update(addresses, new))
        going = without_doubles(pa.concat_tables([pa.schema(_ADDRESS).empty_table(), *deleted]))
        self._require_once([going, *(update.addresses for update in updates)])
        added = pa.concat_tables(inserted) if inserted else None
        counts = {
            "inserted": added.num_rows if added is not None else 0,
            "updated": sum(update.addresses.num_rows for update in updates),
            "deleted": going.num_rows,
        }
        return RowPlan(
            added.to_batches() if added is not None and added.num_rows else None,
            RowChanges(going, updates),
            counts=counts,
        )

    def _values(self, clause: MergeClause, at: int, place: int, found: Any) -> Any:
        """Returns the values of a clause for the column at ``place``: those ``found``, or its write default.

        Fields of structs go to those of the same name, as in Spark and DuckDB.
        """
        target = self.job.arrow_schema.field(place)
        if clause.takes_all or not is_default(clause.values[at]):
            return order_fields(found, target.type)
        return default_column(self.schema.fields[place], target, len(found))

    def _require_once(self, addresses: list[pa.Table]) -> None:
        with self.statement.at(self.on):
            require_once(self.job.name, pa.concat_tables(addresses))


def require_once(table: str, addresses: pa.Table) -> None:
    """Raises InvalidRequestError if an address is there twice."""
    if without_doubles(addresses).num_rows < addresses.num_rows:
        raise InvalidRequestError(
            f"several rows of the source change one row of {table}, so the result is undefined. Reduce the source to "
            "one row for each, for example by GROUP BY"
        )


def without_doubles(addresses: pa.Table) -> pa.Table:
    """Returns each address once."""
    if not addresses.num_rows:
        return addresses
    pairs: Any = np.stack([addresses.column(FILE).to_numpy(), addresses.column(ROW).to_numpy()])
    once = np.unique(pairs, axis=1)
    return pa.table({FILE: pa.array(once[0], pa.int64()), ROW: pa.array(once[1], pa.int64())})
