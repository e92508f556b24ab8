"""The benchmark of expiration keeps working, and both ways leave the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import expire_files
from benchmarks.measuring import OURS, Pace

pytestmark = [pytest.mark.benchmarks, pytest.mark.slow]


def test_both_ways_leave_the_same(tmp_path: Path) -> None:
    """As many snapshots and files; else this raises."""
    series = expire_files.run(str(tmp_path), 20, Pace(rounds=1), lambda _: None)
    assert {one.contender for one in series} == {OURS, expire_files.BY_HAND}
    assert all(one.items == 20 * expire_files.FILES_EACH for one in series)
    assert all(verdict.holds is None for verdict in expire_files.verdicts(series))
