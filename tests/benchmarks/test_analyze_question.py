"""The benchmarks of ANALYZE keep working, and all their contenders find the same in the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import analyze, increments
from benchmarks.measuring import OURS, Pace
from metastore.engines.engine import LocalEngine

pytestmark = [pytest.mark.benchmarks, pytest.mark.spark, pytest.mark.slow]


def test_every_way_of_measuring_finds_the_same(tmp_path: Path) -> None:
    """Engines, bare footers and Spark SQL agree on files and bounds; else this raises."""
    series = analyze.run(str(tmp_path), 40, 7, Pace(rounds=1), lambda _: None)
    assert {one.case for one in series} == {analyze.FULL}
    assert {one.contender for one in series} == {
        OURS,
        analyze.ONE_PROCESS,
        analyze.ON_SPARK,
        analyze.BARE,
        analyze.AGGREGATE,
        analyze.TUNED,
    }
    assert all(verdict.holds is None for verdict in analyze.verdicts(series))


def test_every_layout_and_change_is_measured(tmp_path: Path) -> None:
    """All engines agree on files and bounds, at first and after changes; else this raises."""
    series = increments.run(str(tmp_path), 40, (2, 20), 7, Pace(rounds=1), lambda _: None)
    again = (increments.UNCHANGED, increments.ONE_FILE, increments.TOGETHER, increments.APART)
    assert {(one.size, one.case, one.contender) for one in series} == {
        (layout, case, contender)
        for layout in (2, 20)
        for case, contenders in {
            analyze.FULL: (OURS, increments.STAYS_OPEN, analyze.ONE_PROCESS, analyze.ON_SPARK, analyze.BARE),
            **dict.fromkeys(again, (OURS, increments.STAYS_OPEN, analyze.ONE_PROCESS, analyze.ON_SPARK)),
        }.items()
        for contender in contenders
    }
    assert {verdict.holds is None for verdict in increments.verdicts(series)} == {True, False}


def test_targets_that_share_their_data_see_the_same_changes(tmp_path: Path) -> None:
    """Every file is written anew, so that bounds move: to the same ones for each target."""
    data = analyze.Data(str(tmp_path / "data"), 4, 7, 2)
    with LocalEngine(1) as engine:
        targets = [analyze.Target(engine, data, str(tmp_path / name)) for name in ("a", "b")]
        first = [target.analyze().seen() for target in targets]
        then = [target.changed(data.paths).analyze().seen() for target in targets]
    assert first[0] == first[1] != then[0] == then[1]
