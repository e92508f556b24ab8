"""Separates containers (segments, files, row groups) that may hold a matching row from those that cannot.

The answer is "no" only if that is certain. Missing statistics, an unknown bound, or values of another type than the
column's present one all mean "may". Many containers are decided at once, one leaf of the condition at a time;
containers that are already excluded are not tested again.

The reason is kept as the number of the tests that excluded a container. It becomes an :class:`Exclusion`, and text, on
request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or, UnboundPredicate

from metastore.model.bounds.bound_arrays import Mask
from metastore.model.bounds.statistics_columns import StatisticsColumns
from metastore.model.statistics import ColumnStatistics
from metastore.predicates.predicate import Predicate
from metastore.predicates.recurring import Recurring
from metastore.scan.pruning.column_test import NEVER, ColumnTest, column_test

Codes = np.ndarray[Any, np.dtype[np.int32]]


class Statistics(Protocol):
    """Statistics of many containers, read column by column."""

    def of(self, column: str, among: Mask) -> StatisticsColumns:
        """The statistics of ``column`` (a quoted path) in all containers; only those ``among`` them matter."""


class Cause(NamedTuple):
    """A test that no row of a container passes, and the statistics that were tested."""

    test: ColumnTest
    statistics: ColumnStatistics | None

    def __str__(self) -> str:
        return str(self.test) if self.statistics is None else self.test.explain(self.statistics)


def tests_text(tests: Iterable[ColumnTest]) -> str:
    """The text of tests that together exclude a container."""
    return " and ".join(dict.fromkeys(map(str, tests)))


class Exclusion(tuple[Cause, ...]):
    """Why a container cannot match: all of these causes together; several if the condition has alternatives (OR)."""

    __slots__ = ()

    @property
    def tests(self) -> str:
        """The failed tests without the container's values: the same text for all containers that they excluded."""
        return tests_text(cause.test for cause in self)

    def __str__(self) -> str:
        return " and ".join(dict.fromkeys(map(str, self)))


@dataclass(frozen=True)
class Exclusions:
    """The result for many containers: the tests ``combinations[code]`` exclude a container.

    Code -1 means not excluded.
    """

    codes: Codes
    combinations: Sequence[tuple[ColumnTest, ...]]
    judged_by: Mapping[str, StatisticsColumns]
    """The statistics of each tested column, by its name."""

    @property
    def mask(self) -> Mask:
        """Which containers are excluded."""
        found: Mask = self.codes >= 0
        return found

    def why(self, container: int) -> Exclusion:
        """Why ``container`` is excluded; the container must be excluded."""
        return Exclusion(
            Cause(test, self._statistics_of(test, container)) for test in self.combinations[self.codes[container]]
        )

    def tests(self, containers: Iterable[int]) -> list[str]:
        """The text of the tests that excluded each of ``containers``."""
        texts = list(map(tests_text, self.combinations))
        return [texts[code] for code in self.codes[list(containers)].tolist()]

    def count_by_tests(self, among: Mask | None = None) -> Counter[str]:
        """Number of excluded containers (all, or those ``among``) by the tests that excluded them."""
        counts = np.bincount(self.codes[self.mask if among is None else self.mask & among]).tolist()
        found: Counter[str] = Counter()
        for code, count in enumerate(counts):
            if count:
                found[tests_text(self.combinations[code])] += count
        return found

    def _statistics_of(self, test: ColumnTest, container: int) -> ColumnStatistics | None:
        known = self.judged_by.get(test.column)
        return None if known is None else known.at(container)


class Evaluation:
    """A predicate prepared for evaluation over any number of containers."""

    def __init__(self, predicate: Predicate) -> None:
        self._condition = predicate.condition
        self._tests: dict[int, ColumnTest] = {}
        """Tests by identity of the leaf: PyIceberg's expressions have no hash, and live as long as the condition does.
        """
        self._prepare(predicate.condition, predicate)
        self._asked: set[str] = set()
        self._judged: set[str] = set()
        self.combinations: list[tuple[ColumnTest, ...]] = []
        """Tests that together excluded a container; a container's code is an index into this list."""
        self._codes: dict[tuple[int, ...], int] = {}

    def blind_tests(self) -> Sequence[ColumnTest]:
        """Tests for which none of the tested containers had the statistics needed."""
        blind = self._asked - self._judged
        return list({test.text: test for test in self._tests.values() if test.text in blind}.values())

    @property
    def tests(self) -> Sequence[ColumnTest]:
        """All single-column tests of the predicate."""
        return list(self._tests.values())

    def exclude(self, among: Mask, statistics: Statistics) -> Exclusions:
        """Marks the containers ``among`` those of ``statistics`` without a row that satisfies the predicate."""
        judged_by: dict[str, StatisticsColumns] = {}

        def of(column: str, in_doubt: Mask) -> StatisticsColumns:
            judged_by[column] = found = statistics.of(column, in_doubt)
            return found

        return Exclusions(self._exclude(self._condition, among, of), self.combinations, judged_by)

    def _exclude(self, node: BooleanExpression, among: Mask, of: Callable[[str, Mask], StatisticsColumns]) -> Codes:
        """For each container ``among`` those given, the code of what excludes it; -1 if it may hold a row."""
        none: Codes = np.full(len(among), -1, np.int32)
        if isinstance(node, AlwaysTrue) or not among.any():
            return none
        if isinstance(node, And):
            left = self._exclude(node.left, among, of)
            return np.where(left >= 0, left, self._exclude(node.right, among & (left < 0), of))
        if isinstance(node, Or):
            left = self._exclude(node.left, among, of)
            return self._both(left, self._exclude(node.right, left >= 0, of))
        if isinstance(node, AlwaysFalse):
            return np.where(among, np.int32(self._code((NEVER,))), none)
        test = self._tests[id(node)]
        found = of(test.column, among)
        self._asked.add(test.text)
        if test.text not in self._judged and (test.can_judge(found) & among).any():
            self._judged.add(test.text)
        return np.where(test.excludes(found) & among, np.int32(self._code((test,))), none)

    def _both(self, left: Codes, right: Codes) -> Codes:
        """The codes of containers that both sides of an OR exclude."""
        found: Codes = np.full(len(left), -1, np.int32)
        excluded = right >= 0
        pairs = left[excluded].astype(np.int64) * len(self.combinations) + right[excluded]
        distinct, places = np.unique(pairs, return_inverse=True)
        codes = [divmod(int(pair), len(self.combinations)) for pair in distinct]
        made = [self._code(self.combinations[one] + self.combinations[other]) for one, other in codes]
        if made:
            found[excluded] = np.array(made, np.int32)[places]
        return found

    def _code(self, tests: tuple[ColumnTest, ...]) -> int:
        key = tuple(map(id, tests))
        code = self._codes.get(key)
        if code is None:
            code = self._codes[key] = len(self.combinations)
            self.combinations.append(tests)
        return code

    def _prepare(self, node: BooleanExpression, predicate: Predicate) -> None:
        if isinstance(node, (And, Or)):
            self._prepare(node.left, predicate)
            self._prepare(node.right, predicate)
        elif isinstance(node, (UnboundPredicate, Recurring)):
            column = predicate.columns[node.term.name]  # type: ignore[attr-defined]
            self._tests[id(node)] = column_test(node, column)
