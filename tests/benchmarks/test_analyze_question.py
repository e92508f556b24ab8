"""The benchmark of ANALYZE keeps working, and all its contenders find the same in the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import analyze
from benchmarks.measuring import OURS, Pace

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_every_way_of_measuring_finds_the_same(tmp_path: Path) -> None:
    """Engines, bare footers and Spark SQL agree on files and bounds, at first and after changes; else this raises."""
    series = analyze.run(str(tmp_path), 40, 7, Pace(rounds=1), lambda _: None)
    full = {one.contender for one in series if one.case == analyze.FULL}
    assert full == {
        OURS,
        analyze.ONE_PROCESS,
        analyze.ON_SPARK,
        analyze.BARE,
        analyze.AGGREGATE,
        analyze.TUNED,
    }
    assert {one.case for one in series} == {analyze.FULL, analyze.UNCHANGED, analyze.ONE_DIRECTORY, analyze.SPREAD}
    assert all(verdict.holds is None for verdict in analyze.verdicts(series))
