"""The conditions of a query on the tables behind a view: from the view's WHERE, and from the query's own.

Place in the flow: DuckDB runs a view's query in DuckDB's SQL, which is translated for running and not for pruning. So
the tables of the view are pruned by the view's text, in Spark's dialect, and by the query's conditions on the view, in
DuckDB's dialect. This module reads names in the metastore, and has no other input or output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from sqlglot import exp

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.model.identity import TableInfo
from metastore.model.tuple_schema import TupleSchema
from metastore.predicates.condition import DUCKDB, SPARK, AllOf, Condition
from metastore.predicates.where_clause import where_of
from metastore.scan.pruning.row_id import ROW_ID
from metastore.sql.queries.push_down import AskedRows
from metastore.sql.queries.query_text import QueryText, Reference
from metastore.sql.views.bound_query import BoundQuery, bind_query
from metastore.sql.views.names import Names
from metastore.sql.views.push_down import asked_of_tables

_OUTER: Final = "of the query around the view"
_NAME: Final = "metastore_view"

_STAYS: Final = "it filters a view that groups, limits or computes, or that reads the table in several places"

_OF_BOTH: Final = (exp.Column, exp.Dot, exp.Identifier, exp.Paren, exp.And, exp.Or, exp.Not)
"""Expressions that mean the same in both dialects."""


@dataclass(frozen=True)
class Through:
    """The condition that a view's tables must satisfy, by table; none for a table that is read in several places.

    ``asks`` says whether the query around the view has a condition; ``reached`` are the tables to which it applies.
    """

    conditions: Mapping[TableInfo, AllOf] = field(default_factory=dict)
    asks: bool = False
    reached: Collection[TableInfo] = ()

    def of(self, table: TableInfo, request: AskedRows) -> AskedRows:
        """Returns ``request``, the rows of ``table`` for DuckDB's text, with these conditions in place of its own."""
        why = _STAYS if self.asks and table not in self.reached else request.why_all
        return replace(request, condition=self.conditions.get(table, request.condition), why_all=why)


def asked_through(query: QueryText, reference: Reference, view: exp.Query, names: Names) -> Through:
    """Returns the conditions of ``query``, which reads ``view`` at ``reference``, on the tables of the view.

    ``view`` is expanded, in Spark's dialect.
    """
    outer = exp.select("*").from_(exp.Subquery(this=view.copy(), alias=exp.TableAlias(this=exp.to_identifier(_NAME))))
    try:
        found = bind_query(outer, names, is_view=False)
        parts = _of_view(query, reference, {column.name.lower() for column in found.bound.columns})
        if parts:
            found = bind_query(outer.where(*parts), names, is_view=False)
    except (InvalidRequestError, NotFoundError):  # the code that runs the view reports its errors
        return Through()
    return _conditions_through(found, asks=isinstance(where_of(query.tree, reference.node), Condition))


def _of_view(query: QueryText, reference: Reference, known_names: Collection[str]) -> list[exp.Expr]:
    """Returns the parts of the query's WHERE that use only the view's columns, ``known_names`` in lower case."""
    where = where_of(query.tree, reference.node)
    if not isinstance(where, Condition):
        return []
    tree = where.tree.unnest()
    parts = []
    for part in tree.flatten() if isinstance(tree, exp.And) else (tree,):
        copied = part.copy()
        columns = list(copied.find_all(exp.Column))
        paths = [where.path_of(column) for column in columns]
        if not columns or any(len(path) != 1 or path[0].lower() not in known_names for path in paths):
            continue
        if copied.find(exp.Query, exp.Dot) is not None:
            continue
        for column, [name] in zip(columns, paths, strict=True):
            renamed = exp.column(exp.to_identifier(name, quoted=True), table=_NAME)
            copied = renamed if copied is column else copied
            column.replace(renamed)
        for node in copied.walk():
            node.meta[_OUTER] = True
        parts.append(copied)
    return parts


def _conditions_through(bound_query: BoundQuery, *, asks: bool) -> Through:
    times = Counter(bound_query.bound.tables.values())
    # Row ids choose row groups; no statistics exist for them.
    judged = {
        key: TupleSchema(tuple(column for column in schema.columns if column.name != ROW_ID))
        for key, schema in bound_query.schemas.items()
    }
    conditions, reached = {}, set()
    for key, parts in asked_of_tables(bound_query.bound, judged).items():
        table = bound_query.bound.tables[key]
        asked = tuple(condition for part in parts if (condition := _condition(part)) is not None)
        if asked and times[table] == 1:
            conditions[table] = AllOf(asked)
            reached |= {table for condition in asked if condition.dialect is DUCKDB or not asks}
    return Through(conditions, asks, reached)


def _condition(part: exp.Expr) -> Condition | None:
    """Returns a part in its dialect; None if it mixes the view's expressions with those of the query around it."""
    marks = {bool(node.meta.get(_OUTER)) for node in part.walk() if not isinstance(node, _OF_BOTH)}
    if len(marks) > 1:
        return None
    dialect = DUCKDB if marks == {True} else SPARK
    return Condition(part, dialect.text_of(part), dialect)
