"""Cuts a SELECT in two: the rows below its operators that compare rows, and these operators over the rows.

Place in the flow: keys of a query may not be traced to its tables, for example of GROUP BY over a join by another key.
Then the rows of FROM and WHERE are computed first, and dealt by the keys of the operators above. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from metastore.duck.name_scope import BOUND, Scope, Untraced, name_of
from metastore.duck.query_tables import QueryTables, WithNames
from metastore.duck.syntax import Node, identity

UPPER_TABLE: Final = "rows"
"""The name of the table that the upper query reads."""

_ABOVE: Final = ("select_list", "group_expressions", "having", "qualify", "modifiers")
_NOT_BELOW: Final[dict[str, Any]] = {
    "group_expressions": [],
    "group_sets": [],
    "having": None,
    "qualify": None,
    "modifiers": [],
    "aggregate_handling": "STANDARD_HANDLING",
}


@dataclass(frozen=True)
class CutQuery:
    """``lower`` returns the columns ``names``; ``upper`` reads them from its only table."""

    lower: Node
    upper: Node
    names: Sequence[str]


def cut_query(query: Node, tables: QueryTables, source: Node) -> CutQuery:
    """Returns ``query`` in two; ``source`` is a FROM with the table of the upper query, and no other.

    Raises Untraced if a name may mean several things, and for what is not a SELECT with operators over FROM.
    """
    if query["type"] != "SELECT_NODE" or any(each["type"].startswith("LIMIT") for each in query["modifiers"]):
        raise Untraced("it is no SELECT that can be cut")
    scope = tables.scope(query, WithNames().inside(query))
    columns = _Columns(scope)
    changed = {part: columns.replaced(query.get(part)) for part in _ABOVE if part != "select_list"}
    items = [each for item in query["select_list"] for each in scope.columns_of(item)]
    changed["select_list"] = [
        {**columns.replaced(each), "alias": each.get("alias") or name_of(each) or ""} for each in items
    ]
    if not columns.used:
        raise Untraced("it reads no column")
    below = [{**reference, "alias": name} for name, reference in columns.used.values()]
    names = [name for name, _ in columns.used.values()]
    upper = {**query, **changed, "from_table": source, "where_clause": None, "cte_map": {"map": []}}
    return CutQuery({**query, **_NOT_BELOW, "select_list": below}, upper, names)


@dataclass
class _Columns:
    """The columns of FROM that are used above it: their names there, and references to them, by identity."""

    scope: Scope
    used: dict[str, tuple[str, Node]] = field(default_factory=dict)

    def replaced(self, node: Any) -> Any:
        """Returns ``node`` with columns of the upper table in place of those of FROM."""
        if isinstance(node, list):
            return [self.replaced(each) for each in node]
        if not isinstance(node, dict):
            return node
        kind = node.get("class")
        if kind in ("SUBQUERY", "LAMBDA", "STAR", "PARAMETER"):
            raise Untraced(f"{kind} above the cut")
        if kind == BOUND:
            return self._column(node, node["alias"])
        if kind == "COLUMN_REF":
            return self._reference(node)
        return {key: self.replaced(value) for key, value in node.items()}

    def _reference(self, node: Node) -> Node:
        names = [str(each) for each in node["column_names"]]
        found = list(self.scope.of_tables(names))
        alias = self.scope.aliases.get(names[0].lower()) if len(names) == 1 else None
        if not found and alias is not None:
            return node
        if len(found) != 1 or (alias is not None and identity(alias) != identity(node)):
            raise Untraced(f"{'.'.join(names)} has several meanings")
        return self._column(found[0], node.get("alias") or "")

    def _column(self, bound: Node, alias: str) -> Node:
        item = self.scope.items[bound["item"]]
        name = item.columns[bound["column"]]
        place = [item.alias, name or ""] if item.alias else [name or ""]
        if name is None or len(list(self.scope.of_tables(place))) != 1:
            raise Untraced("a column without a name above the cut")
        whole = {**bound, "rest": [], "alias": ""}
        taken = {own for own, _ in self.used.values()}
        own = name if name not in taken else f"{name}_{len(taken)}"
        reference = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "column_names": place}
        own, _ = self.used.setdefault(identity(whole), (own, reference))
        return {**reference, "alias": alias, "column_names": [UPPER_TABLE, own, *bound["rest"]]}
