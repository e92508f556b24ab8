"""The comparison with an earlier state: its arithmetic, and a run of each group of journeys on the state itself."""

from __future__ import annotations

import pytest

from benchmarks import compare, journeys


def test_medians_of_both_states_are_compared() -> None:
    """Only journeys of both states count; more than a tenth of CPU above is slower."""
    before = {"a": [(1.0, 0.1), (3.0, 0.3), (2.0, 0.2)], "gone": [(1.0, 1.0)], "b": [(1.0, 0.5)]}
    now = {"new": [(1.0, 1.0)], "a": [(1.0, 0.23)], "b": [(4.0, 0.5), (4.0, 0.54)]}
    a, b = compare.compared(before, now)
    assert (a.journey, a.clock, a.cpu, a.is_slower) == ("a", (2000.0, 1000.0), (200.0, 230.0), True)
    assert (b.journey, b.clock[1], b.is_slower) == ("b", 4000.0, False)


@pytest.mark.benchmarks
@pytest.mark.slow
@pytest.mark.parametrize("group", [each for each in journeys.GROUPS if each != "spark"])
def test_each_journey_runs_once(group: str) -> None:
    """One round of each; a journey that fails raises."""
    times = journeys.main(group, 1)
    assert times
    assert all(len(pairs) == 1 and clock > 0 for pairs in times.values() for clock, _ in pairs)
