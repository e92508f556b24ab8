"""What the names in one SELECT mean: the tables of its FROM, their columns, and the columns that it returns.

Place in the flow: :mod:`metastore.duck.row_keys` binds expressions here. A bound expression has nodes of the class
:data:`BOUND` in place of names. It is conservative: where DuckDB's rules would have to choose between two meanings, a
name has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from metastore.duck.syntax import Node, identity

BOUND: Final = "BOUND"
"""The class of a bound column: ``item`` is a table's place in FROM, ``column`` its column's, ``rest`` are fields."""

_ROW_BY_ROW: Final = frozenset(
    {
        "BETWEEN",
        "CASE",
        "CAST",
        "COMPARISON",
        "CONJUNCTION",
        "CONSTANT",
        "FUNCTION",
        "OPERATOR",
        "TYPE",
        BOUND,
    }
)
"""Classes of expressions whose value depends on the row only, if their functions are scalar."""

_CHANGES_STAR: Final = ("replace_list", "rename_list", "columns", "expr", "unpacked")


class Untraced(Exception):  # noqa: N818 - it says why a query is not divided; nothing failed
    """Where a row's values come from is not known; the text says why."""


@dataclass(frozen=True)
class FromItem:
    """A table in FROM, with its names in lower case; a column has no name if its name is not unique or not known."""

    alias: str
    columns: Sequence[str | None]
    node: Node


@dataclass(frozen=True)
class Scope:
    """The tables of one FROM, and ``merged``: columns that USING made one, by name, with the table that has them."""

    items: Sequence[FromItem]
    merged: Mapping[str, int]
    aliases: Mapping[str, Node]
    """Expressions of the select list by their names, in lower case."""
    aggregates: frozenset[str]
    """Functions that may be of several rows."""

    def bound(self, expression: Node) -> Node:
        """Returns ``expression`` with bound columns. Raises Untraced if its value may depend on more than one row."""
        found: Node = self._bound(expression)
        return found

    def columns_of(self, expression: Node) -> Iterator[Node]:
        """Yields what a star in a select list stands for, bound; or the expression itself."""
        if expression["class"] != "STAR":
            yield expression
            return
        if any(expression.get(each) for each in _CHANGES_STAR):
            raise Untraced("a star with changed columns")
        excluded = {str(each).lower() for each in expression.get("exclude_list") or ()}
        of = (expression.get("relation_name") or "").lower()
        if not of and len(self.items) > 1 and self.merged:
            raise Untraced("a star over USING")
        for number, item in enumerate(self.items):
            for place, name in enumerate(item.columns):
                if of in ("", item.alias) and name not in excluded:
                    yield {"class": BOUND, "item": number, "column": place, "rest": [], "alias": name or ""}

    def _bound(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self._bound(each) for each in node]
        if not isinstance(node, dict):
            return node
        kind = node.get("class")
        if kind == "COLUMN_REF":
            return self._column([str(each) for each in node["column_names"]])
        if kind is not None and kind not in _ROW_BY_ROW:
            raise Untraced(f"{kind.lower()} in a key")
        if kind == "FUNCTION" and node["function_name"].lower() in self.aggregates:
            raise Untraced(f"{node['function_name']} in a key")
        return {key: "" if key == "alias" else self._bound(value) for key, value in node.items()}

    def _column(self, names: Sequence[str]) -> Any:
        found = {identity(each): each for each in self._meanings(names)}
        if len(found) != 1:
            raise Untraced(f"{'.'.join(names)} in a key has {len(found)} meanings")
        [only] = found.values()
        return only

    def of_tables(self, names: Sequence[str]) -> Iterator[Node]:
        """Yields the columns, and their fields, that a name of one or more parts may mean, bound."""
        first = names[0].lower()
        for number, item in enumerate(self.items):
            if len(names) > 1 and item.alias == first and (name := names[1].lower()) in item.columns:
                yield _column_of(number, item.columns.index(name), names[2:])
            if first in item.columns and self.merged.get(first, number) == number:
                yield _column_of(number, item.columns.index(first), names[1:])

    def _meanings(self, names: Sequence[str]) -> Iterator[Any]:
        yield from self.of_tables(names)
        first = names[0].lower()
        if len(names) == 1 and first in self.aliases:
            expression = self.aliases[first]
            if expression.get("column_names", [""])[-1].lower() != first:  # else it is the name of a column itself
                without = {name: each for name, each in self.aliases.items() if name != first}
                yield Scope(self.items, self.merged, without, self.aggregates).bound(expression)


def _column_of(item: int, column: int, rest: Sequence[str]) -> Node:
    return {"class": BOUND, "item": item, "column": column, "rest": list(rest)}


def name_of(expression: Node) -> str | None:
    """Returns the name of an item of the select list, in lower case; None if DuckDB makes one of its text."""
    if expression.get("alias"):
        return str(expression["alias"]).lower()
    if expression["class"] == "COLUMN_REF":
        return str(expression["column_names"][-1]).lower()
    return None


def told_apart(names: Sequence[str | None]) -> list[str | None]:
    """Returns the names without those that occur several times."""
    return [name if name is not None and names.count(name) == 1 else None for name in names]


def items_of(expression: Node) -> set[int]:
    """Returns the tables whose columns a bound expression has."""
    return {node["item"] for node in _bound_nodes(expression)}


def moved(expression: Any, columns: Sequence[Node | None]) -> Any:
    """Returns a bound expression with ``columns`` in place of its columns, which are all of one table.

    Raises Untraced for a column that is None, and for a field of an expression.
    """
    if isinstance(expression, list):
        return [moved(each, columns) for each in expression]
    if not isinstance(expression, dict):
        return expression
    if expression.get("class") != BOUND:
        return {key: moved(value, columns) for key, value in expression.items()}
    column = columns[expression["column"]]
    if column is None:
        raise Untraced("operators compare the rows by different keys")
    if not expression["rest"]:
        return column
    fields = {BOUND: "rest", "COLUMN_REF": "column_names"}.get(column["class"])
    if fields is None:
        raise Untraced("a key is a field of a computed value")
    return {**column, fields: [*column[fields], *expression["rest"]]}


def _bound_nodes(expression: Any) -> Iterator[Node]:
    if isinstance(expression, dict):
        if expression.get("class") == BOUND:
            yield expression
        for each in expression.values():
            yield from _bound_nodes(each)
    elif isinstance(expression, list):
        for each in expression:
            yield from _bound_nodes(each)
