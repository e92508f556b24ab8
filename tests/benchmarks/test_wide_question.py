"""The question of wide tables answers at a tiny size: every way reads the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import wide_tables
from benchmarks.measuring import Pace

pytestmark = pytest.mark.benchmarks


def test_all_contenders_read_the_same_rows(tmp_path: Path) -> None:
    """Each of them is measured, and their answers were compared on the way."""
    said: list[str] = []
    series = wide_tables.run(str(tmp_path), (3, 5), 10, 7, Pace(1), said.append)
    assert [(each.size, each.contender) for each in series] == [
        (columns, name) for columns in (3, 5) for name in (wide_tables.SELECT, wide_tables.SCAN, wide_tables.PEER)
    ]
    assert said == ["3 columns", "5 columns"]
    assert len(wide_tables.verdicts(series)) == 4
