"""The benchmark of deletes keeps working, and both programs leave the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import deletes
from benchmarks.measuring import OURS, Pace
from benchmarks.peers import iceberg_java

pytestmark = [pytest.mark.benchmarks, pytest.mark.iceberg, pytest.mark.slow]


def test_deletes_are_measured_beside_iceberg_for_java(tmp_path: Path) -> None:
    """In both format versions; else this raises."""
    series = deletes.run(str(tmp_path), 8, 1_000, 7, Pace(rounds=1), lambda _: None)
    assert {(one.case, one.contender) for one in series} == {
        (deletes.SCAN, deletes.PLAIN),
        (deletes.SCAN, deletes.EQUAL),
        *((deletes.case(version), name) for version in (2, 3) for name in (OURS, iceberg_java.NAME)),
    }
    assert all(verdict.measured is None for verdict in deletes.verdicts(series))
