"""Time contenders side by side: in one process, in turns, medians of rounds.

Rounds are interleaved (every contender once, then every contender again, starting with another one each time; and so
are cases that are compared with each other), so that what else the machine does falls on all of them alike. The first
run of a contender warms it up (beside Spark, the first three) and is not counted, unless it took longer than
``patience``: then it is its only measurement. Before any time is believed, the contenders' answers are compared.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final, NamedTuple

OURS: Final = "metastore"
"""Contenders of ours are called so, or so with a word after it; all others are peers."""


_JVM_WARM_UP: Final = 3


class DifferentAnswersError(Exception):
    """Two contenders did not do the same thing, so their times cannot be compared."""


@dataclass(frozen=True)
class Contender:
    """One way to do it. ``prepare`` is not timed, and what it gives is passed to ``run``.

    ``answer`` makes of what ``run`` gave something that is equal for equal work; it is not timed either.
    """

    name: str
    run: Callable[[Any], Any]
    prepare: Callable[[], Any] = lambda: None
    answer: Callable[[Any], object] | None = None


@dataclass(frozen=True)
class Series:
    """The times of one contender, in seconds, in the order they were taken; ``items`` is what one run works through.

    ``cpu`` is the time that all threads of this process had a core, for each of these times: it says what the work
    costs also when the machine is busy with other things. It knows nothing of other processes. ``figures`` are other
    results of one run by name, such as its number of requests; each is a column of the table.
    """

    question: str
    case: str
    size: int
    contender: str
    seconds: Sequence[float]
    cpu: Sequence[float]
    items: int | None = None
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The median time."""
        return statistics.median(self.seconds)

    @property
    def median_cpu(self) -> float:
        """The median time of this process on cores."""
        return statistics.median(self.cpu)


@dataclass(frozen=True)
class Pace:
    """How often to measure: ``rounds`` for each contender, but once only what takes over ``patience`` seconds.

    ``thorough`` measures also those peers at those sizes that take minutes. ``warm_up`` runs of each come first, and
    do not count.
    """

    rounds: int = 5
    patience: float = 3.0
    thorough: bool = False
    warm_up: int = 1

    @property
    def beside_spark(self) -> Pace:
        """All rounds, however long, and after so many runs that the JVM has compiled what they run, or most of it."""
        return replace(self, patience=math.inf, warm_up=min(self.rounds, _JVM_WARM_UP))

    def affords(self, size: int, largest: int) -> bool:
        """Whether to measure at ``size`` what is quick enough up to ``largest``."""
        return self.thorough or size <= largest


def measure(
    question: str,
    case: str,
    size: int,
    contenders: Sequence[Contender],
    pace: Pace,
    *,
    items: int | None = None,
) -> list[Series]:
    """Measure ``contenders`` at one size. Raises DifferentAnswersError when those that give an answer disagree."""
    return measure_together(question, size, {case: contenders}, pace, items={} if items is None else {case: items})


def measure_together(
    question: str,
    size: int,
    cases: Mapping[str, Sequence[Contender]],
    pace: Pace,
    *,
    items: Mapping[str, int],
) -> list[Series]:
    """Measure several cases in turns, so that one can be compared with another: every round has all of them.

    Those of a case take their turns, then those of the next. ``items`` are by case. Raises as :func:`measure`.
    """
    gc.unfreeze()
    taken: dict[tuple[str, str], list[_Time]] = {}
    again: dict[str, list[Contender]] = {}
    for case, contenders in cases.items():
        answers: dict[str, object] = {}
        again[case] = []
        for contender in contenders:
            time_, result = _timed(contender)
            if contender.answer is not None:
                answers[contender.name] = contender.answer(result)
            is_slow = time_.wall > pace.patience
            taken[case, contender.name] = [time_] if is_slow else []
            if not is_slow:
                again[case].append(contender)
        _require_equal(f"{question}, {case}, {size:,}", answers)
    for _ in range(pace.warm_up - 1):
        for contender in chain.from_iterable(again.values()):
            _timed(contender)
    for number in range(pace.rounds):
        for case, contenders in again.items():
            first = number % len(contenders) if contenders else 0
            for contender in (*contenders[first:], *contenders[:first]):
                time_, _ = _timed(contender)
                taken[case, contender.name].append(time_)
    return [
        Series(question, case, size, name, [one.wall for one in times], [one.cpu for one in times], items.get(case))
        for (case, name), times in taken.items()
    ]


class _Time(NamedTuple):
    wall: float
    cpu: float


def _timed(contender: Contender) -> tuple[_Time, Any]:
    prepared = contender.prepare()
    # A contender pays for collecting its own garbage, so the collector stays on; not for what lived before it.
    gc.collect()
    gc.freeze()
    wall, cpu = time.perf_counter(), time.process_time()
    result = contender.run(prepared)
    return _Time(time.perf_counter() - wall, time.process_time() - cpu), result


def _require_equal(where: str, answers: dict[str, object]) -> None:
    for name, answer in answers.items():
        for other, its_answer in answers.items():
            if answer != its_answer:
                raise DifferentAnswersError(f"{where}: {name} and {other} answer differently")


@dataclass(frozen=True)
class Verdict:
    """What was expected, and what came: ``holds`` is None when it was not measured, or nothing was expected."""

    question: str
    says: str
    measured: float | None
    holds: bool | None


def growth_at_most(
    series: Sequence[Series], question: str, case: str, small: int, large: int, expected: float
) -> Verdict:
    """Expect the time of ours at ``large`` to be at most so many times that at ``small``."""
    medians = {
        one.size: one.median for one in series if (one.question, one.case, one.contender) == (question, case, OURS)
    }
    says = f"{case}: {OURS} at {large:,} ≤ {expected:g}× its time at {small:,}"
    if small not in medians or large not in medians:
        return Verdict(question, says, None, None)
    ratio = medians[large] / medians[small]
    return Verdict(question, says, ratio, ratio <= expected)


def beside(
    series: Sequence[Series],
    question: str,
    size: int,
    fast: tuple[str, str],
    slow: tuple[str, str],
    expected: float,
) -> Verdict:
    """Expect ``fast``, a case and its contender, to be so many times faster than ``slow``."""
    medians = {(one.case, one.contender): one.median for one in series if (one.question, one.size) == (question, size)}
    same = fast[0] == slow[0]
    says = f"{fast[0]}, {size:,}: {fast[1]} ≥ {expected:g}× {slow[1]}{'' if same else f', {slow[0]}'}"
    if fast not in medians or slow not in medians:
        return Verdict(question, says, None, None)
    ratio = medians[slow] / medians[fast]
    return Verdict(question, says, ratio, ratio >= expected)
