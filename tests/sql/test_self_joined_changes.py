"""A change of a table by its own rows: by tasks it does what it does on this machine, and what DuckDB does."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from support.task_engine import TaskEngine

from metastore.config import Settings
from metastore.session import Session, connect

FILES = 4
CHANGES = [
    "DELETE FROM {t} USING {t} u WHERE t.id = u.id + 1",
    "DELETE FROM {t} USING {t} u WHERE t.id < u.id AND u.k = 'k3'",
    "DELETE FROM {t} WHERE id IN (SELECT u.id * 2 FROM {t} u)",
    "DELETE FROM {t} WHERE EXISTS (SELECT 1 FROM {t} u WHERE u.id = t.id - 5)",
    "UPDATE {t} SET k = u.k FROM {t} u WHERE t.id = u.id + 1",
    "UPDATE {t} SET k = (SELECT max(u.k) FROM {t} u WHERE u.id < t.id)",
    "MERGE INTO {t} USING {t} u ON t.id = u.id + 3 WHEN MATCHED THEN UPDATE SET k = u.k",
    """MERGE INTO {t} USING (SELECT id + 10 AS id, k FROM {t}) u ON t.id = u.id WHEN MATCHED THEN DELETE
    WHEN NOT MATCHED THEN INSERT (id, k) VALUES (u.id, u.k)""",
    "UPDATE {t} SET k = (SELECT u.k FROM {t} u WHERE u.id = t.id + 1)",
    "UPDATE {t} SET k = coalesce((SELECT u.k FROM {t} u WHERE u.id = t.id - 6), 'none') WHERE id > 3",
    "DELETE FROM {t} WHERE (SELECT u.k FROM {t} u WHERE u.id = t.id + 7) = 'k2'",
    "DELETE FROM {t} WHERE NOT EXISTS (SELECT 1 FROM {t} u WHERE u.id = t.id + 5)",
    "DELETE FROM {t} WHERE id NOT IN (SELECT u.id FROM {t} u WHERE u.k = 'k1')",
    "UPDATE {t} SET k = v.k FROM {t} u JOIN {t} v ON u.id = v.id - 1 WHERE t.id = u.id",
    "DELETE FROM {t} USING {t} u RIGHT JOIN {t} v ON u.id = v.id + 2 WHERE t.id = v.id + 1",
    "UPDATE {t} SET k = u.k FROM (SELECT max(id) AS id, max(k) AS k FROM {t}) u WHERE t.id = u.id - 1",
]


@pytest.fixture(params=["tasks", pytest.param("here", marks=pytest.mark.exhaustive)])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    """A session whose statements run by tasks, whatever their size, or on this machine."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"{tmp_path}/lake"}
    given = {"drill.metastore": {"iceberg.location.base_path": str(tmp_path / "m"), "catalogs.lake": lake}}
    engine = TaskEngine() if request.param == "tasks" else None
    with connect(Settings.from_mapping(given, environ={}), engine) as opened:
        opened.sql("CREATE SCHEMA lake.db")
        yield opened


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("change", CHANGES)
def test_each_row_is_changed_once(session: Session, change: str, mode: str) -> None:
    """Rows of several files, whose partners are in other files."""
    properties = ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))
    session.sql(f"CREATE TABLE lake.db.t (id BIGINT, k VARCHAR) TBLPROPERTIES ({properties})")
    with duckdb.connect() as judge:
        judge.execute("CREATE TABLE t (id BIGINT, k VARCHAR)")
        for number in range(FILES):
            rows = ", ".join(f"({number + FILES * place}, 'k{number}')" for place in range(5))
            session.sql(f"INSERT INTO lake.db.t VALUES {rows}")
            judge.execute(f"INSERT INTO t VALUES {rows}")
        before = len(session.catalogs.open("lake").load_table("db.t").snapshots())
        session.sql(change.format(t="lake.db.t"))
        judge.execute(change.format(t="t"))
        expected = sorted(judge.sql("FROM t").fetchall())
    found = session.sql("SELECT id, k FROM lake.db.t").to_pylist()
    assert sorted((row["id"], row["k"]) for row in found) == expected
    table = session.catalogs.open("lake").load_table("db.t")
    ids: list[Any] = table.scan().to_arrow()["id"].to_pylist()
    assert sorted(ids) == [row[0] for row in expected]
    assert len(table.snapshots()) == before + 1


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_the_changed_rows_are_divided_and_never_their_partners(session: Session, mode: str) -> None:
    """Partners that no task can hold are not divided in place of a small changed part: one task changes a file."""
    properties = ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))
    session.sql(
        f"CREATE TABLE lake.db.t (p BIGINT, id BIGINT, k VARCHAR) PARTITIONED BY (p) TBLPROPERTIES ({properties})"
    )
    table = session.catalogs.open("lake").load_table("db.t")
    random = np.random.default_rng(7)
    for part in range(3):  # three files of which each task could hold one
        rows = 40 if part == 0 else 30_000
        texts = [b64encode(random.bytes(750)).decode() for _ in range(rows)]
        ids = np.arange(rows) + part * 100_000
        table.append(pa.table({"p": pa.array(np.full(rows, part)), "id": pa.array(ids), "k": pa.array(texts)}))
    text = "UPDATE lake.db.t SET k = 'changed' FROM lake.db.t u WHERE t.id + 100001 = u.id AND t.p = 0"
    assert session.sql(text).to_pylist()[0]["updated"] == 40
    found = session.sql(
        "SELECT count(*) AS n, count(DISTINCT id) AS ids FROM lake.db.t WHERE k = 'changed'"
    ).to_pylist()
    assert found == [{"n": 40, "ids": 40}]
    assert session.sql("SELECT count(*) AS n FROM lake.db.t").to_pylist() == [{"n": 60_040}]
    text = "DELETE FROM lake.db.t USING lake.db.t u WHERE t.id + 100001 <= u.id AND t.p = 0 AND t.id < 20"
    session.sql(text)
    assert session.sql("SELECT count(*) AS n FROM lake.db.t").to_pylist() == [{"n": 60_020}]
