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

_ALONE: Final = frozenset({"PROJECTION", "FILTER", "UNNEST"})
"""Operators that treat each row alone."""

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

_BY_KEYS: Final = _ALONE | {
    "AGGREGATE",
    "ANY_JOIN",
    "COMPARISON_JOIN",
    "CROSS_PRODUCT",
    "CTE",
    "DEPENDENT_JOIN",
    "DISTINCT",
    "EXCEPT",
    "INTERSECT",
    "ORDER_BY",
    "UNION",
    "WINDOW",
}
"""Operators that give the rows of a share for the rows of a share, if the share has all rows of its keys."""

_REASONS: Final[Mapping[str, str]] = {
    "AGGREGATE": "it aggregates the rows",
    "DISTINCT": "DISTINCT compares the rows",
    "WINDOW": "a window function compares the rows",
    "ORDER_BY": "ORDER BY orders the rows",
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


def why_not_alone(plan: PlanNode) -> str | None:
    """Returns why the rows of the plan's stream do not pass through it one by one; None if they do."""
    streams = sum(each.operator == STREAM for each in plan.walk())
    if streams != 1:
        return "it reads the table several times" if streams else "it does not read the table"
    return _why_not(plan, lambda node: node.operator == STREAM)


def why_not_by_keys(plan: PlanNode) -> str | None:
    """Returns why no keys divide the rows of the plan's streams; None if the operators above them are known."""
    for node in plan.walk():
        if any(each.operator == STREAM for below in node.inputs for each in below.walk()):
            if node.operator not in _BY_KEYS:
                return _REASONS.get(node.operator, f"{node.operator} may compare the rows")
            if node.operator == "AGGREGATE" and not node.details.get("Groups"):
                return "it aggregates all rows, without a key"
    return None


def _why_not(plan: PlanNode, is_source: Callable[[PlanNode], bool]) -> str | None:
    """Returns why the rows of the one source below ``plan`` do not pass through ``plan`` one by one."""
    if is_source(plan):
        return None
    sides = [side for side, each in enumerate(plan.inputs) if any(map(is_source, each.walk()))]
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
