"""The demo runs from nothing and finds its own claims true; and it can find one false."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

import metastore
from demos import __main__ as demo
from demos import chapters
from demos.flights import days, load, write_day
from demos.story import ClaimError, Story
from metastore.config import load as load_conf


@pytest.mark.exhaustive
@pytest.mark.spark
def test_the_demo_runs_end_to_end(tmp_path: Path) -> None:
    """On two of the twelve months: every claim holds, and everything it makes lies in its own folder."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "demos", "--folder", str(tmp_path / "demo"), "--months", "6,7"],
        capture_output=True,
        check=False,
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": str(Path(metastore.__file__).parents[1])},
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
    assert "17 claims checked, all true" in ran.stdout
    assert "✗" not in ran.stdout
    assert sorted(path.name for path in (tmp_path / "demo").iterdir()) == ["demo.conf", "lake", "metastore"]
    assert list(elsewhere.iterdir()) == []


def test_months_without_the_late_one_are_refused() -> None:
    """The story needs the month whose file comes late."""
    ran = subprocess.run(
        [sys.executable, "-m", "demos", "--months", "7,8"],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(metastore.__file__).parents[1])},
        text=True,
    )
    assert ran.returncode == 2
    assert "with 6 among them" in ran.stderr


@pytest.mark.parametrize("months", ["june", "6,", "6.5", "0,6"])
def test_what_is_no_month_is_refused(months: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In the words of the demo."""
    with pytest.raises(SystemExit):
        demo.main(["--months", months])
    assert "months are 1 to 12" in capsys.readouterr().err


@pytest.fixture
def unplayed(monkeypatch: pytest.MonkeyPatch) -> list[chapters.Stage]:
    """Stages of demos that would have been played."""
    played: list[chapters.Stage] = []
    monkeypatch.setattr(demo, "play", lambda _, stage: played.append(stage))
    return played


def test_the_demo_removes_what_an_earlier_one_left_and_nothing_else(
    tmp_path: Path, unplayed: list[chapters.Stage], capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that has a `lake` or a `metastore` of somebody's, such as the root of this repository, is refused."""
    (tmp_path / "metastore").mkdir()
    (tmp_path / "metastore" / "precious.py").write_text("")
    assert demo.main(["--folder", str(tmp_path)]) == 1
    assert f"error: {tmp_path}/metastore would be replaced" in capsys.readouterr().err
    assert (tmp_path / "metastore" / "precious.py").exists()
    assert unplayed == []
    (tmp_path / "demo.conf").write_text("")
    assert demo.main(["--folder", str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["demo.conf"]


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of one line."""
    (tmp_path / "file").write_text("")
    assert demo.main(["--folder", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err.startswith("error: [Errno 17]")


def test_any_folder_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever its name, the configuration names it, and the last line tells where that is from here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "play", chapters.the_data)
    monkeypatch.setattr(chapters, "days", lambda _: iter(()))
    assert demo.main(["--folder", 'deep/"we[bold]ird']) == 0
    folder = tmp_path / "deep" / '"we[bold]ird'
    settings = load_conf(folder / "demo.conf")
    assert settings.iceberg.base_location.startswith(f"{folder}/metastore/")
    assert settings.storage["dfs"].workspaces["demo"].location == f"{folder}/lake"
    shown = capsys.readouterr().out
    assert f"{folder};" in shown.replace("\n", "")  # the line may be broken anywhere
    assert """--conf 'deep/"we[bold]ird/demo.conf' describe""" in shown


def test_a_false_claim_ends_the_story() -> None:
    """Nothing is glossed over: the claim is shown as failed, and is not counted."""
    text = io.StringIO()
    story = Story(Console(file=text))
    story.claim("two and two are four", holds=2 + 2 == 4)
    with pytest.raises(ClaimError, match="two and two are five"):
        story.claim("two and two are five", holds=2 + 2 == 5)
    assert story.claims == 1
    assert "✗ two and two are five" in text.getvalue()


def test_long_commands_are_shown_whole() -> None:
    """Whatever the width of the console: a path may be long."""
    text = io.StringIO()
    Story(Console(file=text, width=60)).code(f"$ metastore --conf /{'deep/' * 9}demo.conf describe dfs.demo.flights")
    assert text.getvalue().split()[-2:] == ["describe", "dfs.demo.flights"]


def test_the_flights_are_all_there(tmp_path: Path) -> None:
    """The days add up to the year, and a file holds its day in the order of the source, without the month."""
    flights = load()
    by_day = dict(days(flights))
    assert flights.num_rows == 336_776
    assert (len(by_day), sum(day.num_rows for day in by_day.values())) == (365, 336_776)
    written = write_day(tmp_path, (6, 15), by_day[6, 15])
    path = tmp_path / "month=6" / "2013-06-15.parquet"
    assert pq.ParquetFile(path).read().equals(by_day[6, 15].drop_columns(["month"]).cast(pq.read_schema(path)))
    assert pq.read_metadata(path).num_row_groups == written.row_groups
    assert (written.rows, written.bytes) == (by_day[6, 15].num_rows, path.stat().st_size)
