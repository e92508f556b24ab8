"""Who answers for a materialized view: its rows, while they are fresh enough for who asks, else its query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.compute as pc
import pytest

from metastore.errors import InvalidRequestError
from metastore.model.materialized_view_unit import RefreshStatus
from metastore.session import Session
from metastore.sql.views import expand, tables_of
from metastore.sql.views.freshness import Freshness, LastRefresh

AddFile = Callable[..., Path]
M = "dfs.tmp.m"


@pytest.fixture(autouse=True)
def refreshed(session: Session) -> None:
    """A materialized view that was refreshed a moment ago."""
    session.materialized_views.define(M, "SELECT Region, count(*) AS n FROM sales GROUP BY Region")
    session.materialized_views.refresh(M)


def stored(session: Session, freshness: str) -> bool:
    """Whether the stored rows would answer."""
    [table] = tables_of(expand(f"SELECT * FROM {M}", session.views.lookup(freshness)))
    return table.name != "sales"


def test_fresh_rows_answer_for_everyone(session: Session) -> None:
    """However strict the question is."""
    assert [stored(session, f) for f in ("strict", "bounded(0)", "bounded(5)", "any")] == [True, True, True, True]


@pytest.mark.parametrize("analyzed", [True, False])
def test_stale_rows_answer_for_those_who_may_take_them(
    session: Session, add_sales: AddFile, now: SimpleNamespace, analyzed: bool
) -> None:
    """A file that nobody has analyzed counts, too: strict means strict."""
    add_sales("second", [50])
    if analyzed:
        session.analyze("dfs.tmp.sales")
    now.ms += 4 * 60_000
    assert [stored(session, f) for f in ("strict", "bounded(3)", "bounded(5)", "any")] == [False, False, True, True]
    session.materialized_views.refresh(M)
    assert stored(session, "strict")


def test_metadata_may_come_to_know_what_a_refresh_has_read(session: Session, add_sales: AddFile) -> None:
    """A refresh reads files that nobody has analyzed yet; the ANALYZE that follows tells nothing new of them."""
    add_sales("second", [50])
    session.materialized_views.refresh(M)
    session.analyze("dfs.tmp.sales")
    assert session.materialized_views.status(M) is RefreshStatus.COMPLETE
    assert stored(session, "strict")


def test_metadata_that_knows_other_files_makes_the_rows_stale(session: Session, add_sales: AddFile) -> None:
    """One more than the refresh has read, also when it is gone again, as long as the metadata has it."""
    add_sales("second", [50])
    session.materialized_views.refresh(M)
    third = add_sales("third", [51])
    session.analyze("dfs.tmp.sales")
    third.unlink()
    assert session.materialized_views.status(M) is RefreshStatus.STALE
    assert not stored(session, "strict")
    session.analyze("dfs.tmp.sales")
    assert session.materialized_views.status(M) is RefreshStatus.COMPLETE
    assert stored(session, "strict")


def test_the_same_files_in_another_format_are_other_rows(session: Session, data: Path) -> None:
    """To CSV the first line is a header: a count, which uses no column, is one less."""
    (data / "lines").mkdir()
    (data / "lines" / "part-0").write_text('{"a":1}\n{"a":2}\n')
    session.analyze("dfs.tmp.lines", format="json")
    session.materialized_views.define("dfs.tmp.c", "SELECT count(*) AS n FROM lines")
    session.materialized_views.refresh("dfs.tmp.c")
    session.analyze("dfs.tmp.lines", format="csv")
    assert session.materialized_views.status("dfs.tmp.c") is RefreshStatus.STALE
    assert session.sql("SELECT n FROM dfs.tmp.c").to_pylist() == [{"n": 1}]
    assert session.materialized_views.refresh("dfs.tmp.c").reason == (
        "dfs.tmp.lines is read in another format, with other options, or declared otherwise"
    )
    assert session.materialized_views.status("dfs.tmp.c") is RefreshStatus.COMPLETE
    assert session.sql("SELECT n FROM dfs.tmp.c").to_pylist() == [{"n": 1}]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"comment": "#"}, {"comment": "5"}),
        ({"header": "true"}, {"header": "true", "skipLines": "1"}),
        ({"nullValue": "x"}, {"nullValue": "7"}),
    ],
)
def test_the_same_files_with_other_options_of_text_are_other_rows(
    session: Session, data: Path, first: dict[str, str], then: dict[str, str]
) -> None:
    """Options change how a file is read, and neither its size nor its time: stored rows answer for the old ones."""
    (data / "lines").mkdir()
    (data / "lines" / "part-0.csv").write_text("a\na\n5\n7\n")
    session.analyze("dfs.tmp.lines", options=first)
    query = "SELECT a FROM dfs.tmp.lines"
    session.materialized_views.define("dfs.tmp.c", query)
    session.materialized_views.refresh("dfs.tmp.c")
    assert session.materialized_views.status("dfs.tmp.c") is RefreshStatus.COMPLETE
    session.analyze("dfs.tmp.lines", options=then)
    assert session.materialized_views.status("dfs.tmp.c") is RefreshStatus.STALE
    assert session.sql("SELECT a FROM dfs.tmp.c").to_pylist() == session.sql(query).to_pylist()
    session.materialized_views.refresh("dfs.tmp.c")
    assert session.sql("SELECT a FROM dfs.tmp.c").to_pylist() == session.sql(query).to_pylist()


def test_files_whose_state_was_kept_otherwise_are_noted_anew(session: Session) -> None:
    """As by an older release: the rows answer for nobody who is strict, until a refresh finds that they are right."""
    unit = session.materialized_views.get(M)
    refreshed = LastRefresh.of(unit)
    assert refreshed is not None
    sources = {table: replace(state, files="told otherwise") for table, state in refreshed.sources.items()}
    before = replace(refreshed, sources=sources).stored_in(unit)
    session.metastore.materialized_views.replace(before, seen=unit)
    assert not stored(session, "strict")
    assert session.materialized_views.refresh(M).mode == "up to date"
    assert stored(session, "strict")


def test_a_changed_file_of_the_same_size_is_noticed(session: Session, add_sales: AddFile) -> None:
    """By its time."""
    add_sales("first", range(10))
    assert not stored(session, "strict")


@pytest.mark.parametrize("freshness", ["strict", "bounded(5)", "any"])
@pytest.mark.parametrize("left", ["nothing", "no rows", "other rows"])
def test_rows_that_somebody_touched_answer_for_nobody(session: Session, data: Path, freshness: str, left: str) -> None:
    """The query does, and a refresh makes them anew."""
    folder = data / str(session.materialized_views.get(M).data_location)
    [file] = folder.glob("part-*.parquet")
    if left == "nothing":
        folder.rename(data / "gone")
    elif left == "no rows":
        file.unlink()
    else:
        (folder / "more.parquet").write_bytes(file.read_bytes())
    session.views.freshness = Freshness.of(freshness)
    assert not stored(session, freshness)
    assert session.sql(f"SELECT sum(n) AS n FROM {M}")["n"].to_pylist() == [10]
    assert session.materialized_views.refresh(M).mode == "full"
    assert stored(session, "strict")


def test_a_view_renamed_to_another_workspace_answers(session: Session) -> None:
    """By its query, since its rows are known in the old one alone."""
    session.materialized_views.rename(M, "dfs.fixed.m")
    assert session.sql("SELECT sum(n) AS n FROM dfs.fixed.m")["n"].to_pylist() == [10]


def test_rows_whose_metadata_is_gone_are_made_anew(session: Session) -> None:
    """All was purged, and the sources were analyzed again: they are as they were, but nobody knows the rows."""
    session.tables.modify().purge()
    session.analyze("dfs.tmp.sales")
    assert not stored(session, "strict")
    assert session.materialized_views.refresh(M).mode == "full"
    assert stored(session, "strict")


@pytest.mark.parametrize("freshness", ["strict", "any"])
def test_the_answer_is_the_querys(rows: Callable[..., list[dict[str, Any]]], freshness: str) -> None:
    """Whoever gives it, and whatever is asked of it."""
    assert rows(f"SELECT n FROM {M} WHERE Region > 0", freshness) == [{"n": 3}, {"n": 3}]


def test_the_query_answers_in_the_types_of_the_rows(session: Session, add_sales: AddFile) -> None:
    """DuckDB adds integers up to one of 128 bits, which comes as a decimal; the view's column is a BIGINT."""
    session.materialized_views.define("dfs.tmp.sums", "SELECT Region, sum(id) AS s, avg(id) AS a FROM sales GROUP BY 1")
    session.materialized_views.refresh("dfs.tmp.sums")
    fresh = session.sql("SELECT * FROM dfs.tmp.sums")
    add_sales("second", [50])
    stale = session.sql("SELECT * FROM dfs.tmp.sums")
    assert stale.schema == fresh.schema
    assert pc.sum(stale["s"]).as_py() == pc.sum(fresh["s"]).as_py() + 50


