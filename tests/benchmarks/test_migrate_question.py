"""The question of migrating answers at a tiny size: every way counts the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import migrate
from benchmarks.measuring import OURS, Pace

pytestmark = [pytest.mark.benchmarks, pytest.mark.spark, pytest.mark.slow]


def test_all_contenders_make_the_same_table(tmp_path: Path) -> None:
    """Each of them is measured, and their answers were compared on the way."""
    said: list[str] = []
    series = migrate.run(str(tmp_path), [3], Pace(1), said.append)
    assert [each.contender for each in series] == [OURS, migrate.ON_SPARK, migrate.BY_PYICEBERG]
    assert all(each.items == 3 for each in series)
    assert len(migrate.verdicts(series)) == len(migrate.FILES) + 1
    assert list(tmp_path.iterdir()) == []
