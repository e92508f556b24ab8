"""Tests of lists and maps as conditions on what they hold: elements, keys and values.

Place in the flow: the reader of conditions (:mod:`metastore.predicates.sql_predicate`) asks here before anything else.
The columns that the conditions name are those of :mod:`metastore.model.elements`.

Promise: each row that passes the test passes the condition by at least one element, so a file whose bounds exclude the
condition has no such row. Null and empty lists pass neither. The opposite does not hold: conditions here are never
exact, and nothing is said of a test under NOT. A position in a list (``tags[0]``) says nothing either: Spark fails if a
list is shorter, and skipping a file would hide this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Final

from pyiceberg.expressions import BooleanExpression
from sqlglot import exp

from metastore.model.drill_types import INTEGER_TYPES
from metastore.model.elements import ELEMENT, KEY, VALUE, elements_of
from metastore.model.mapping.filters import all_of
from metastore.predicates.columns import PredicateColumn
from metastore.predicates.condition import COMPARISONS, DUCKDB, MIRRORED, Condition
from metastore.predicates.constants import Constants, NotConstant
from metastore.predicates.leaves import Leaves
from metastore.predicates.time_spans import Literal

_ANY_OF: Final = frozenset({"arrays_overlap", "list_has_any", "array_has_any"})
_ALL_OF: Final = frozenset({"list_has_all", "array_has_all"})


class Containers:
    """Reads tests of one condition; ``column_of`` resolves a node to the table's column, or to None."""

    def __init__(
        self,
        condition: Condition,
        column_of: Callable[[exp.Expr], PredicateColumn | None],
        constants: Constants,
        leaves: Leaves,
    ) -> None:
        self._said = condition
        self._column_of = column_of
        self._constants = constants
        self._leaves = leaves

    def test(self, node: exp.Expr, text: str) -> BooleanExpression | None:
        """The condition that ``node`` implies; None if it is no test of a list or map, or nothing is known of it."""
        try:
            parts = list(self._parts(node, text))
        except NotConstant:
            return None
        return self._leaves.weaken_to(all_of(parts)) if parts else None

    def _parts(self, node: exp.Expr, text: str) -> Iterator[BooleanExpression]:
        """The conditions on elements, keys or values that ``node`` implies; none if it is not such a test."""
        if isinstance(node, (exp.ArrayContains, exp.Contains)) and _has_only(node, "this", "expression"):
            yield from self._has("ARRAY", ELEMENT, node.this, [node.expression], text)
        elif isinstance(node, exp.In) and _has_only(node, "this", "field"):
            yield from self._has("ARRAY", ELEMENT, node.args["field"], [node.this], text)
        elif isinstance(node, exp.MapContainsKey) and _has_only(node, "this", "key"):
            yield from self._has("MAP", KEY, node.this, [node.args["key"]], text)
        elif isinstance(node, exp.ArrayOverlaps) and _has_only(node, "this", "expression"):
            yield from self._overlap(node.this, node.expression, text)
        elif isinstance(node, exp.ArrayContainsAll) and _has_only(node, "this", "expression"):
            yield from self._all_of(node.this, node.expression, text)
        elif isinstance(node, exp.ArrayContainedBy) and _has_only(node, "this", "expression"):
            yield from self._all_of(node.expression, node.this, text)
        elif isinstance(node, exp.Anonymous) and _has_only(node, "this", "expressions"):
            yield from self._function(node.name.lower(), node.expressions, text)
        elif isinstance(node, exp.EQ) and (any_of := _any_of(node)) is not None:
            yield from self._has("ARRAY", ELEMENT, any_of[0], [any_of[1]], text)
        else:
            yield from self._of_entry(node, text)

    def _function(self, name: str, arguments: list[exp.Expr], text: str) -> Iterator[BooleanExpression]:
        if name in _ANY_OF and len(arguments) == 2:
            yield from self._overlap(arguments[0], arguments[1], text)
        elif name in _ALL_OF and len(arguments) == 2:
            yield from self._all_of(arguments[0], arguments[1], text)
        elif name == "map_contains" and len(arguments) == 2:
            yield from self._has("MAP", KEY, arguments[0], [arguments[1]], text)
        elif name == "map_contains_value" and len(arguments) == 2:
            yield from self._has("MAP", VALUE, arguments[0], [arguments[1]], text)
        elif name == "map_contains_entry" and len(arguments) == 3:
            yield from self._has("MAP", KEY, arguments[0], [arguments[1]], text)
            yield from self._has("MAP", VALUE, arguments[0], [arguments[2]], text)

    def _overlap(self, left: exp.Expr, right: exp.Expr, text: str) -> Iterator[BooleanExpression]:
        for container, others in ((left, right), (right, left)):
            if (literals := _items(others)) is not None:
                yield from self._has("ARRAY", ELEMENT, container, literals, text)

    def _all_of(self, container: exp.Expr, others: exp.Expr, text: str) -> Iterator[BooleanExpression]:
        for literal in _items(others) or ():
            yield from self._has("ARRAY", ELEMENT, container, [literal], text)

    def _has(
        self, container: str, segment: str, node: exp.Expr, literals: list[exp.Expr], text: str
    ) -> Iterator[BooleanExpression]:
        """The container at ``node`` holds one of ``literals`` among the elements, keys or values ``segment``."""
        column = self._inside(container, segment, node)
        if column is None or not literals:
            return
        values = [_value_beside(column, self._constants.value(literal)) for literal in literals]
        if len(values) == 1:
            yield self._leaves.compare(column, "=", values[0], text, inverted=False)
        else:
            yield self._leaves.contain(column, values, text, inverted=False)

    def _of_entry(self, node: exp.Expr, text: str) -> Iterator[BooleanExpression]:
        """A test of ``m['k']``, which is one of the map's values, or NULL and then passes no comparison."""
        if isinstance(node, exp.Not) and isinstance(is_null := node.this.unnest(), exp.Is):
            if isinstance(is_null.expression, exp.Null) and not is_null.args.get("negate"):
                for key, value in self._entry(is_null.this):
                    yield key
                    yield self._leaves.is_null(value, inverted=True)
        elif (operator := COMPARISONS.get(type(node))) and _has_only(node, "this", "expression"):
            for subject, other, asked in (
                (node.this, node.expression, operator),
                (node.expression, node.this, MIRRORED[operator]),
            ):
                for key, value in self._entry(subject):
                    yield key
                    literal = _value_beside(value, self._constants.value(other))
                    yield self._leaves.compare(value, asked, literal, text, inverted=False)
        elif isinstance(node, exp.In) and node.expressions and _has_only(node, "this", "expressions"):
            for key, value in self._entry(node.this):
                yield key
                literals = [_value_beside(value, self._constants.value(each)) for each in node.expressions]
                yield self._leaves.contain(value, literals, text, inverted=False)
        elif isinstance(node, exp.Between) and _has_only(node, "this", "low", "high"):
            for key, value in self._entry(node.this):
                yield key
                for asked, end in ((">=", node.args["low"]), ("<=", node.args["high"])):
                    literal = _value_beside(value, self._constants.value(end))
                    yield self._leaves.compare(value, asked, literal, text, inverted=False)

    def _entry(self, node: exp.Expr) -> Iterator[tuple[BooleanExpression, PredicateColumn]]:
        """The condition on the keys, and the values' column, if ``node`` is an entry of a map by its key."""
        node = node.unnest()
        if not isinstance(node, exp.Bracket) or len(node.expressions) != 1:
            return
        key, value = (self._inside("MAP", segment, node.this) for segment in (KEY, VALUE))
        if key is None or value is None:
            return
        wanted = _value_beside(key, self._constants.value(node.expressions[0]))
        if self._said.dialect is DUCKDB and not isinstance(wanted, str):
            return  # the parser counts from 0 what may be a position in a list, also if it is a key
        yield self._leaves.compare(key, "=", wanted, self._said.dialect.text_of(node), inverted=False), value

    def _inside(self, container: str, segment: str, node: exp.Expr) -> PredicateColumn | None:
        """The column of the elements, keys or values ``segment`` of the list or map at ``node``."""
        node = node.unnest()
        whole = self._column_of(node)
        if whole is None or len(whole.path) != len(self._said.path_of(node)):  # something inside a list or map
            return None
        if whole.from_directory or whole.type.name != container:
            return None
        for path, type_ in elements_of(whole.path, whole.type):
            if path[-1] == segment:
                return replace(whole, path=path, type=type_, zoned=False, logical="")
        return None


