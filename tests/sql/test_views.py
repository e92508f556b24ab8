"""Statements of views and materialized views: what they answer, and where they say that something is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.config import Settings
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.session import Session, connect


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[Session]:
    """A session with the analyzed table ``dfs.tmp.nation``."""
    (tmp_path / "data/nation").mkdir(parents=True)
    rows = [{"key": 1, "name": "a"}, {"key": 2, "name": "b"}, {"key": 3, "name": "b"}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "data/nation/a.parquet")
    workspaces = {"tmp": {"location": f"{tmp_path}/data", "writable": True}}
    given = {"iceberg.location.base_path": str(tmp_path), "storage.dfs.workspaces": workspaces}
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as session:
        session.analyze("dfs.tmp.nation")
        yield session


def one(ms: Session, text: str) -> dict[str, Any]:
    """The one row that the statement answers."""
    [row] = ms.sql(text).to_pylist()
    return dict(row)


def test_the_life_of_a_view(ms: Session) -> None:
    """Created, described, replaced, renamed, dropped; each answers what it did."""
    query = "SELECT key, count(*) FROM nation GROUP BY key"
    created = f"CREATE VIEW dfs.tmp.v (k COMMENT 'it''s a key', n) COMMENT 'a view' AS\n{query}"
    assert one(ms, created) == {"ok": True, "summary": "view dfs.tmp.v is created"}
    assert ms.sql("DESCRIBE dfs.tmp.v").to_pylist() == [
        {"COLUMN_NAME": "k", "DATA_TYPE": "BIGINT", "IS_NULLABLE": "YES", "COMMENT": "it's a key"},
        {"COLUMN_NAME": "n", "DATA_TYPE": "BIGINT", "IS_NULLABLE": "YES", "COMMENT": None},
    ]
    with pytest.raises(InvalidRequestError, match="exists already"):
        ms.sql("create view dfs.tmp.v as select 1 as a")
    assert one(ms, "CREATE VIEW IF NOT EXISTS dfs.tmp.v AS SELECT 1 AS a")["ok"] is False
    assert one(ms, "CREATE OR REPLACE VIEW dfs.tmp.`v` AS SELECT key FROM nation;")["summary"].endswith("replaced")
    assert one(ms, "ALTER VIEW dfs.tmp.v RENAME TO dfs.tmp.w")["summary"] == "view dfs.tmp.v is renamed to dfs.tmp.w"
    assert one(ms, "DROP VIEW dfs.tmp.w")["ok"] is True
    assert one(ms, "DROP VIEW IF EXISTS dfs.tmp.w") == {"ok": False, "summary": "there is no view dfs.tmp.w"}
    assert ms.views.list() == []


@pytest.mark.parametrize("kind", ["VIEW", "MATERIALIZED VIEW"])
def test_show_create_makes_it_again(ms: Session, kind: str) -> None:
    """With comments, odd names and the query as it was written."""
    ms.sql(f"CREATE {kind} dfs.tmp.`a view` (`the key` COMMENT 'c''s', n) COMMENT 'x' AS SELECT key, name FROM nation")
    statement = one(ms, f"SHOW CREATE {kind} dfs.tmp.`a view`")["statement"]
    assert statement.startswith(f"CREATE {kind} `dfs`.`tmp`.`a view` (`the key` COMMENT 'c''s', `n`) COMMENT 'x'\nAS\n")
    described = ms.sql("DESCRIBE dfs.tmp.`a view`")
    ms.sql(f"DROP {kind} dfs.tmp.`a view`")
    ms.sql(statement)
    assert ms.sql("DESCRIBE dfs.tmp.`a view`") == described
    assert one(ms, f"SHOW CREATE {kind} dfs.tmp.`a view`")["statement"] == statement


def test_the_life_of_a_materialized_view(ms: Session) -> None:
    """A refresh answers what it did, and why."""
    ms.sql("CREATE MATERIALIZED VIEW dfs.tmp.m AS SELECT name, count(*) AS n FROM nation GROUP BY name")
    first = one(ms, "REFRESH MATERIALIZED VIEW dfs.tmp.m")
    assert {key: first[key] for key in ("view", "mode", "reason", "files", "rows", "engine")} == {
        "view": "dfs.tmp.m",
        "mode": "full",
        "reason": "it was never refreshed",
        "files": 1,
        "rows": 2,
        "engine": "duckdb",
    }
    assert one(ms, "REFRESH MATERIALIZED VIEW dfs.tmp.m INCREMENTAL")["mode"] == "up to date"
    assert one(ms, "REFRESH MATERIALIZED VIEW dfs.tmp.m FULL")["reason"] == "it was asked for"
    ms.sql("ALTER MATERIALIZED VIEW dfs.tmp.m RENAME TO dfs.tmp.o")
    with pytest.raises(NotFoundError, match="no materialized view"):
        ms.sql("REFRESH MATERIALIZED VIEW dfs.tmp.m")
    ms.sql("DROP MATERIALIZED VIEW dfs.tmp.o")
    assert ms.materialized_views.list() == []


def test_describe_a_table(ms: Session) -> None:
    """An analyzed one, by the same words."""
    assert ms.sql("DESCRIBE dfs.tmp.nation")["COLUMN_NAME"].to_pylist() == ["key", "name"]


def test_select_from_a_view_and_a_materialized_view(ms: Session) -> None:
    """The same answer before and after the refresh."""
    ms.sql("CREATE VIEW dfs.tmp.v AS SELECT key, name AS Name FROM nation WHERE key > 1")
    ms.sql("CREATE MATERIALIZED VIEW dfs.tmp.m AS SELECT Name, count(*) AS n FROM v GROUP BY Name")
    assert ms.sql("SELECT * FROM dfs.tmp.v ORDER BY key").to_pylist() == [
        {"key": 2, "Name": "b"},
        {"key": 3, "Name": "b"},
    ]
    assert ms.sql("SELECT * FROM dfs.tmp.m").to_pylist() == [{"Name": "b", "n": 2}]
    ms.sql("REFRESH MATERIALIZED VIEW dfs.tmp.m")
    assert ms.sql("SELECT * FROM dfs.tmp.m").to_pylist() == [{"Name": "b", "n": 2}]


def test_select_takes_rows_as_old_as_the_session_says(ms: Session, tmp_path: Path) -> None:
    """Strictly fresh ones unless it says otherwise."""
    ms.sql("CREATE MATERIALIZED VIEW dfs.tmp.m AS SELECT count(*) AS n FROM nation")
    ms.sql("REFRESH MATERIALIZED VIEW dfs.tmp.m")
    pq.write_table(pa.Table.from_pylist([{"key": 4, "name": "c"}]), tmp_path / "data/nation/b.parquet")
    found = []
    for freshness in ("strict", "any", "bounded(5)", "bounded(0)"):
        ms.views.freshness = freshness
        found += ms.sql("SELECT n FROM dfs.tmp.m")["n"].to_pylist()
    assert found == [4, 3, 3, 4]
    with pytest.raises(InvalidRequestError, match="freshness is strict"):
        ms.views.freshness = "fresh"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE VIEW dfs.tmp.v\nAS SELECT key,\n  nope FROM nation", "line 3, column 3: unknown column nope"),
        ("CREATE VIEW dfs.tmp.v AS\nSELECT * FROM nations", "line 2, column 15: unknown table or view dfs.tmp.nations"),
        ("CREATE VIEW dfs.tmp.v AS", "line 1, column 25: a query is expected"),
        ("CREATE VIEW dfs.tmp.v AS SELECT FROM", "line 1, column"),
        ("CREATE VIEW dfs.tmp.v (a b) AS SELECT 1 AS a", "line 1, column 26: ) is expected, not b"),
        ("CREATE VIEW dfs.tmp.v COMMENT x AS SELECT 1 AS a", "line 1, column 31: a text in single quotes is expected"),
        ("CREATE OR REPLACE VIEW IF NOT EXISTS dfs.tmp.v AS SELECT 1 AS a", "contradict"),
        ("DROP VIEW dfs.tmp.v cascade", "line 1, column 21: the end of the statement is expected"),
        ("DESCRIBE dfs.tmp.nations", "line 1, column 10: unknown table or view dfs.tmp.nations; did you mean"),
        ("ALTER VIEW dfs.tmp.v TO dfs.tmp.w", "line 1, column 22: RENAME is expected"),
        ("ALTER VIEW dfs.tmp.v RENAME TO dfs.tmp.nation", "is the name of a table already"),
        ("SELECT 1;\n-- \ud800", "line 2, column 4: the character is not UTF-8"),
        ("REFRESH MATERIALIZED VIEW dfs.tmp.m QUICKLY", "line 1, column 37: the end of the statement is expected"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(ms: Session, text: str, said: str) -> None:
    """That of the statement, also within the query."""
    with pytest.raises((InvalidRequestError, NotFoundError)) as raised:
        ms.sql(text)
    assert said in str(raised.value)
