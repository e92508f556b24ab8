"""A statement ends when its time is over, and its query keeps to its memory and threads; nothing is changed by then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.config import Settings
from metastore.config.sql import SqlSettings
from metastore.errors import EngineError, InvalidRequestError
from metastore.session import Session, connect

ENDLESS = "SELECT max(hash(a.range, b.range)) AS h FROM range(10000000) a, range(10000000) b"
NUMBERS = "SELECT range AS id, repeat('x', 50) || range AS t FROM range({})"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session with a catalog, whose statements have two seconds."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"{tmp_path}/lake"}
    given = {"iceberg.location.base_path": str(tmp_path), "catalogs.lake": lake, "sql.timeout": "2 s"}
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as opened:
        opened.sql("CREATE SCHEMA lake.db")
        opened.sql("CREATE TABLE lake.db.t (id BIGINT, t VARCHAR)")
        yield opened


@pytest.mark.parametrize(
    "text",
    [
        ENDLESS,
        f"INSERT INTO lake.db.t (id) SELECT CAST(h % 7 AS BIGINT) FROM ({ENDLESS})",
        f"INSERT OVERWRITE lake.db.t SELECT CAST(h % 7 AS BIGINT), 'x' FROM ({ENDLESS})",
        f"CREATE TABLE lake.db.u AS SELECT CAST(h % 7 AS BIGINT) AS id FROM ({ENDLESS})",
        f"""MERGE INTO lake.db.t USING (SELECT CAST(h % 7 AS BIGINT) AS id FROM ({ENDLESS})) s ON t.id = s.id
        WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)""",
    ],
    ids=["select", "insert", "overwrite", "create table as", "merge"],
)
def test_a_statement_ends_in_time_and_leaves_nothing(session: Session, text: str, tmp_path: Path) -> None:
    """It ends within a second of its time; no snapshot, no table and no data file is left."""
    began = time.monotonic()
    with pytest.raises(EngineError, match=r"within 1 seconds and was stopped.*drill\.metastore\.sql\.timeout"):
        session.sql(text, timeout=1)
    assert time.monotonic() - began < 2.5
    assert session.sql("SELECT count(*) AS n FROM lake.db.t").to_pylist() == [{"n": 0}]
    assert [row["TABLE_NAME"] for row in session.sql("SHOW TABLES FROM lake.db").to_pylist()] == ["t"]
    assert list((tmp_path / "lake").rglob("*.parquet")) == []
    assert session.sql("SELECT 1 AS one").to_pylist() == [{"one": 1}]


def test_a_refresh_has_the_time_and_memory_of_a_statement(tmp_path: Path) -> None:
    """With DuckDB, at each door: it ends within a second, says what to raise, and leaves neither rows nor folders."""
    workspace = {"location": str(tmp_path / "data"), "writable": True}
    given = {"iceberg.location.base_path": str(tmp_path), "storage.dfs.workspaces.w": workspace}
    for name, limits, refused in (
        ("slow", {"timeout": "1 s"}, r"within 1 seconds and was stopped.*drill\.metastore\.sql\.timeout"),
        ("large", {"memory": "16 MiB"}, r"more memory than 16 MiB \(drill\.metastore\.sql\.memory\)"),
    ):
        settings = Settings.from_mapping({"drill.metastore": {**given, "sql": limits}}, environ={})
        (tmp_path / "data/t").mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": range(60_000)}), tmp_path / "data/t/a.parquet")
        with connect(settings) as opened:
            opened.analyze("dfs.w.t")
            pairs = "SELECT max(a.id * 7919 % (b.id + 1)) AS h FROM dfs.w.t a CROSS JOIN dfs.w.t b"
            lists = "SELECT collect_list(concat(a.id, repeat('x', 500))) AS h FROM dfs.w.t a"
            query = pairs if name == "slow" else lists
            opened.sql(f"CREATE MATERIALIZED VIEW dfs.w.{name} AS {query}", timeout="1 min")
            before = sorted((tmp_path / "data").rglob("*"))
            began = time.monotonic()
            with pytest.raises(EngineError, match=refused):
                opened.materialized_views.refresh(f"dfs.w.{name}")
            assert name == "large" or time.monotonic() - began < 3
            assert sorted((tmp_path / "data").rglob("*")) == before


def test_the_configured_time_holds_without_an_argument(session: Session) -> None:
    """And None lifts it for one call."""
    with pytest.raises(EngineError, match="within 2 seconds"):
        session.sql(ENDLESS)
    assert session.sql(NUMBERS.format(10), timeout=None).num_rows == 10


def test_little_memory_spills_or_says_what_is_short(session: Session) -> None:
    """A sort of more rows than fit goes to temporary files; what cannot, names the limit and no file of a table."""
    many = f"SELECT count(*) AS n FROM (SELECT * FROM ({NUMBERS.format(1_500_000)}) ORDER BY t DESC OFFSET 1)"
    assert session.sql(many, memory="64 MiB", timeout="1 minute").to_pylist() == [{"n": 1_499_999}]
    with pytest.raises(EngineError, match=r"more memory than 16 MiB \(drill\.metastore\.sql\.memory\)"):
        session.sql(f"SELECT list(t) AS l FROM ({NUMBERS.format(1_500_000)})", memory="16 MiB", timeout="1 minute")


@pytest.mark.parametrize(("limits", "threads"), [({"threads": 1}, 1), ({"memory": 1 << 20}, 1), ({"threads": 3}, 3)])
def test_a_query_has_its_threads(session: Session, limits: dict[str, Any], threads: int) -> None:
    """As many as are given, and one alone where memory is small."""
    assert session.sql("SELECT current_setting('threads') AS n", **limits).to_pylist() == [{"n": threads}]


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"timeout": 0}, "no time above zero"),
        ({"timeout": "soon"}, "not valid"),
        ({"timeout": True}, "no time above zero"),
        ({"timeout": float("inf")}, "not valid"),
        ({"memory": "many"}, "not valid"),
        ({"memory": 0}, "no size above zero"),
        ({"threads": 1.5}, "no whole number"),
        ({"rows": 5}, "no limit 'rows'; there are timeout, memory, threads"),
    ],
)
def test_a_wrong_limit_is_an_error(session: Session, limits: dict[str, Any], problem: str) -> None:
    """It says which value, and what is accepted."""
    with pytest.raises(InvalidRequestError, match=problem):
        session.sql("SELECT 1", **limits)


def test_limits_as_people_write_them() -> None:
    """Text, numbers and timedeltas mean the same; what is not given stays."""
    own = SqlSettings(timedelta(hours=1), 5, 2)
    assert own.with_limits({}) == own
    for minute in ("1 min", 60, 60.0, timedelta(minutes=1)):
        assert own.with_limits({"timeout": minute}) == SqlSettings(timedelta(minutes=1), 5, 2)
    assert own.with_limits({"memory": "2 GiB", "threads": 0, "timeout": None}) == SqlSettings(None, 2 << 30, 0)
