"""Whether a query treats each row of one of its tables alone, by DuckDB's own plan of the query. Pure.

Place in the flow: a statement is divided among tasks. Each task runs the whole query over its part of one table. The
rows of all tasks together are those of the query only if the table's rows pass through the plan one by one: no operator
on the way to the result compares, counts or orders them. DuckDB's plan says this for all of its syntax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

STREAM: Final = "PYTHON_ARROW_SCAN"
"""The operator that reads a stream. In a plan for this module, only the divided table is one."""

_ALONE: Final = frozenset({"PROJECTION", "FILTER", "UNNEST", "ORDER_BY"})
"""Operators that treat each row alone, or whose order of rows does not count: an operator that needs it is refused."""

_SIDES: Final[Mapping[str, frozenset[int]]] = {
    "INNER": frozenset({0, 1}),
    "LEFT": frozenset({0}),
    "RIGHT": frozenset({1}),
    "SEMI": frozenset({0}),
    "ANTI": frozenset({0}),
    "MARK": frozenset({0}),
    "SINGLE": frozenset({0}),
}
"""The sides of a join whose rows it treats alone, if the other side is complete."""

_REASONS: Final[Mapping[str, str]] = {
    "AGGREGATE": "it aggregates the rows",
    "DISTINCT": "DISTINCT compares the rows",
    "WINDOW": "a window function compares the rows",
    "LIMIT": "LIMIT counts the rows",
    "TOP_N": "LIMIT counts the rows",
    "SAMPLE": "a sample counts the rows",
    "UNION": "it unites several queries",
}


@dataclass(frozen=True)
class PlanNode:
    """An operator of a plan; ``details`` are its properties by DuckDB's names."""

    operator: str
    details: Mapping[str, Any]
    inputs: tuple[PlanNode, ...]

    @classmethod
    def of_json(cls, node: Mapping[str, Any]) -> PlanNode:
        """Returns a node of ``EXPLAIN (FORMAT JSON)``."""
        return cls(node["name"], node.get("extra_info") or {}, tuple(map(cls.of_json, node["children"])))

    def walk(self) -> Iterator[PlanNode]:
        """Yields this operator and those below it."""
        yield self
        for each in self.inputs:
            yield from each.walk()


def why_not_alone(plan: PlanNode, tables: int = 1) -> str | None:
    """Returns why the rows of the plan's streams do not pass through it one by one; None if they do.

    Each of the ``tables`` is a stream. Those of several tables meet in UNION ALL only, and each of its queries has one.
    """
    streams = sum(each.operator == STREAM for each in plan.walk())
    if streams != tables:
        return "it reads the table several times" if streams > tables else "it does not read the table"
    return _why_not(plan, lambda node: node.operator == STREAM)


def _why_not(plan: PlanNode, is_source: Callable[[PlanNode], bool]) -> str | None:
    """Returns why the rows of the sources below ``plan`` do not pass through ``plan`` one by one."""
    if is_source(plan):
        return None
    sides = [side for side, each in enumerate(plan.inputs) if any(map(is_source, each.walk()))]
    if plan.operator == "UNION" and len(sides) == len(plan.inputs):  # a UNION that compares rows has DISTINCT above it
        return next((reason for each in plan.inputs if (reason := _why_not(each, is_source)) is not None), None)
    if len(sides) != 1:
        return "it reads the table several times"
    [side] = sides
    if plan.operator == "CTE" and side == 0:
        index = str(plan.details.get("Table Index"))
        named, body = plan.inputs

        def is_named(node: PlanNode) -> bool:
            return node.operator == "CTE_SCAN" and str(node.details.get("CTE Index")) == index

        if sum(map(is_named, body.walk())) != 1:
            return "it reads the table several times"
        return _why_not(named, is_source) or _why_not(body, is_named)
    if not _is_alone(plan, side):
        kind = f"a join of type {plan.details['Join Type']}" if "Join Type" in plan.details else plan.operator
        return _REASONS.get(plan.operator, f"{kind} may compare the rows")
    return _why_not(plan.inputs[side], is_source)


def _is_alone(plan: PlanNode, side: int) -> bool:
    match plan.operator:
        case "COMPARISON_JOIN":
            return side in _SIDES.get(str(plan.details.get("Join Type")), ())
        case "DEPENDENT_JOIN":  # a correlated subquery: the left side has the rows that it is evaluated for
            return side == 0
        case "CTE":
            return side == 1
        case "CROSS_PRODUCT":
            return True
    return plan.operator in _ALONE
