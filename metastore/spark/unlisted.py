"""Columns that a query in Spark has to name: ``$row_id``, and what the file of a row says.

Place in the flow: ``select`` gives these columns to the tables that the query means them of, before the query is bound.
Stars are told to leave them out, and the ids of ``WHERE `$row_id` IN (…)`` choose the row groups that are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from metastore.model.identity import TableInfo
from metastore.model.tuple_schema import TIME_ZONE, SchemaColumn, TupleSchema
from metastore.predicates.condition import Condition
from metastore.pruning.file_columns import MODIFIED
from metastore.pruning.row_id import ROW_ID
from metastore.sql.unlisted import UNLISTED, meant_of, row_ids_in, stars_over
from metastore.views.binding import Bound
from metastore.views.push_down import conditions
from metastore.views.references import info_of, references

_TYPES: Final = {ROW_ID: "VARBINARY", MODIFIED: "TIMESTAMP"}
_ROW_ID_ALONE: Final = TupleSchema((SchemaColumn(ROW_ID, "VARBINARY"),))


@dataclass(frozen=True)
class Unlisted:
    """The columns that a query means beside those of its tables, by table."""

    names: Mapping[TableInfo, Sequence[str]]

    @classmethod
    def of(cls, query: exp.Query, schema_of: Callable[[TableInfo], TupleSchema]) -> Unlisted:
        """Those of ``query``, whose views are expanded; its stars leave them out from here on."""
        if not any(column.name.lower() in UNLISTED for column in query.find_all(exp.Column)):
            return cls({})
        read = [(table, info_of(table)) for table in references(query)]
        names: dict[TableInfo, Sequence[str]] = {}
        for info in dict.fromkeys(info for _, info in read):
            meant = {name for table, of in read if of == info for name in meant_of(query, table)}
            own = {column.name.lower() for column in schema_of(info).columns} if meant else set()
            names[info] = [name for name in UNLISTED if name in meant and name not in own]
        for star, left_out in stars_over((table, names[info]) for table, info in read):
            star.set("except_", [*(star.args.get("except_") or ()), *(exp.column(name) for name in left_out)])
        return cls(names)

    def added_to(self, schema: TupleSchema, table: TableInfo) -> TupleSchema:
        """``schema`` of ``table`` with its columns of these."""
        more = [
            SchemaColumn(name, _TYPES.get(name, "VARCHAR"), properties={TIME_ZONE: "UTC"} if name == MODIFIED else {})
            for name in self.names.get(table, ())
        ]
        return TupleSchema((*schema.columns, *more), schema.properties) if more else schema

    def row_ids(self, bound: Bound) -> Mapping[str, Sequence[bytes]]:
        """The ids that the query asks of its tables, by their keys in ``bound``, where it names them as constants."""
        with_ids = {key for key, table in bound.tables.items() if ROW_ID in self.names.get(table, ())}
        asked = conditions(bound, dict.fromkeys(with_ids, _ROW_ID_ALONE)) if with_ids else {}
        found = {key: row_ids_in(Condition.of_spark(text)) for key, text in asked.items()}
        return {key: ids for key, ids in found.items() if ids is not None}