def _any_of(node: exp.EQ) -> tuple[exp.Expr, exp.Expr] | None:
    """The list and the value of ``value = ANY(list)``."""
    for any_, value in ((node.this, node.expression), (node.expression, node.this)):
        if isinstance(any_, exp.Any) and _has_only(node, "this", "expression"):
            return any_.this, value
    return None


def _items(node: exp.Expr) -> list[exp.Expr] | None:
    """The items of a list that is written out."""
    node = node.unnest()
    return list(node.expressions) if isinstance(node, exp.Array) and node.expressions else None


def _value_beside(column: PredicateColumn, literal: Literal | None) -> Literal:
    """``literal`` if every engine compares it with elements of the column's type as they are.

    Raises NotConstant otherwise: engines cast a text or a fraction beside whole numbers in different ways.
    """
    name, kind = column.type.name, type(literal)
    if name in INTEGER_TYPES:
        fits = kind is int
    elif name in ("FLOAT", "DOUBLE", "DECIMAL"):
        fits = kind in (int, float, Decimal) and literal == literal
    elif name == "VARCHAR":
        fits = kind is str
    else:
        fits = name == "DATE" and kind is date
    if literal is None or not fits:
        raise NotConstant("elements of a list or map are of another type")
    return literal


def _has_only(node: exp.Expr, *names: str) -> bool:
    return all(name in names for name, value in node.args.items() if value)
