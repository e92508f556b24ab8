"""Finds the elements, keys and values that lists and maps must hold in every row that passes a condition. Pure.

Place in the flow: a scan checks the footers of its files for these before it reads their row groups
(:mod:`metastore.formats.element_bounds`). Tests under OR and NOT require nothing. A position in a list (``tags[0]``)
requires nothing either: Spark fails if a list is shorter, and skipping a row group would hide this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyiceberg.expressions import BooleanExpression
from sqlglot import exp

from metastore.errors import InvalidRequestError
from metastore.formats.element_bounds import ElementProbe
from metastore.model.drill_types import DrillType
from metastore.predicates.columns import Columns
from metastore.predicates.condition import AllOf, Condition
from metastore.predicates.constants import Constants, NotConstant
from metastore.predicates.predicate import Question

_ELEMENTS, _VALUES = 0, 1
_TYPES: Final = {"INT": int, "BIGINT": int, "VARCHAR": str}
"""Types whose values every engine compares in the order of bounds."""


def required_elements(question: Question | None, columns: Columns) -> tuple[ElementProbe, ...]:
    """The elements that each row passing ``question`` holds: whole numbers and texts, in list and map columns."""
    if question is None or isinstance(question, BooleanExpression):
        return ()
    if isinstance(question, AllOf):
        return tuple(probe for part in question.parts for probe in required_elements(part, columns))
    condition = Condition.of_spark(question) if isinstance(question, str) else question
    reader = _Reader(condition, columns)
    return tuple(probe for node in _required(condition.tree) for probe in reader.probes(node))


def _required(node: exp.Expr) -> Iterator[exp.Expr]:
    """The tests that every row must pass."""
    node = node.unnest()
    if isinstance(node, exp.And):
        for part in node.flatten():
            yield from _required(part)
    else:
        yield node


class _Reader:
    def __init__(self, condition: Condition, columns: Columns) -> None:
        self._condition = condition
        self._columns = columns
        self._constants = Constants(condition, None)

    def probes(self, node: exp.Expr) -> Iterator[ElementProbe]:
        """The elements that ``node`` requires; none if it is of another kind, or has an unknown argument."""
        if isinstance(node, exp.ArrayContains) and _has_only(node, "this", "expression"):
            yield from self._probe("ARRAY", node.this, _ELEMENTS, node.expression)
        elif isinstance(node, exp.In) and _has_only(node, "this", "field"):
            yield from self._probe("ARRAY", node.args["field"], _ELEMENTS, node.this)
        elif isinstance(node, exp.MapContainsKey) and _has_only(node, "this", "key"):
            yield from self._probe("MAP", node.this, _ELEMENTS, node.args["key"])
        elif isinstance(node, exp.EQ) and _has_only(node, "this", "expression"):
            for found, other in ((node.this, node.expression), (node.expression, node.this)):
                entry = found.unnest()
                if isinstance(entry, exp.Bracket) and len(entry.expressions) == 1:
                    yield from self._probe("MAP", entry.this, _ELEMENTS, entry.expressions[0])
                    yield from self._probe("MAP", entry.this, _VALUES, other)

    def _probe(self, kind: str, container: exp.Expr, part: int, literal: exp.Expr) -> Iterator[ElementProbe]:
        container = container.unnest()
        path = self._condition.path_of(container) if isinstance(container, exp.Column) else ()
        if len(path) != 1:
            return
        try:
            column, value = self._columns.resolve(path, ""), self._constants.value(literal)
        except (InvalidRequestError, NotConstant):
            return
        is_of_files = column.usable and not column.from_directory and "." not in column.path[0]
        if is_of_files and column.type.name == kind and _is_value_of(column.type.parts[part], value):
            assert isinstance(value, int | str)
            yield ElementProbe(column.path[0], part, len(column.type.parts), value)


def _is_value_of(type_: DrillType, value: object) -> bool:
    return _TYPES.get(type_.name) is type(value)


def _has_only(node: exp.Expr, *names: str) -> bool:
    return all(name in names for name, value in node.args.items() if value)
