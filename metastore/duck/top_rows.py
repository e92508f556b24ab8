"""ORDER BY with LIMIT over one table: which of its rows can be among the first ones. Pure.

Place in the flow: the rows of a query with LIMIT meet in one task. Each task that reads the table sends the first rows
of what it has, and no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from metastore.duck.name_scope import name_of
from metastore.duck.syntax import Node, below, ordinal

ALONE: Final = "_1"
"""The schema of the table where it is registered alone."""


def top_rows(query: Node, schema: str, place: str, aggregates: frozenset[str]) -> Node | None:
    """Returns ``query`` with the column ``place`` of the table in ``schema`` as its only one, and without OFFSET.

    The rows that the query needs are among its rows. None if the query is not a SELECT with LIMIT over the table alone.
    ``aggregates`` are the functions that may be of several rows.
    """
    modifiers = {each["type"]: each for each in query["modifiers"]}
    limit = modifiers.pop("LIMIT_MODIFIER", None)
    order = modifiers.pop("ORDER_MODIFIER", None)
    if query["type"] != "SELECT_NODE" or limit is None or modifiers or _compares(query, aggregates):
        return None
    source = query["from_table"]
    if source["type"] != "BASE_TABLE" or source["schema_name"] != schema or source.get("sample"):
        return None
    limits = [each for each in (limit.get("limit"), limit.get("offset")) if each is not None]
    counts = [ordinal(each) for each in limits]
    if limit.get("limit") is None or limit.get("limit_type", "ROW_COUNT") != "ROW_COUNT" or None in counts:
        return None
    total = sum(each for each in counts if each is not None)
    first = {**limits[0], "literal": {"kind": "INTEGER", "text": str(total)}}
    changed = [{**limit, "limit": first, "offset": None}]
    if order is not None:
        keys = [_meant(each["expression"], query["select_list"]) for each in order["orders"]]
        if None in keys:
            return None
        orders = [{**each, "expression": key} for each, key in zip(order["orders"], keys, strict=True)]
        changed.insert(0, {**order, "orders": orders})
    column = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "column_names": [place]}
    name = source["table_name"]
    alone = {**source, "alias": source["alias"] or name, "schema_name": ALONE}
    if "qualified_name" in source:
        alone["qualified_name"] = {"path": [ALONE, name]}
    return {**query, "select_list": [column], "from_table": alone, "modifiers": changed}


def _compares(query: Node, aggregates: frozenset[str]) -> bool:
    """Returns whether anything but ORDER BY compares rows, or whether there is a subquery."""
    parts = ("group_expressions", "group_sets", "having", "qualify", "sample")
    if any(query.get(part) for part in parts) or query["aggregate_handling"] != "STANDARD_HANDLING":
        return True
    if query["cte_map"]["map"]:
        return True
    return any(
        each.get("class") in ("WINDOW", "SUBQUERY") or str(each.get("function_name", "")).lower() in aggregates
        for each in _inside(query)
    )


def _inside(query: Node) -> Iterator[Node]:
    for part in ("select_list", "where_clause", "modifiers"):
        yield from below(query.get(part))


def _meant(key: Any, select_list: list[Node]) -> Node | None:
    """Returns what an item of ORDER BY is over the table; None if it may be something else."""
    number = ordinal(key)
    if number is not None:
        stars = any(each["class"] == "STAR" for each in select_list)
        return None if stars or not 0 < number <= len(select_list) else select_list[number - 1]
    if key["class"] == "STAR":  # ORDER BY ALL
        return None
    names = {name_of(each): each for each in select_list}
    if key["class"] == "COLUMN_REF" and len(key["column_names"]) == 1:
        found: Node = names.get(key["column_names"][0].lower(), key)
        return found
    return None if any(_is_named(each, names) for each in below(key)) else key


def _is_named(node: Node, names: Any) -> bool:
    """Returns whether a column's name is also a name of the select list, for another value."""
    if node.get("class") != "COLUMN_REF":
        return False
    own = node["column_names"][-1].lower()
    return own in names and names[own].get("column_names") != node["column_names"]
