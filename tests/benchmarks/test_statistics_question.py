"""The benchmark of statistics keeps working, and its contenders find the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import statistics
from benchmarks.measuring import OURS, Pace

pytestmark = [pytest.mark.benchmarks, pytest.mark.spark, pytest.mark.slow]


def test_everyone_finds_the_same_bounds(tmp_path: Path) -> None:
    """On the local engine, on Spark, and by Spark's own ANALYZE TABLE; else this raises."""
    series = statistics.run(str(tmp_path), 20_000, 7, Pace(rounds=1), lambda _: None)
    assert {one.contender for one in series} == {OURS, statistics.ON_SPARK, statistics.SPARKS, statistics.AGGREGATE}
    cases = {statistics.ALL_COLUMNS, statistics.BOUNDS, statistics.FEW_FILES, statistics.UNCHANGED}
    assert {one.case for one in series} == cases
    assert all(verdict.holds is None for verdict in statistics.verdicts(series))
