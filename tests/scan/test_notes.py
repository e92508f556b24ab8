"""A condition that skips nothing says why: in prune and in the explanation of a scan."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest
from support.footers import change_footer
from support.scan_lake import Lake
from thrift.Thrift import TType


@pytest.fixture
def months(lake: Lake) -> Lake:
    """Three files of a month each, with times as INT96 and in microseconds, and floats that may be NaN."""
    for month in (1, 2, 3):
        moment = pa.array([datetime(2024, month, 1)], pa.timestamp("us"))
        lake.write(f"a{month}.parquet", {"old": moment, "i": [month]}, use_deprecated_int96_timestamps=True)
    lake.analyze(bounds="footers")
    return lake


@pytest.mark.parametrize(
    ("where", "note"),
    [
        ("old < '2024-02-01'", "skips nothing: no file or row group has bounds of old"),
        ("year(old) = 2023", "skips nothing: no file or row group has bounds of old"),
        ("i > 0", "nothing is skipped: each file and row group may hold rows that match"),
        ("abs(i) = 1", "not usable for pruning: ABS(i) = 1 (abs of a column is not unwrapped)"),
        ("i = 1 OR abs(i) = 1", "not usable for pruning: ABS(i) = 1"),
    ],
)
def test_a_condition_that_skips_nothing_says_why(months: Lake, where: str, note: str) -> None:
    """One note or more, at both doors."""
    scan = months.scan(where)
    assert len(scan.paths) == 3
    assert any(note in each for each in scan.explain().notes)
    assert any(note in each for each in months.session.prune("dfs.tmp.t", where, time_zone="UTC").notes)


@pytest.mark.parametrize("bounds", ["footers", "auto"])
def test_a_footer_that_is_not_believed_is_told(lake: Lake, bounds: str) -> None:
    """By column, writer and report, whether or not the data was read instead, and only where the column is asked."""
    lake.write("a.parquet", {"t": ["a", "b"], "n": [1, 2]})
    lake.write("b.parquet", {"t": ["c", "d"], "n": [3, 4]})
    path = lake.root / "b.parquet"
    change_footer(path, lambda footer: footer.update({6: (TType.STRING, b"parquet-mr version 1.8.1 (build 1)")}))
    result = lake.session.analyze("dfs.tmp.t", bounds=bounds)
    told = (
        "t: bounds in footers of parquet-mr 1.8.1 are not believed (trinodb/trino#1798 (PARQUET-251), "
        "apache/parquet-java#367 (PARQUET-686)); ANALYZE … BOUNDS (t) reads the data of such files"
    )
    for notes in (lake.scan("t = 'a'").explain().notes, lake.session.prune("dfs.tmp.t", "t = 'a'").notes):
        assert told in notes
    assert len(lake.scan("t = 'a'").paths) == (2 if bounds == "footers" else 1)
    assert not lake.scan("n = 1").explain().notes
    assert result.without_bounds == {} if bounds == "auto" else "t" in result.without_bounds


def test_a_condition_that_skips_needs_no_note(months: Lake) -> None:
    """Nothing is said where files are skipped, or where nothing is asked."""
    assert not months.scan("i = 2").explain().notes
    assert not months.scan().explain().notes


def test_scans_prune_times_in_the_zone_that_rows_are_judged_in(lake: Lake) -> None:
    """UTC unless another is named: one file of a day each, and no widening; prune alone knows no zone, and says so."""
    for day in (1, 2, 3, 4):
        moment = pa.array([datetime(2024, 1, day)], pa.timestamp("us"))
        lake.write(f"{day}.parquet", {"ts": moment, "utc": moment.cast(pa.timestamp("us", "UTC"))})
    lake.analyze()
    for column in ("ts", "utc"):
        where = f"{column} < TIMESTAMP '2024-01-02 00:00:00'"
        assert len(lake.scan(where).paths) == 1
        assert lake.scan(where).to_arrow().num_rows == 1
        pruned = lake.session.prune("dfs.tmp.t", where)
        assert pruned.files_count.kept > 1
        assert "time_zone" in pruned.notes[0]
