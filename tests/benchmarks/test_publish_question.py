"""The question of publishing answers at a tiny size: both ways count the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import publish
from benchmarks.measuring import OURS, Pace

pytestmark = [pytest.mark.benchmarks, pytest.mark.slow]


def test_all_contenders_make_the_same_table(tmp_path: Path) -> None:
    """Each of them is measured, and their answers were compared on the way."""
    said: list[str] = []
    series = publish.run(str(tmp_path / "here"), 3, Pace(1), said.append)
    assert [each.contender for each in series] == [OURS, publish.BY_PYICEBERG, OURS, OURS]
    assert len(publish.verdicts(series)) == 1
    assert list(tmp_path.iterdir()) == []
