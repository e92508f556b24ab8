"""A condition means the columns that the query shows, at every version: bound by Iceberg's field ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from metastore.config import Settings
from metastore.session import Session, connect

HISTORIES = {
    "renamed": ["RENAME COLUMN severity TO priority"],
    "name used again": ["RENAME COLUMN severity TO priority", "ADD COLUMN severity INTEGER"],
    "name used again as text": ["RENAME COLUMN severity TO priority", "ADD COLUMN severity VARCHAR"],
    "dropped": ["DROP COLUMN severity"],
    "dropped and added again": ["DROP COLUMN severity", "ADD COLUMN severity BIGINT"],
    "swapped": ["RENAME COLUMN severity TO x", "RENAME COLUMN id TO severity", "RENAME COLUMN x TO id"],
}
CONDITIONS = ["severity = 2", "severity > 1 AND id < 25", "NOT (severity = 1)", "severity IN (2, 7)", "id + 1 = 21"]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A catalog of SQLite."""
    given: dict[str, Any] = {
        "drill.metastore.iceberg.location.base_path": f"{tmp_path}/metastore",
        "drill.metastore.catalogs.lake": {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/catalog.db",
            "warehouse": f"file://{tmp_path}/wh",
        },
    }
    with connect(Settings.from_mapping(given, environ={})) as opened:
        opened.catalogs.open("lake").create_namespace("db")
        yield opened


@pytest.mark.parametrize("history", HISTORIES)
def test_a_condition_filters_what_the_query_without_it_shows(session: Session, history: str) -> None:
    """By id, by time and by tag the snapshot's columns are asked; two files, one of which each condition skips."""
    table = session.catalogs.open("lake").create_table(
        "db.t", pa.schema([("id", pa.int64()), ("severity", pa.int32())])
    )
    for number in (1, 2):
        table.append(pa.table({"id": [number * 10], "severity": pa.array([number], pa.int32())}))
    version = table.metadata.current_snapshot_id
    session.sql("CALL lake.system.create_tag('db', 't', 'v1')")
    for change in HISTORIES[history]:
        session.sql(f"ALTER TABLE lake.db.t {change}")
    session.catalogs.open("lake").load_table("db.t").append(
        pa.table({field.name: pa.nulls(1, field.type) for field in _arrow(session)}, _arrow(session))
    )
    for clause in (f"VERSION AS OF {version}", "VERSION AS OF 'v1'"):
        query = f"SELECT * FROM lake.db.t FOR {clause}"
        shown = session.sql(query).to_pylist()
        assert sorted(row["severity"] for row in shown) == [1, 2]
        for condition in CONDITIONS:
            assert session.sql(f"{query} WHERE {condition}").to_pylist() == [{"id": 20, "severity": 2}], condition
            [files] = [
                line
                for line in map(str, session.sql(f"EXPLAIN {query} WHERE {condition}")["plan"].to_pylist())
                if line.startswith("  files: ")
            ]
            assert files == "  files: 1 of 2 read, 1 skipped" or condition.startswith("NOT")


def _arrow(session: Session) -> pa.Schema:
    return session.catalogs.open("lake").load_table("db.t").schema().as_arrow()


def test_a_branch_is_read_by_the_tables_schema(session: Session) -> None:
    """A branch's condition means today's columns, a tag's those of its snapshot."""
    catalog = session.catalogs.open("lake")
    fields: list[tuple[str, pa.DataType]] = [("id", pa.int64()), ("a", pa.string()), ("b", pa.int64())]
    table = catalog.create_table("db.t", pa.schema(fields))
    table.append(pa.table({"id": [1, 2], "a": ["one", "two"], "b": [10, 20]}))
    session.sql("CALL lake.system.create_branch('db', 't', 'dev')")
    session.sql("CALL lake.system.create_tag('db', 't', 'v1')")
    for change in ("RENAME COLUMN a TO name", "DROP COLUMN b", "ADD COLUMN b VARCHAR"):
        session.sql(f"ALTER TABLE lake.db.t {change}")
    for branch in ("main", "dev"):
        query = f"SELECT * FROM lake.db.t FOR VERSION AS OF '{branch}'"
        assert session.sql(f"{query} WHERE name = 'two' AND b IS NULL").to_pylist() == [
            {"id": 2, "name": "two", "b": None}
        ]
        assert session.sql(f"{query} WHERE b = 'x'").num_rows == 0
    old = session.sql("SELECT * FROM lake.db.t FOR VERSION AS OF 'v1' WHERE a = 'two' AND b > 10")
    assert old.to_pylist() == [{"id": 2, "a": "two", "b": 20}]
