"""Tells containers (segments, files, row groups) that may hold a row that satisfies a condition from those that cannot.

The answer is "no" only where that is certain: no statistics, an unknown bound, values of another type than the column
has now, all mean "may". Many containers are decided at once: each leaf asks only for the statistics of the containers
that are still in doubt, so a column's JSON is read for those alone.

Why a container cannot match is kept as an :class:`Exclusion`, which becomes text only when somebody asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or, UnboundPredicate

from metastore.model.statistics import ColumnStatistics
from metastore.predicates.predicate import Predicate
from metastore.predicates.recurring import Recurring
from metastore.pruning.column_test import NEVER, ColumnTest, column_test


class Statistics(Protocol):
    """Statistics of many containers, read column by column."""

    def of(self, column: str, containers: Sequence[int]) -> Sequence[ColumnStatistics | None]:
        """Those of ``column`` (a quoted path) in ``containers``, in their order; None where unknown."""


class Cause(NamedTuple):
    """A test that no row of a container passes, and the statistics it was judged by."""

    test: ColumnTest
    statistics: ColumnStatistics | None

    def __str__(self) -> str:
        return str(self.test) if self.statistics is None else self.test.explain(self.statistics)


class Exclusion(tuple[Cause, ...]):
    """Why a container cannot match: all of these causes together, more than one where alternatives were asked for."""

    __slots__ = ()

    @property
    def tests(self) -> str:
        """The tests that failed, without the container's values: the same for all containers they excluded."""
        return " and ".join(dict.fromkeys(str(cause.test) for cause in self))

    def __str__(self) -> str:
        return " and ".join(dict.fromkeys(map(str, self)))


class Evaluation:
    """A predicate made ready to be asked of any number of containers."""

    def __init__(self, predicate: Predicate) -> None:
        self._condition = predicate.condition
        self._tests: dict[int, ColumnTest] = {}
        """By identity of the leaf: PyIceberg's expressions have no hash, and live as long as the condition does."""
        self._prepare(predicate.condition, predicate)
        self._asked: set[str] = set()
        self._judged: set[str] = set()

    def blind_tests(self) -> Sequence[ColumnTest]:
        """Tests that were asked of containers, none of which has the statistics that they need."""
        blind = self._asked - self._judged
        return list({test.text: test for test in self._tests.values() if test.text in blind}.values())

    @property
    def tests(self) -> Sequence[ColumnTest]:
        """All tests of single columns that the predicate is made of."""
        return list(self._tests.values())

    def exclude(self, containers: Sequence[int], statistics: Statistics) -> dict[int, Exclusion]:
        """Those of ``containers`` in which no row satisfies the predicate, each with the reason."""
        return self._exclude(self._condition, containers, statistics)

    def _exclude(self, node: BooleanExpression, among: Sequence[int], statistics: Statistics) -> dict[int, Exclusion]:
        if not among or isinstance(node, AlwaysTrue):
            return {}
        if isinstance(node, And):
            out = self._exclude(node.left, among, statistics)
            rest = [i for i in among if i not in out] if out else among
            return out | self._exclude(node.right, rest, statistics)
        if isinstance(node, Or):
            left = self._exclude(node.left, among, statistics)
            right = self._exclude(node.right, list(left), statistics)
            return {i: Exclusion(left[i] + causes) for i, causes in right.items()}
        if isinstance(node, AlwaysFalse):
            return dict.fromkeys(among, Exclusion((Cause(NEVER, None),)))
        test = self._tests[id(node)]
        excludes = test.excludes
        found = statistics.of(test.column, among)
        self._asked.add(test.text)
        if test.text not in self._judged and any(known is not None and test.can_judge(known) for known in found):
            self._judged.add(test.text)
        return {
            i: Exclusion((Cause(test, known),))
            for i, known in zip(among, found, strict=True)
            if known is not None and excludes(known)
        }

    def _prepare(self, node: BooleanExpression, predicate: Predicate) -> None:
        if isinstance(node, (And, Or)):
            self._prepare(node.left, predicate)
            self._prepare(node.right, predicate)
        elif isinstance(node, (UnboundPredicate, Recurring)):
            column = predicate.columns[node.term.name]  # type: ignore[attr-defined]
            self._tests[id(node)] = column_test(node, column)
