"""A view keeps the columns that it was made with, whatever its sources get; what they lose or change is an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.scan_lake import Lake

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect

A = {"k": [1, 2], "v": [10, 20]}
B = {"k": [1, 2], "u": [5, 6]}

QUERIES = {
    "star": "SELECT * FROM a",
    "list": "(x, y) AS SELECT * FROM a",
    "joined": "SELECT * FROM a JOIN b USING (k)",
    "natural": "SELECT * FROM a NATURAL JOIN b",
    "stacked": "SELECT k, v FROM a UNION ALL SELECT * FROM b",
    "nested": "SELECT * FROM star",
    "within": "SELECT * FROM (SELECT * FROM a) AS q",
    "common": "WITH q AS (SELECT * FROM a) SELECT * FROM q",
    "qualified": "SELECT b.*, v FROM a JOIN b ON a.k = b.k",
    "unqualified": "SELECT v, u FROM a JOIN b ON a.k = b.k",
    "renamed": "SELECT p, q FROM a AS t (p, q)",
    "twice": "SELECT * FROM a UNION ALL SELECT v, k FROM a",
    "counted": "SELECT count(*) AS n FROM a",
    "filtered": "SELECT * FROM a WHERE v > 10 ORDER BY k",
}

Write = Callable[[str, dict[str, Any]], None]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A workspace ``dfs.w`` that may be written to."""
    given = {
        "drill.metastore.iceberg.location.base_path": f"{tmp_path}/store",
        "drill.metastore.storage.dfs": {
            "connection": "file:///",
            "workspaces": {"w": {"location": f"{tmp_path}/lake", "writable": True}},
        },
    }
    with connect(Settings.from_mapping(given, environ={})) as opened:
        yield opened


@pytest.fixture
def write(session: Session, tmp_path: Path) -> Write:
    """Write a table of one file anew, and analyze it."""

    def run(table: str, columns: dict[str, Any]) -> None:
        folder = tmp_path / "lake" / table
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), folder / "1.parquet")
        session.analyze(f"dfs.w.{table}")

    return run


def answer(session: Session, view: str) -> tuple[list[str], list[str]]:
    """Columns and rows of a view, which DESCRIBE and INFORMATION_SCHEMA tell alike."""
    found = session.sql(f"SELECT * FROM dfs.w.{view}")
    described = [row["COLUMN_NAME"] for row in session.sql(f"DESCRIBE dfs.w.{view}").to_pylist()]
    known = session.information_schema.columns(["COLUMN_NAME"], f"TABLE_NAME = '{view}'")["COLUMN_NAME"].to_pylist()
    assert described == known == found.column_names
    return found.column_names, sorted(map(str, found.to_pylist()))


def defined(session: Session, kind: str) -> None:
    """Every query as a view of ``kind``."""
    for name, query in QUERIES.items():
        session.sql(f"CREATE {kind} dfs.w.{name} {query if query.startswith('(') else f'AS {query}'}")


@pytest.mark.parametrize("kind", ["VIEW", "MATERIALIZED VIEW"])
def test_new_columns_of_sources_change_no_view(session: Session, write: Write, kind: str) -> None:
    """In front, behind, of a name that the other source has; before and after a refresh."""
    write("a", A)
    write("b", B)
    defined(session, kind)
    before = {name: answer(session, name) for name in QUERIES}
    if kind != "VIEW":
        for name in QUERIES:
            session.materialized_views.refresh(f"dfs.w.{name}")
        assert {name: answer(session, name) for name in QUERIES} == before
    write("a", {"new": [7, 7], "u": [0, 0], **A})
    write("b", {"v": [8, 8], "new": [9, 9], **B})
    assert {name: answer(session, name) for name in QUERIES} == before
    write("b", dict(reversed(B.items())))
    assert {name: answer(session, name) for name in QUERIES} == before
    if kind != "VIEW":
        for name in QUERIES:
            session.materialized_views.refresh(f"dfs.w.{name}")
        assert {name: answer(session, name) for name in QUERIES} == before


def test_a_lost_column_is_named_with_the_view_and_the_next_step(session: Session, write: Write) -> None:
    """Views that do not use it go on; the view that reads another's view is told of the inner one."""
    write("a", A)
    write("b", B)
    defined(session, "VIEW")
    write("a", {"k": [1]})
    assert answer(session, "counted")[0] == ["n"]
    for name in QUERIES.keys() - {"counted"}:
        inner = "star" if name == "nested" else name
        with pytest.raises(InvalidRequestError, match=rf"view dfs\.w\.{inner} reads column v of dfs\.w\.a.*OR REPLACE"):
            session.sql(f"SELECT * FROM dfs.w.{name}")
    session.sql("CREATE OR REPLACE VIEW dfs.w.star AS SELECT * FROM a")
    assert answer(session, "star")[0] == ["k"]


def test_another_type_is_named_with_the_view(session: Session, write: Write) -> None:
    """DESCRIBE tells a type that rows would not have; a view that does not read the column goes on."""
    write("a", A)
    session.sql("CREATE VIEW dfs.w.star AS SELECT * FROM a")
    session.sql("CREATE VIEW dfs.w.other AS SELECT v FROM a")
    write("a", {"k": ["x"], "v": [10]})
    with pytest.raises(InvalidRequestError, match=r"view dfs\.w\.star was made when column k .* was BIGINT.*VARCHAR"):
        session.sql("SELECT * FROM dfs.w.star")
    assert answer(session, "other") == (["v"], ["{'v': 10}"])


def test_a_view_of_an_earlier_release_is_read_as_before(session: Session, write: Write) -> None:
    """It kept no columns: its star is what its source has now."""
    write("a", A)
    session.sql("CREATE VIEW dfs.w.old AS SELECT * FROM a")
    unit = session.views.get("dfs.w.old")
    session.metastore.views.replace(replace(unit, additional_metadata=None), seen=unit)
    write("a", {"new": [7], "k": [1], "v": [2]})
    assert session.sql("SELECT * FROM dfs.w.old").column_names == ["new", "k", "v"]


@pytest.mark.parametrize("refreshed", [False, True])
def test_new_types_of_stored_rows_are_told(tmp_path: Path, refreshed: bool, caplog: pytest.LogCaptureFixture) -> None:
    """By the result and by a warning, with the column and both types; a refresh that was asked for tells them too."""
    with caplog.at_level("WARNING"):
        lake = Lake(tmp_path)
        lake.write("1.parquet", pa.table({"k": pa.array([1], pa.int32()), "s": ["x"]}))
        lake.analyze()
        views = lake.session.materialized_views
        views.define("dfs.tmp.kept", "SELECT k, s FROM dfs.tmp.t")
        if refreshed:
            assert "now" not in views.refresh("dfs.tmp.kept").reason
        lake.write("2.parquet", pa.table({"k": pa.array([2**40], pa.int64()), "s": ["y"]}))
        lake.analyze()
        assert caplog.records == []
        result = views.refresh("dfs.tmp.kept", "full")
        assert result.reason == "it was asked for; column k is BIGINT now, it was INT"
        assert [record.getMessage() for record in caplog.records] == [
            "dfs.tmp.kept takes new types: column k is BIGINT now, it was INT"
        ]
        assert views.refresh("dfs.tmp.kept", "full").reason == "it was asked for"
        lake.session.close()
