"""The benchmark of the console keeps working, and every page in it is answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import console
from benchmarks.measuring import Pace

pytestmark = [pytest.mark.benchmarks, pytest.mark.slow]


def test_every_page_is_measured(tmp_path: Path) -> None:
    """Each with the status of success; else this raises. All but the first page are held to the goal."""
    series = console.run(str(tmp_path), 60, 1_200, 7, Pace(rounds=1), lambda _: None)
    assert len(series) == len({one.case for one in series}) == 8
    assert {verdict.holds is None for verdict in console.verdicts(series)} == {False}
    assert len(console.verdicts(series)) == 7
