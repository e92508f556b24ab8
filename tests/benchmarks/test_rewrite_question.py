"""The benchmark of rewrites keeps working, and all its contenders make the same of the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import rewrite_files
from benchmarks.measuring import Pace

pytestmark = [pytest.mark.benchmarks, pytest.mark.spark, pytest.mark.slow]


def test_every_way_of_rewriting_makes_the_same(tmp_path: Path) -> None:
    """Files with the same rows, on one core, on two, on Spark and by Spark alone; else this raises."""
    series = rewrite_files.run(str(tmp_path), 40, 7, Pace(rounds=1), lambda _: None)
    assert {one.contender for one in series} == {
        rewrite_files.ONE_CORE,
        rewrite_files.TWO_CORES,
        rewrite_files.ON_SPARK,
        rewrite_files.COALESCE,
    }
    assert all(one.items and one.items > 40 * 30_000 for one in series)
    assert all(verdict.holds is None for verdict in rewrite_files.verdicts(series))
