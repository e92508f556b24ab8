"""The tables and views that a query names: found in its tree, apart from common table expressions, with full names.

A name of three parts or more is ``plugin.workspace.name``. A name of two parts is ``workspace.name`` in the plugin of
the schema path. A name of one part is in the schema path itself. The schema path of a view is the view's own place,
unless the definition sets another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from metastore.errors import InvalidRequestError
from metastore.model.identity import TableInfo
from metastore.sql.views.text import ctes_seen_from, place_of


def references(query: exp.Expr) -> Iterator[exp.Table]:
    """Returns every place where ``query`` reads a table or a view, in no particular order.

    Raises InvalidRequestError, with its place, for a table function and for a read of another version.
    """
    for table in query.find_all(exp.Table):
        if not table.db and table.name.lower() in set(ctes_seen_from(table)):
            continue
        if not isinstance(table.this, (exp.Identifier, exp.Dot)):
            raise InvalidRequestError(
                f"{place_of(table)}{table.sql()} is no table of the metastore; a view reads tables and views"
            )
        if table.args.get("version") or table.args.get("when"):
            raise InvalidRequestError(
                f"{place_of(table)}a view always reads the newest version of {table.name}; choose a version "
                f"in the query around the view"
            )
        yield table


def drop_table_paths(query: exp.Expr) -> None:
    """Shorten columns spelled ``plugin.workspace.table.column`` to ``table.column``, by which the query knows them.

    A field of a struct, which only looks like a path, stays.
    """
    read = {tuple(part.name.lower() for part in table.parts) for table in references(query)}
    for column in query.find_all(exp.Column):
        path = tuple(part.name.lower() for part in column.parts[:-1])
        if len(path) > 1 and any(parts[-len(path) :] == path for parts in read):
            column.set("db", None)
            column.set("catalog", None)


def info_of(table: exp.Table, schema_path: Sequence[str] = ()) -> TableInfo:
    """Returns the full name of ``table`` under ``schema_path``. Raises InvalidRequestError if the path is too short."""
    parts = [part.name for part in table.parts]
    missing = 3 - len(parts)
    if missing > len(schema_path):
        raise InvalidRequestError(
            f"{place_of(table)}{'.'.join(parts)} has no storage plugin and workspace; name it plugin.workspace.table"
        )
    if missing > 0:
        parts = [*schema_path[:missing], *parts]
    return TableInfo(parts[0], parts[1], ".".join(parts[2:]))


def table_named(info: TableInfo) -> exp.Table:
    """Returns a reference by full name, with every part quoted."""
    plugin, workspace, name = (
        exp.to_identifier(part, quoted=True) for part in (info.storage_plugin, info.workspace, info.name)
    )
    return exp.Table(this=name, db=workspace, catalog=plugin)


def replace_table(table: exp.Table, by: exp.Table | exp.Subquery) -> None:
    """Replace ``table`` in its query: what it was joined, sampled and called by stays."""
    for key, value in table.args.items():
        if key not in ("this", "db", "catalog"):
            by.set(key, value)
    if not table.alias:
        by.set("alias", exp.TableAlias(this=table.parts[-1].copy()))
    table.replace(by)
