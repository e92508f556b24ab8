"""The tables that a query names: their columns, the queries of WITH and of views, and which of them are divided.

Place in the flow: :mod:`metastore.duck.row_keys` goes down DuckDB's syntax tree, and asks here what a table in FROM is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from metastore.duck.name_scope import FromItem, Scope, Untraced, name_of, told_apart
from metastore.duck.syntax import Node, below, inner_query, set_operands, with_queries


@dataclass(frozen=True)
class WithNames:
    """The queries of WITH by their names, each with the names that it sees itself."""

    queries: Mapping[str, tuple[Node, WithNames]] = field(default_factory=dict)

    def inside(self, node: Node) -> WithNames:
        """Returns the names that are seen inside the query ``node``."""
        found = self
        for name, query in with_queries(node).items():
            found = WithNames({**found.queries, name: (query, found)})
        return found


@dataclass(frozen=True)
class QueryTables:
    """``columns`` are those of the tables, ``views`` the queries of views, both by DuckDB's schema.

    ``divided`` are the tables whose rows are dealt; all others are complete in every share. ``aggregates`` are the
    functions that may be of several rows.
    """

    columns: Mapping[str, Sequence[str]]
    views: Mapping[str, Node]
    divided: frozenset[str]
    aggregates: frozenset[str]

    def scope(self, node: Node, names: WithNames) -> Scope:
        """Returns what the names in the SELECT ``node`` mean."""
        items: list[FromItem] = []
        merged: dict[str, int] = {}

        def add(source: Node) -> None:
            if source["type"] != "JOIN":
                items.append(self._item(source, names))
                return
            first = len(items)
            add(source["left"])
            middle = len(items)
            add(source["right"])
            for each in source.get("using_columns") or ():
                sides = {"RIGHT": range(middle, len(items)), "FULL": range(0)}
                side = sides.get(source["join_type"], range(first, middle))
                having = [number for number in side if each.lower() in items[number].columns]
                merged.setdefault(each.lower(), having[0] if having else -1)

        add(node["from_table"])
        named = [(name_of(each), each) for each in node["select_list"] if each["class"] != "STAR"]
        aliases = {name: each for name, each in named if name is not None}
        return Scope(items, merged, aliases, self.aggregates)

    def _item(self, source: Node, names: WithNames) -> FromItem:
        columns: list[str | None] = []
        query = self.query_of(source, names)
        if query is not None:
            columns = list(self.outputs(*query))
        elif source["type"] == "BASE_TABLE":
            columns = [each.lower() for each in self.columns.get(source["schema_name"], ())]
        given = [str(each).lower() for each in source.get("column_name_alias") or ()]
        columns = told_apart([*given, *columns[len(given) :]])
        return FromItem((source.get("alias") or source.get("table_name") or "").lower(), columns, source)

    def query_of(self, source: Node, names: WithNames) -> tuple[Node, WithNames] | None:
        """Returns the query that a table in FROM is, with the names that it sees; None if it is none."""
        if source["type"] == "SUBQUERY":
            return inner_query(source), names
        if source["type"] != "BASE_TABLE":
            return None
        if not source["schema_name"]:
            return names.queries.get(source["table_name"].lower())
        view = self.views.get(source["schema_name"])
        return None if view is None else (view, WithNames())

    def outputs(self, node: Node, names: WithNames) -> Sequence[str | None]:
        """Returns the names of a query's columns; none if they are not known."""
        names = names.inside(node)
        if node["type"] == "SET_OPERATION_NODE" and node["setop_type"] != "UNION_BY_NAME":
            return self.outputs(set_operands(node)[0], names)
        if node["type"] != "SELECT_NODE":
            return ()
        try:
            return [name_of(each) for each in select_list(node, self.scope(node, names))]
        except Untraced:
            return ()

    def is_divided(self, node: Any, names: WithNames) -> bool:
        """Returns whether ``node`` reads a divided table."""
        for each in below(node):
            if each.get("type") != "BASE_TABLE":
                continue
            if each["schema_name"] in self.divided:
                return True
            query = self.query_of(each, names)
            if query is not None and self.is_divided(*query):
                return True
        return False


def select_list(node: Node, scope: Scope) -> list[Node]:
    """Returns the items of a select list; the columns of a star are bound."""
    return [column for each in node["select_list"] for column in scope.columns_of(each)]
