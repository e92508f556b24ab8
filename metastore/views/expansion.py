"""Views in a query -> the subqueries they stand for, down to tables alone.

The door for those who run SQL: :func:`expand` takes a query and a lookup, and gives a query that any engine can run
which knows the tables. Every table is named in full and in quotes then, so that no name of the outer query can capture
one of a view. Views may be written in another dialect than the query. What a view of stored rows is replaced by is the
lookup's business: a query over the table that holds them, or the view's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from sqlglot import exp

from metastore.errors import InvalidRequestError
from metastore.model.identity import TableInfo
from metastore.views.references import drop_table_paths, info_of, references, table_named
from metastore.views.text import DEFAULT_DIALECT, parse_query, place_of


@dataclass(frozen=True)
class ViewText:
    """What a view stands for: a query, its dialect, and where names in it without plugin or workspace are.

    ``pins`` are the columns that it reads of tables and views that have others now.
    """

    sql: str
    dialect: str = DEFAULT_DIALECT
    schema_path: Sequence[str] = ()
    pins: Mapping[TableInfo, Sequence[str]] = field(default_factory=dict)


Lookup = Callable[[TableInfo], ViewText | None]
"""What the view of a name stands for; None for what is no view, which stays as it is."""


def expand(
    query: str | exp.Query,
    lookup: Lookup,
    *,
    dialect: str = DEFAULT_DIALECT,
    schema_path: Sequence[str] = (),
    pins: Mapping[TableInfo, Sequence[str]] | None = None,
) -> exp.Query:
    """``query`` (a text of ``dialect``, or a tree, which is not changed) with every view replaced by a subquery.

    All remaining tables are named ``plugin.workspace.name`` in quotes; those of one or two parts are completed by
    ``schema_path``. What ``pins`` name is read through a projection to these columns. Raises InvalidRequestError, with
    line and column, for SQL that cannot be read, for a name that is too short, and for views that lead back to
    themselves.
    """
    tree = parse_query(query, dialect) if isinstance(query, str) else query.copy()
    return _expanded(tree, lookup, schema_path, (), pins=pins or {})


def tables_of(expanded: exp.Query) -> list[TableInfo]:
    """The tables that an expanded query reads, each once, sorted."""
    return sorted({info_of(table) for table in references(expanded)})


def _expanded(
    query: exp.Query,
    lookup: Lookup,
    path: Sequence[str],
    above: tuple[TableInfo, ...],
    place: str = "",
    pins: Mapping[TableInfo, Sequence[str]] = MappingProxyType({}),
) -> exp.Query:
    """``above`` are the views that this query stands within; ``place`` is where the caller's own text led to them."""
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
                this=_expanded(body, lookup, view.schema_path, (*above, info), place or place_of(table), view.pins)
            )
        if info in pins:
            replacement = _projected(replacement, pins[info])
        for key, value in table.args.items():
            if key not in ("this", "db", "catalog"):
                replacement.set(key, value)
        if not table.alias:
            last = table.parts[-1].copy()
            replacement.set("alias", exp.TableAlias(this=last, columns=None))
        table.replace(replacement)
    return query


def _projected(source: exp.Table | exp.Subquery, columns: Sequence[str]) -> exp.Subquery:
    """``source`` read by these columns alone, in this order."""
    source.set("alias", exp.TableAlias(this=exp.to_identifier("pinned")))
    items = [exp.column(exp.to_identifier(name, quoted=True)) for name in columns]
    return exp.Subquery(this=exp.select(*items).from_(source))
