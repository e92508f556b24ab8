"""A bound query, with the columns that it uses in addition to the listed columns of its tables.

Place in the flow: definitions, refreshes and Spark bind queries here. So ``$path`` and similar columns exist in every
query that reads a table, through SQL, Spark and views.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from metastore.model.identity import TableInfo
from metastore.model.tuple_schema import TupleSchema
from metastore.sql.views.binding import ResolvedQuery, bind
from metastore.sql.views.names import NameKind, Names
from metastore.sql.views.text import DEFAULT_DIALECT
from metastore.sql.views.unlisted_columns import UnlistedColumns


@dataclass(frozen=True)
class BoundQuery:
    """The query ``bound``.

    ``schemas`` are the columns of its tables by key, with the columns of ``unlisted`` at their ends.
    """

    bound: ResolvedQuery
    schemas: Mapping[str, TupleSchema]
    unlisted: Mapping[TableInfo, Sequence[str]]


def bind_query(
    query: exp.Query,
    names: Names,
    *,
    dialect: str = DEFAULT_DIALECT,
    schema_path: Sequence[str] = (),
    is_view: bool = True,
) -> BoundQuery:
    """Bind ``query``, which does not change. Raises as :func:`metastore.sql.views.binding.bind`."""

    def of_table(info: TableInfo) -> TupleSchema | None:
        found = names.find(info)
        return None if found is None or found.kind is not NameKind.TABLE else found.schema

    tree = query.copy()
    unlisted = UnlistedColumns.of(tree, of_table, schema_path)

    def schema_of(info: TableInfo) -> TupleSchema:
        return unlisted.added_to(names.schema(info), info)

    bound = bind(tree, schema_of, dialect=dialect, schema_path=schema_path, is_view=is_view)
    return BoundQuery(bound, {key: schema_of(table) for key, table in bound.tables.items()}, unlisted.names)