def test_a_query_that_is_not_steady_is_never_fresh(session: Session) -> None:
    """Its rows are of the time of the refresh."""
    session.materialized_views.define("dfs.tmp.today", "SELECT id, current_date() AS day FROM sales")
    session.materialized_views.refresh("dfs.tmp.today")
    for freshness, from_rows in (("strict", False), ("bounded(5)", True), ("any", True)):
        [table] = tables_of(expand("SELECT * FROM dfs.tmp.today", session.views.lookup(freshness)))
        assert (table.name != "sales") is from_rows


def test_a_replaced_view_has_no_rows(session: Session) -> None:
    """Those there were are of another query."""
    session.materialized_views.define(M, "SELECT Region, sum(id) AS n FROM sales GROUP BY Region", replace=True)
    assert not stored(session, "any")


@pytest.mark.parametrize(
    ("text", "freshness"),
    [
        ("strict", Freshness("strict")),
        (" ANY ", Freshness("any")),
        ("bounded(15)", Freshness("bounded", 15.0)),
        ("Bounded ( 0.5 )", Freshness("bounded", 0.5)),
    ],
)
def test_freshness_in_words(text: str, freshness: Freshness) -> None:
    """In any case, with blanks."""
    assert Freshness.of(text) == freshness
    assert Freshness.of(freshness) is freshness


@pytest.mark.parametrize("text", ["", "fresh", "bounded", "bounded()", "bounded(-1)", "bounded(1 hour)"])
def test_other_words_are_refused(text: str) -> None:
    """With those that there are."""
    with pytest.raises(InvalidRequestError, match=r"strict, bounded\(minutes\) or any"):
        Freshness.of(text)
