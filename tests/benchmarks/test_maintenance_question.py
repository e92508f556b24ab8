"""The benchmark of maintenance keeps working, and every table has its turn in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import maintenance

pytestmark = [pytest.mark.benchmarks, pytest.mark.slow]


def test_every_table_has_its_turn(tmp_path: Path) -> None:
    """Those with work have it done, and a second pass finds nothing; else this raises."""
    series = maintenance.run(str(tmp_path), 20, lambda _: None)
    assert [one.case for one in series] == [maintenance.FIRST, maintenance.AGAIN]
    assert series[1].figures["statements a table"] < 1
    assert all(verdict.holds is None for verdict in maintenance.verdicts(series))
