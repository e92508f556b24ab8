"""What a query asks of the tables behind a view: by the WHERE of the view, and by its own. Pure but for names.

Place in the flow: DuckDB runs a view's query in its own words, which are made for it and not for pruning. So the tables
of the view are pruned by the view's text, in Spark's dialect, and by what the query asks of the view, in DuckDB's.
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
from metastore.pruning.row_id import ROW_ID
from metastore.sql.push_down import AskedRows
from metastore.sql.query_text import QueryText, Reference
from metastore.views.bound_query import BoundQuery, bind_query
from metastore.views.names import Names
from metastore.views.push_down import asked_of_tables

_OUTER: Final = "of the query around the view"
_NAME: Final = "metastore_view"

_STAYS: Final = "it is asked of a view that groups, limits or computes, or that reads the table in several places"

_OF_BOTH: Final = (exp.Column, exp.Dot, exp.Identifier, exp.Paren, exp.And, exp.Or, exp.Not)
"""What means the same in both dialects."""


@dataclass(frozen=True)
class Through:
    """What the rows of tables behind a view must satisfy, by table; none for one that is read in several places.

    ``asks`` says whether the query around the view has a condition; ``reached`` are the tables that it is asked of.
    """

    conditions: Mapping[TableInfo, AllOf] = field(default_factory=dict)
    asks: bool = False
    reached: Collection[TableInfo] = ()

    def of(self, table: TableInfo, asked: AskedRows) -> AskedRows:
        """What is ``asked`` of ``table`` by the text that DuckDB runs, by these conditions in place of its own."""
        why = _STAYS if self.asks and table not in self.reached else asked.why_all
        return replace(asked, condition=self.conditions.get(table, asked.condition), why_all=why)


def asked_through(query: QueryText, reference: Reference, view: exp.Query, names: Names) -> Through:
    """What ``query``, which reads ``view`` at ``reference``, asks of the tables of the view.

    ``view`` is expanded, in Spark's dialect.
    """
    outer = exp.select("*").from_(exp.Subquery(this=view.copy(), alias=exp.TableAlias(this=exp.to_identifier(_NAME))))
    try:
        found = bind_query(outer, names, is_view=False)
        parts = _of_view(query, reference, {column.name.lower() for column in found.bound.columns})
        if parts:
            found = bind_query(outer.where(*parts), names, is_view=False)
    except (InvalidRequestError, NotFoundError):  # who runs the view says what is wrong with it
        return Through()
    return _asked(found, asks=isinstance(where_of(query.tree, reference.node), Condition))


def _of_view(query: QueryText, reference: Reference, known: Collection[str]) -> list[exp.Expr]:
    """The parts of the query's WHERE that speak of the view's columns alone, ``known`` in lower case."""
    where = where_of(query.tree, reference.node)
    if not isinstance(where, Condition):
        return []
    tree = where.tree.unnest()
    parts = []
    for part in tree.flatten() if isinstance(tree, exp.And) else (tree,):
        said = part.copy()
        columns = list(said.find_all(exp.Column))
        paths = [where.path_of(column) for column in columns]
        if not columns or any(len(path) != 1 or path[0].lower() not in known for path in paths):
            continue
        if said.find(exp.Query, exp.Dot) is not None:
            continue
        for column, [name] in zip(columns, paths, strict=True):
            renamed = exp.column(exp.to_identifier(name, quoted=True), table=_NAME)
            said = renamed if said is column else said
            column.replace(renamed)
        for node in said.walk():
            node.meta[_OUTER] = True
        parts.append(said)
    return parts


def _asked(found: BoundQuery, *, asks: bool) -> Through:
    times = Counter(found.bound.tables.values())
    # Row ids choose row groups, and no statistics judge them.
    judged = {
        key: TupleSchema(tuple(column for column in schema.columns if column.name != ROW_ID))
        for key, schema in found.schemas.items()
    }
    conditions, reached = {}, set()
    for key, parts in asked_of_tables(found.bound, judged).items():
        table = found.bound.tables[key]
        told = tuple(condition for part in parts if (condition := _condition(part)) is not None)
        if told and times[table] == 1:
            conditions[table] = AllOf(told)
            reached |= {table for condition in told if condition.dialect is DUCKDB or not asks}
    return Through(conditions, asks, reached)


def _condition(part: exp.Expr) -> Condition | None:
    """A part in its dialect; None where what is of the view stands in what is of the query around it."""
    marks = {bool(node.meta.get(_OUTER)) for node in part.walk() if not isinstance(node, _OF_BOTH)}
    if len(marks) > 1:
        return None
    dialect = DUCKDB if marks == {True} else SPARK
    return Condition(part, dialect.text_of(part), dialect)
