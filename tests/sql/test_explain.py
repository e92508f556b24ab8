"""EXPLAIN before every statement: it says where the statement would run, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from metastore.errors import InvalidRequestError
from metastore.session import Session
from metastore.sql.door import _HANDLERS

ROWS = "INSERT INTO lake.db.t VALUES (1, 'a'), (2, 'b')"
HERE = "Run on this machine: "
TARGET = "lake.db.t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE"

EXPLAINED = {
    ROWS: HERE,
    "INSERT INTO lake.db.t BY NAME SELECT 'x' AS k, 3 AS id": HERE,
    "INSERT OVERWRITE lake.db.t SELECT * FROM lake.db.t": HERE,
    "DELETE FROM lake.db.t": HERE,
    "DELETE FROM lake.db.t WHERE id = 1": HERE,
    "UPDATE lake.db.t SET k = 'x'": HERE,
    f"MERGE INTO {TARGET}": HERE,
    "TRUNCATE TABLE lake.db.t": HERE,
    "CREATE TABLE lake.db.n (id BIGINT, k VARCHAR) PARTITIONED BY (k)": HERE,
    "CREATE TABLE lake.db.n AS SELECT id, k AS name FROM lake.db.t": HERE,
    "CREATE TABLE IF NOT EXISTS lake.db.n AS VALUES (1)": HERE,
    "CALL lake.system.rewrite_data_files('db', 't')": "Output[",
    "ALTER TABLE lake.db.t EXECUTE optimize": "Output[",
    "ALTER TABLE lake.db.t EXECUTE expire_snapshots(retention_threshold => '7d')": "Output[",
    "SELECT * FROM lake.db.t": "Fetch lake.db.t",
    "WITH a AS (SELECT 1 AS one) SELECT * FROM a": "",
    "FROM lake.db.t": "Fetch lake.db.t",
    "VALUES (1)": "",
}


@pytest.fixture
def session(bare: Session) -> Session:
    """With the table ``lake.db.t`` of two rows, one of which is deleted by position."""
    bare.sql("CREATE SCHEMA lake.db")
    bare.sql("CREATE TABLE lake.db.t (id BIGINT, k VARCHAR)")
    bare.sql(ROWS)
    bare.sql("DELETE FROM lake.db.t WHERE id = 2")
    return bare


def everything(folder: Path) -> dict[Path, bytes]:
    """Every file below the folder, with its content."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("statement", EXPLAINED)
def test_nothing_is_written(session: Session, tmp_path: Path, statement: str) -> None:
    """Not even a file that is removed again; the statement itself works afterwards."""
    before = everything(tmp_path / "lake")
    assert before
    lines = list(map(str, session.sql(f"EXPLAIN {statement};")["plan"].to_pylist()))
    assert lines[0].startswith(EXPLAINED[statement])
    assert everything(tmp_path / "lake") == before
    session.sql(statement)


def test_a_new_table_is_described(session: Session) -> None:
    """Its columns, and what the query fetches."""
    found = session.sql("EXPLAIN CREATE TABLE lake.db.n AS SELECT id, upper(k) AS name FROM lake.db.t WHERE id > 1")
    lines = list(map(str, found["plan"].to_pylist()))
    assert lines[1] == "Create lake.db.n (id long, name string)"
    assert lines[2] == "Fetch lake.db.t (id, k) where id > 1"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE lake.db.t (id BIGINT)", "table lake.db.t exists already"),
        ("CREATE TABLE lake.no.t AS SELECT 1 AS a", "run CREATE SCHEMA lake.no"),
        ("CREATE TABLE lake.db.n PARTITIONED BY (nope) AS SELECT 1 AS a", "nope"),
        ("CREATE TABLE lake.db.n AS SELECT nope FROM lake.db.t", "nope"),
        ("CREATE TABLE lake.db.n AS SELECT INTERVAL 1 DAY AS a", "a type that Iceberg does not support"),
        ("INSERT INTO lake.db.t SELECT 1", "the query has 1 columns, and values are expected for 2"),
        ("INSERT INTO lake.db.t (id, nope) VALUES (1, 2)", "nope"),
        ("UPDATE lake.db.t SET nope = 1", "nope"),
        ("TRUNCATE TABLE lake.db.nope", "nope"),
        ("ALTER TABLE lake.db.t EXECUTE nope", "nope"),
        ("ALTER TABLE lake.db.t ADD COLUMN c INT", "EXPLAIN ALTER TABLE is for EXECUTE"),
    ],
)
def test_it_refuses_what_the_statement_refuses(session: Session, statement: str, message: str) -> None:
    """With the place in the whole text."""
    with pytest.raises(Exception, match=message):
        session.sql(f"EXPLAIN {statement}")


def test_every_other_statement_is_refused_by_name() -> None:
    """Each handler is explained, is a query, or is named in the refusal."""
    explained = {words[1:] for words in _HANDLERS if words[0] == "EXPLAIN"}
    changing = {words for words in _HANDLERS if words[0] in ("INSERT", "DELETE", "UPDATE", "MERGE", "TRUNCATE", "CALL")}
    assert changing <= explained


@pytest.mark.parametrize("statement", ["DROP TABLE lake.db.t", "SHOW TABLES", "CREATE SCHEMA lake.x"])
def test_a_statement_without_a_plan(session: Session, statement: str) -> None:
    """The error says what EXPLAIN is for."""
    words = " ".join(statement.split()[:2])
    with pytest.raises(InvalidRequestError, match=f"line 1, column 1: EXPLAIN does not support {words}; it shows how"):
        session.sql(f"EXPLAIN {statement}")
