"""Benchmarks that build what they measure themselves keep working. No time is asserted."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import endurance, many_files, many_processes, memory, other_metastores
from benchmarks.measuring import OURS, Pace
from benchmarks.peers import drill_metastore, hive_metastore

pytestmark = pytest.mark.benchmarks


def test_all_sides_choose_the_same_files(tmp_path: Path) -> None:
    """Of three segments one, a tenth of the files, and all, just opened, again and listed; answers are compared."""
    series = many_files.run(str(tmp_path), 300, Pace(rounds=1), lambda _: None)
    assert len({one.contender for one in series}) == 4
    assert OURS in {one.contender for one in series}
    assert len({one.case for one in series}) == 9


def test_many_commits_are_followed_by_what_they_left(tmp_path: Path) -> None:
    """Two series of times, and four expectations that were all looked at."""
    series, verdicts = endurance.run(str(tmp_path), 20, 7, lambda _: None)
    assert [one.contender for one in series] == [endurance.FIRST, endurance.LAST]
    assert len(verdicts) == 4
    assert all(verdict.measured is not None for verdict in verdicts)


@pytest.mark.integration
def test_memory_is_that_of_a_process_of_its_own(tmp_path: Path) -> None:
    """Everything that is listed or pruned has a peak, and it is more than that of doing nothing."""
    _, verdicts = memory.run(str(tmp_path), 300, lambda _: None, layouts=(100,))
    nothing, *others = [verdict.measured or 0.0 for verdict in verdicts]
    assert len(others) == len(memory.CASES) - 1
    assert 0 < nothing < min(others)


@pytest.mark.integration
def test_processes_that_commit_are_looked_after(tmp_path: Path) -> None:
    """Three processes of ten commits: nothing fails and nothing is lost."""
    series, verdicts = many_processes.run(str(tmp_path), lambda _: None, processes=3, commits=10)
    assert [len(one.seconds) for one in series] == [10, 10, 10]
    assert [verdict.holds for verdict in verdicts[:2]] == [True, True]


@pytest.mark.integration
def test_a_peer_that_cannot_be_had_is_named_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Maven there is no Drill; the Hive Metastore answers every question it has an answer to."""
    monkeypatch.setattr("shutil.which", lambda _: None)
    series = other_metastores.run(str(tmp_path), 20, 7, Pace(rounds=1), lambda _: None)
    assert f"{drill_metastore.NAME} is not measured: Maven" in capsys.readouterr().out
    hive = {one.case for one in series if one.contender == hive_metastore.NAME}
    assert hive == {
        other_metastores.COMMIT,
        other_metastores.LIST,
        other_metastores.TABLE,
        other_metastores.AGAIN,
        other_metastores.UNITS,
    }
    assert {one.case for one in series if one.contender == OURS} == hive
