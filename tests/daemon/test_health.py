"""Health: parts with scores, the worst of which is the table's; and charts of tables over time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table import Table

from metastore.daemon.health import PARTS, health_of, small_files
from metastore.daemon.policy import TableName
from metastore.daemon.report import Point, draw, points_of
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.model.run_unit import RunUnit

TABLE = TableName("lake", "shop", "orders")


@given(st.sampled_from(sorted(PARTS)), st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_score_never_rises_with_what_is_bad(name: str, one: float, other: float) -> None:
    """From 100, up to the good value, down to 0, from the bad one on."""
    part = PARTS[name]
    low, high = sorted((one, other))
    assert 0 <= part.score(high) <= part.score(low) <= 100
    assert (part.score(part.good), part.score(part.bad)) == (100, 0)


@pytest.mark.parametrize(
    ("files", "size", "partitions", "expected"),
    [(4, 4, 1, 0.0), (10, 10, 1, 0.9), (10, 10, 10, 0.0), (10, 1000, 1, 0.0), (0, 0, 0, 0.0)],
)
def test_small_files_are_those_that_rewriting_would_save(
    files: int, size: int, partitions: int, expected: float
) -> None:
    """A few are no trouble; one for each partition must be; neither are files of the target's size (100) small."""
    assert small_files(files, size, partitions, 100) == expected


def test_a_table_is_as_healthy_as_its_worst_part(make_site: Callable[..., Any]) -> None:
    """Ten files of one row, in one table, and as much again that nothing reaches; each with its number and score."""
    site = make_site()
    table = site.table("orders", commits=10)
    stray = Path(table.metadata.location.removeprefix("file://")) / "data" / "stray.parquet"
    stray.write_bytes(b"x" * sum(task.file.file_size_in_bytes for task in table.scan().plan_files()))
    os.utime(stray, (0, 0))
    [row] = health_of(site.session, TABLE, count_orphans=True)
    assert (row["snapshots"], row["manifests"], row["small_files"], row["orphans"]) == (10, 10, 0.9, 0.5)
    scores = {name: row[f"{name}_score"] for name in PARTS}
    assert scores == {"snapshots": 100, "manifests": 100, "metadata_bytes": 100, "small_files": 7, "orphans": 0}
    assert row["score"] == 0
    [row] = health_of(site.session, TABLE, count_orphans=False)
    assert (row["score"], row["orphans"]) == (7, None)


def test_all_tables_the_worst_first_and_one_that_cannot_be_read(make_site: Callable[..., Any]) -> None:
    """It stands at the top, with its error, and hides none of the others."""
    site = make_site()
    site.table("good", commits=1)
    site.table("worse", commits=6)
    site.table("empty")
    bad = site.table("bad", commits=1)
    Path(bad.metadata_location.removeprefix("file://")).write_text("no metadata")
    rows = list(health_of(site.session, None, count_orphans=False))
    assert [row["table"].rpartition(".")[2] for row in rows] == ["bad", "worse", "empty", "good"]
    assert rows[0]["error"]
    assert [row["score"] for row in rows[2:]] == [100, 100]


def test_an_error_that_nobody_foresaw_hides_none_of_the_others(
    make_site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither from the scores nor from the chart."""
    site = make_site()
    site.table("bad", commits=1)
    site.table("good", commits=1)
    load = TargetTable.load

    def defective(target: TargetTable) -> Table:
        if target.name == "bad":
            raise LookupError("unheard of")
        return load(target)

    monkeypatch.setattr(TargetTable, "load", defective)
    rows = list(health_of(site.session, None, count_orphans=False))
    assert [(row["table"], row["error"]) for row in rows] == [
        ("lake.shop.bad", "LookupError: unheard of"),
        ("lake.shop.good", None),
    ]
    assert draw(site.session, site.folder / "chart.html") == 1


@pytest.mark.parametrize(("name", "begins"), [("chart.png", b"\x89PNG"), ("chart.html", b"<!doctype html>")])
def test_a_chart_is_written(make_site: Callable[..., Any], name: str, begins: bytes) -> None:
    """As a picture, or as a page that asks nobody for anything."""
    site = make_site()
    site.table("orders", commits=3)
    file = site.folder / name
    assert draw(site.session, file, TABLE) == 1
    content = file.read_bytes()
    assert content.startswith(begins)
    if name.endswith("html"):
        assert b"lake.shop.orders" in content
        assert b"<script" not in content
        assert b"src=" not in content


def test_what_cannot_be_drawn_is_refused(make_site: Callable[..., Any]) -> None:
    """Another kind of file; a metastore without tables."""
    site = make_site()
    with pytest.raises(InvalidRequestError, match=r"\.png or \.html"):
        draw(site.session, Path("chart.pdf"))
    with pytest.raises(NotFoundError, match="nothing to draw"):
        draw(site.session, site.folder / "chart.png")


def test_runs_remember_what_snapshots_that_are_gone_told() -> None:
    """A point before each run and one after it; a run that knows nothing gives none."""
    runs = [
        RunUnit(started=10, milliseconds=5, files_before=9, bytes_before=90, files_after=1, bytes_after=80),
        RunUnit(),
    ]
    assert list(points_of(runs)) == [Point(10, 9, 90), Point(15, 1, 80)]
