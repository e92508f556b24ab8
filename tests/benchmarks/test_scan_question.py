"""The benchmark of scans keeps working, and its contenders return the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import scan
from benchmarks.measuring import Pace

pytestmark = [pytest.mark.benchmarks, pytest.mark.spark, pytest.mark.slow]


def test_every_reader_finds_the_same(tmp_path: Path) -> None:
    """Counts agree, pruned and not; else this raises."""
    series = scan.run(str(tmp_path), 100, 10_000, 7, Pace(rounds=1), lambda _: None)
    found = {(one.case, one.contender) for one in series}
    assert {case for case, _ in found} == {scan.PLAN, scan.SELECTIVE, scan.EVERYTHING, scan.ROW_IDS}
    assert {name for case, name in found if case == scan.ROW_IDS} == {scan.SPARK, scan.BY_TASKS, scan.WITH_IDS}
    assert all(verdict.holds is None for verdict in scan.verdicts(series))
