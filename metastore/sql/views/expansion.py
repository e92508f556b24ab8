"""Replaces views in a query by the subqueries that define them, until only tables remain.

:func:`expand` takes a query and a lookup, and returns a query that any engine can run that knows the tables. Each table
then has its full, quoted name, so that no name of the outer query can capture a name of a view. Views may be in another
dialect than the query. The lookup decides what replaces a materialized view: a query over the table that holds its
rows, or its own query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlglot import exp

from metastore.errors import InvalidRequestError
from metastore.model.identity import TableInfo
from metastore.sql.views.references import drop_table_paths, info_of, references, replace_table, table_named
from metastore.sql.views.text import DEFAULT_DIALECT, parse_query, place_of


@dataclass(frozen=True)
class ViewText:
    """The definition of a view: a query, its dialect, and the schema path of its incomplete names.

    ``pins`` are the columns that it reads of tables and views whose columns have changed.
    """

    sql: str
    dialect: str = DEFAULT_DIALECT
    schema_path: Sequence[str] = ()
    pins: Mapping[TableInfo, Sequence[str]] = field(default_factory=dict)


Lookup = Callable[[TableInfo], ViewText | None]
"""Returns the view of a name; None for any other name, which stays as it is."""


def expand(
    query: str | exp.Query,
    lookup: Lookup,
    *,
    dialect: str = DEFAULT_DIALECT,
    schema_path: Sequence[str] = (),
    pins: Mapping[TableInfo, Sequence[str]] | None = None,
) -> exp.Query:
    """Returns ``query`` (a text of ``dialect``, or a tree, which does not change) with subqueries in place of views.

    All remaining tables have quoted names ``plugin.workspace.name``; ``schema_path`` completes names of one or two
    parts. Sources in ``pins`` are read through a projection to these columns. Raises InvalidRequestError, with line and
    column, for SQL that cannot be parsed, for a name that is too short, and for views that lead back to themselves.
    """
    tree = parse_query(query, dialect) if isinstance(query, str) else query.copy()
    return _expand_query(tree, lookup, schema_path, (), pins=pins or {})


def tables_of(expanded: exp.Query) -> list[TableInfo]:
    """Returns the tables that an expanded query reads, each once, sorted."""
    return sorted({info_of(table) for table in references(expanded)})


def _expand_query(
    query: exp.Query,
    lookup: Lookup,
    path: Sequence[str],
    above: tuple[TableInfo, ...],
    place: str = "",
    pins: Mapping[TableInfo, Sequence[str]] = MappingProxyType({}),
) -> exp.Query:
    """Expand one query.

    ``above`` are the views around this query; ``place`` is the place in the caller's text that led to them.
    """
    found = list(references(query))
    drop_table_paths(query)
    for table in found:
        info = info_of(table, path)
        view = lookup(info)
        if view is not None and info in above:
            way = " -> ".join(map(str, (*above[above.index(info) :], info)))
            raise InvalidRequestError(f"{place or place_of(table)}{info} reads itself: {way}")
        replacement: exp.Table | exp.Subquery
        if view is None:
            replacement = table_named(info)
        else:
            body = parse_query(view.sql, view.dialect)
            replacement = exp.Subquery(
                this=_expand_query(body, lookup, view.schema_path, (*above, info), place or place_of(table), view.pins)
            )
        if info in pins:
            replacement = _project(replacement, pins[info])
        replace_table(table, replacement)
    return query


def _project(source: exp.Table | exp.Subquery, columns: Sequence[str]) -> exp.Subquery:
    """Returns a query that reads only these columns of ``source``, in this order."""
    source.set("alias", exp.TableAlias(this=exp.to_identifier("pinned")))
    items = [exp.column(exp.to_identifier(name, quoted=True)) for name in columns]
    return exp.Subquery(this=exp.select(*items).from_(source))
