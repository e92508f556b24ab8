"""The benchmark on S3 keeps working, and its figures are those of the server. No time is asserted."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import object_store
from benchmarks.measuring import OURS, Pace, Series
from benchmarks.peers.on_s3 import DUCKDB, DUCKDB_ON_ARROW, PYICEBERG
from benchmarks.s3_prices import dollars_of_a_million

pytestmark = pytest.mark.benchmarks


@pytest.mark.integration
@pytest.mark.slow
def test_requests_are_counted_for_everybody(tmp_path: Path) -> None:
    """At one latency: all cases, every peer where it has an answer, and figures of the operations that they did."""
    sizes = object_store.Sizes(files=20, tables=2, first_tables=3)
    series = object_store.run(str(tmp_path), 7, Pace(rounds=1), lambda _: None, sizes, latencies_ms=(1,))
    assert {one.contender for one in series} >= {OURS, PYICEBERG, DUCKDB, DUCKDB_ON_ARROW}
    figures = {(one.case, one.contender): one.figures for one in series}
    assert all(each["requests"] >= each["in a row"] > 0 for each in figures.values())
    assert all(each["$ for a million"] > 0 for each in figures.values())
    assert figures[object_store.FIRST, OURS]["requests"] > 30, "a file for each partition"
    assert figures[object_store.ANALYZE, OURS]["requests"] > 20, "a footer for each file"
    assert figures[object_store.UNCHANGED, OURS]["requests"] < 8
    assert 10 < figures[object_store.CHANGED, OURS]["requests"] < 30, "a footer and a commit"
    assert figures[object_store.SELECT, OURS]["requests"] < figures[object_store.SELECT, DUCKDB]["requests"]
    assert [verdict.holds for verdict in object_store.verdicts(series)] == [None] * 5, "measured at 30 ms only"


def test_goals_are_ratios_to_the_times_before() -> None:
    """At 30 ms and ours alone: a commit took 0.5 s, and was to be three times faster."""
    taken = {(30, OURS): 0.16, (5, OURS): 0.01, (30, PYICEBERG): 0.02}
    series = [
        Series(object_store.QUESTION, object_store.COMMIT, size, name, [seconds], [0.0])
        for (size, name), seconds in taken.items()
    ]
    verdict = object_store.verdicts(series)[0]
    assert verdict.measured == pytest.approx(3.125)
    assert verdict.holds is True


def test_prices_are_those_of_each_operation() -> None:
    """A million PUTs cost 5 dollars, a million GETs 40 cents, deletions nothing."""
    assert dollars_of_a_million({"PUT": 1}) == pytest.approx(5)
    assert dollars_of_a_million({"GET": 1, "DELETE": 7}) == pytest.approx(0.4)
    assert dollars_of_a_million({"LIST": 2, "HEAD": 1}) == pytest.approx(10.4)
