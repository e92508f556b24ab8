"""DuckDB's own syntax tree of a query, as JSON, and the text of expressions in it.

Place in the flow: :mod:`metastore.duck.row_keys` reads the tree. Nodes of queries and of tables have a ``type``;
expressions have a ``class`` beside. DuckDB prints expressions again, so no text is put together by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

Node = Mapping[str, Any]
"""A part of a tree."""

_PLACES: Final = frozenset({"alias", "query_location", "query_location_length"})
"""What differs between equal expressions at two places."""


def tree_of(serialized: str) -> Node | None:
    """Returns the tree in the result of ``json_serialize_sql``; None if DuckDB does not show it."""
    content = json.loads(serialized)
    if content["error"] or len(content["statements"]) != 1:
        return None
    node: Node = content["statements"][0]["node"]
    return node


def selecting(expression: Node, template: str) -> str:
    """Returns what ``json_deserialize_sql`` prints as ``SELECT expression``; ``template`` is of another SELECT."""
    content = json.loads(template)
    content["statements"][0]["node"]["select_list"] = [expression]
    return json.dumps(content)


def of_query(query: Node, template: str) -> str:
    """Returns what ``json_deserialize_sql`` prints as ``query``; ``template`` is of another query."""
    content = json.loads(template)
    content["statements"][0]["node"] = query
    return json.dumps(content)


def below(node: Any) -> Iterator[Node]:
    """Yields ``node`` and every node in it; subqueries too."""
    if isinstance(node, dict):
        yield node
        for each in node.values():
            yield from below(each)
    elif isinstance(node, list):
        for each in node:
            yield from below(each)


def conjuncts(condition: Node | None) -> Iterator[Node]:
    """Yields the conditions that all have to be true where ``condition`` is."""
    if condition is None:
        return
    if condition.get("type") == "CONJUNCTION_AND":
        for each in condition["children"]:
            yield from conjuncts(each)
    else:
        yield condition


def without_places(node: Any) -> Any:
    """Returns ``node`` without its aliases and its places in the text."""
    if isinstance(node, dict):
        return {key: without_places(value) for key, value in node.items() if key not in _PLACES}
    return [without_places(each) for each in node] if isinstance(node, list) else node


def identity(expression: Node) -> str:
    """Returns a text that equal expressions have in common."""
    return json.dumps(without_places(expression), sort_keys=True)


def inner_query(node: Node) -> Node:
    """Returns the query of a table that is a subquery, or of an expression that has one."""
    found: Node = node["subquery"]["node"]
    return found


def set_operands(node: Node) -> Sequence[Node]:
    """Returns the queries that a set operation combines."""
    found: Sequence[Node] = node.get("children") or [node["left"], node["right"]]
    return found


def with_queries(node: Node) -> dict[str, Node]:
    """Returns the queries of the WITH of a query, by name in lower case."""
    entries = node["cte_map"]["map"]
    found: dict[str, Node] = {}
    for each in entries:
        value = each["value"]
        query = value.get("query_node") or value["query"]
        found[each["key"].lower()] = query.get("node", query)
    return found


def ordinal(expression: Node) -> int | None:
    """Returns the number that stands for an item of the select list, from 1; None for other expressions."""
    literal = expression.get("literal") or {}
    return int(literal["text"]) if literal.get("kind") == "INTEGER" else None
