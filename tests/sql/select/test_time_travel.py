"""A condition means the columns that the query shows, at every version: bound by Iceberg's field ids."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from metastore.config import Settings
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.lake.inspection import METADATA_TABLES
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


@pytest.mark.parametrize(
    ("clause", "rows"),
    [
        ("FOR SYSTEM_VERSION AS OF {first}", 1),
        ("FOR VERSION AS OF 'main'", 2),
        ("FOR SYSTEM_TIME AS OF current_timestamp", 2),
        ("FOR TIMESTAMP AS OF now()", 2),
        ("TIMESTAMP AS OF current_timestamp + INTERVAL '1' DAY - INTERVAL 1 HOUR", 2),
        ("TIMESTAMP AS OF (current_timestamp - INTERVAL '0 seconds')", 2),
        ("FOR TIMESTAMP AS OF TIMESTAMP '{between}'", 1),
        ("TIMESTAMP AS OF '{between}'", 1),
        ("TIMESTAMP AS OF '{between}+00:00'", 1),
        ("FOR SYSTEM_TIME AS OF TIMESTAMP '{between}' + INTERVAL '0' MINUTE", 1),
        ("FOR TIMESTAMP AS OF date_trunc('microsecond', TIMESTAMP '{between}')", 1),
    ],
)
def test_times_are_constants_in_the_zone_of_the_session(session: Session, clause: str, rows: int) -> None:
    """As Trino, Spark and the standard write them; without a zone it is UTC. What follows the clause is read, too."""
    table = session.catalogs.open("lake").create_table("db.t", pa.schema([("id", pa.int64())]))
    made = []
    for number in (1, 2):
        table.append(pa.table({"id": [number]}))
        made.append(table.metadata.snapshots[-1])
        while time.time_ns() // 1_000_000 <= made[-1].timestamp_ms:
            pass  # the next snapshot is of a later millisecond
    between = datetime.fromtimestamp(made[0].timestamp_ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")
    text = clause.format(first=made[0].snapshot_id, between=between)
    query = f"SELECT count(*) AS n FROM lake.db.t {text} AS x JOIN range(1) r(i) ON x.id > r.i WHERE x.id > 0"
    assert session.sql(query).to_pylist() == [{"n": rows}]


@pytest.mark.parametrize(
    ("clause", "problem"),
    [
        ("FOR TIMESTAMP AS OF id", "column 45: id is no time: Referenced column"),
        ("FOR TIMESTAMP AS OF INTERVAL '1' DAY", "column 45: INTERVAL '1' DAY is no time"),
        ("FOR SYSTEM_TIME AS OF CAST(NULL AS TIMESTAMP)", "column 47: .* is NULL, and no time"),
        ("FOR TIMESTAMP AS OF now() - INTERVAL '9' YEAR", "column 15: table db.t had no version at"),
    ],
)
def test_what_is_no_time_is_said_at_its_place(session: Session, clause: str, problem: str) -> None:
    """The text of the expression is in the message."""
    session.catalogs.open("lake").create_table("db.t", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
    with pytest.raises((InvalidRequestError, NotFoundError), match=f"line 1, {problem}"):
        session.sql(f"SELECT * FROM lake.db.t {clause}")


def test_metadata_tables_have_the_names_of_spark(session: Session) -> None:
    """``t.snapshots`` is ``t$snapshots``, unless a table has that name; also after USE."""
    catalog = session.catalogs.open("lake")
    catalog.create_table("db.t", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
    for kind in METADATA_TABLES:
        expected = session.sql(f'SELECT * FROM lake.db."t${kind}"')
        assert session.sql(f"SELECT * FROM lake.db.t.{kind}").equals(expected)
    session.sql("USE lake.db")
    assert session.sql("SELECT count(*) AS n FROM t.Snapshots s WHERE s.operation = 'append'").to_pylist() == [{"n": 1}]
    catalog.create_namespace(("db", "t"))
    catalog.create_table(("db", "t", "files"), pa.schema([("own", pa.int64())]))
    assert session.sql("SELECT * FROM lake.db.t.files").column_names == ["own"]
    with pytest.raises(NotFoundError, match=r"schema lake\.db\.u does not exist"):
        session.sql("SELECT * FROM lake.db.u.files")
