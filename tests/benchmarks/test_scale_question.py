"""The benchmark of very large tables keeps working: real and simulated files, in a tiny form."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import scale
from benchmarks.scale import Layout

pytestmark = pytest.mark.benchmarks


def test_real_and_simulated_tables_are_analyzed(tmp_path: Path) -> None:
    """Each run finds the files that it is to find, or raises; what the driver gets grows with directories alone."""
    simulated = [Layout(1_000, 10), Layout(100_000, 10), Layout(1_000, 10, columns=20)]
    series, verdicts = scale.run(str(tmp_path), 48, simulated, lambda _: None, engines=["local"])
    assert not verdicts
    assert [one.size for one in series] == [48] * 2 + [1_000] * 3 + [100_000] * 3 + [1_000] * 3
    few, many, wide = (one.figures for one in series if one.case.startswith("all files, 10 dir"))
    assert few["MB received"] == pytest.approx(many["MB received"], rel=0.01)
    assert wide["MB received"] > many["MB received"]
    assert all(one.figures["driver MB"] < 1_000 for one in series)
