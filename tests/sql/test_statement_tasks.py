"""Statements that run by tasks change a table as the same statements on this machine do, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.table import Table
from support.row_statements import COLUMNS, PARTITIONINGS, ROWS, STATEMENTS
from support.task_engine import TaskEngine

from metastore.config import Settings
from metastore.session import Session, connect


@pytest.fixture
def engine() -> TaskEngine:
    """An engine that runs statements by tasks, whatever their size."""
    return TaskEngine()


@pytest.fixture
def session(tmp_path: Path, engine: TaskEngine) -> Iterator[Session]:
    """A session on it with the schema ``lake.db``."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"{tmp_path}/lake"}
    given = {"drill.metastore": {"iceberg.location.base_path": str(tmp_path / "m"), "catalogs.lake": lake}}
    with connect(Settings.from_mapping(given, environ={}), engine) as session:
        session.sql("CREATE SCHEMA lake.db")
        yield session


def made(session: Session, name: str, clauses: str = "", files: int = 3) -> None:
    """Create the table with the same five rows in each of its first files."""
    session.sql(f"DROP TABLE IF EXISTS lake.db.{name}")
    session.sql(f"CREATE TABLE lake.db.{name} ({COLUMNS.replace('VARCHAR[]', 'ARRAY(VARCHAR)')}) {clauses}")
    for _ in range(files):
        session.sql(f"INSERT INTO lake.db.{name} VALUES {ROWS}")


def change(session: Session, statement: str) -> dict[str, Any]:
    """What a statement says that it did."""
    [row] = session.sql(statement).to_pylist()
    return dict(row)


def loaded(session: Session, name: str) -> Table:
    """The table as PyIceberg has it."""
    return session.catalogs.open("lake").load_table(f"db.{name}")


def texts(rows: pa.Table) -> list[str]:
    """Rows that compare whatever their order, NaN too."""
    return sorted(map(repr, rows.to_pylist()))


def written(folder: Path) -> set[str]:
    """The files of rows and deletes in the lake."""
    return {str(path) for path in (folder / "lake").rglob("data/**/*") if path.is_file()}


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(PARTITIONINGS),
    st.sampled_from([1, 2, 3]),
    st.sampled_from(["copy-on-write", "merge-on-read"]),
    st.sampled_from(["none", "hash", "range"]),
    st.lists(STATEMENTS, min_size=1, max_size=3),
)
def test_a_table_changes_as_in_duckdb(
    session: Session, partitioned: str, version: int, mode: str, distribution: str, statements: list[str]
) -> None:
    """Rows, counts and the records of the summary are DuckDB's, as this package and PyIceberg read them."""
    modes = ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))
    properties = f"'format-version' = {version}, 'write.distribution-mode' = '{distribution}', {modes}"
    made(session, "t", f"{partitioned} TBLPROPERTIES ({properties})")
    with duckdb.connect() as judge:
        judge.execute("SET TimeZone = 'UTC'")
        judge.execute(f"CREATE TABLE t ({COLUMNS})")
        for _ in range(3):
            judge.execute(f"INSERT INTO t VALUES {ROWS}")
        for statement in statements:
            try:
                counts = judge.execute(statement.format(t="t", n="t")).fetchone()
            except duckdb.Error as error:
                pytest.fail(f"DuckDB refuses {statement}: {error}")
            told = change(session, statement.format(t="lake.db.t", n="t"))
            assert counts is not None
            assert told["inserted"] + told["updated"] + told["deleted"] == counts[0], statement
            expected = texts(judge.sql("SELECT * FROM t").to_arrow_table())
            assert texts(session.sql("SELECT * FROM lake.db.t")) == expected, statement
            assert loaded(session, "t").scan().to_arrow().num_rows == len(expected)
            current = loaded(session, "t").current_snapshot()
            assert current is not None
            assert current.summary is not None
            tasks = list(loaded(session, "t").scan().plan_files())
            assert current.summary["total-records"] == str(sum(task.file.record_count for task in tasks))
            assert version > 1 or not any(task.delete_files for task in tasks)
