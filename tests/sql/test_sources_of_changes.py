"""MERGE, DELETE and UPDATE with sources that no task can hold change a table as the same statements in DuckDB do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.row_statements import CLAUSES, COLUMNS, PARTITIONINGS, ROWS
from support.task_engine import TaskEngine

from metastore.config import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect

MORE_ROWS = (
    "(1, 'm', 1, 1.5, NULL, NULL), (7, 'new', 7, 'nan'::DOUBLE, NULL, NULL), (NULL, 'q', 0, -0.0, NULL, ['y']), "
    "(9, NULL, 9, 0.0, TIMESTAMP '2021-04-01 10:00:00', NULL)"
)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session whose statements run by tasks, with the schema ``lake.db``."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"{tmp_path}/lake"}
    given = {"drill.metastore": {"iceberg.location.base_path": str(tmp_path / "m"), "catalogs.lake": lake}}
    with connect(Settings.from_mapping(given, environ={}), TaskEngine()) as session:
        session.sql("CREATE SCHEMA lake.db")
        yield session


def made(session: Session, name: str, rows: list[str], clauses: str = "") -> None:
    """Create the table with one file for each of ``rows``."""
    session.sql(f"DROP TABLE IF EXISTS lake.db.{name}")
    session.sql(f"CREATE TABLE lake.db.{name} ({COLUMNS.replace('VARCHAR[]', 'ARRAY(VARCHAR)')}) {clauses}")
    for each in rows:
        session.sql(f"INSERT INTO lake.db.{name} VALUES {each}")


def line(session: Session, statement: str) -> str:
    """The first line of EXPLAIN."""
    return str(session.sql(f"EXPLAIN {statement}")["plan"][0].as_py())


def texts(rows: pa.Table) -> list[str]:
    """Rows that compare whatever their order, NaN too."""
    return sorted(map(repr, rows.to_pylist()))


# A column of the type BIT does not travel to tasks, so the source is joined on the driver, as a large one is.
SOURCE = "(SELECT id, k, n, x, tags, '1'::BIT AS z FROM {u} WHERE %s) AS s"
STATEMENTS = st.one_of(
    st.builds(
        "MERGE INTO {{t}} AS {{n}} USING {} ON {} {}".format,
        st.sampled_from([SOURCE % "true", SOURCE % "n > 2", SOURCE % "false"]),
        st.sampled_from(["{n}.id = s.id", "{n}.id IS NOT DISTINCT FROM s.id", "{n}.x = s.x AND {n}.id <> 5"]),
        CLAUSES,
    ),
    st.sampled_from(
        [
            "DELETE FROM {t} WHERE id IN (SELECT id FROM {u})",
            "DELETE FROM {t} WHERE NOT EXISTS (SELECT 1 FROM {u} u WHERE u.id = {n}.id AND u.n > 1)",
            "DELETE FROM {t} WHERE id NOT IN (SELECT id FROM {u} WHERE id IS NOT NULL)",
            "UPDATE {t} SET n = 50 WHERE x IN (SELECT x FROM {u})",
            "UPDATE {t} SET n = (SELECT max(n) FROM {u} u WHERE u.id = {n}.id)",
        ]
    ),
)


@settings(deadline=None, max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(PARTITIONINGS),
    st.sampled_from([2, 3]),
    st.sampled_from(["copy-on-write", "merge-on-read"]),
    st.lists(STATEMENTS, min_size=1, max_size=2),
)
def test_a_table_changes_as_in_duckdb(
    session: Session, partitioned: str, version: int, mode: str, statements: list[str]
) -> None:
    """Or is refused as in DuckDB, if two rows of the source change one row; then nothing has changed."""
    modes = ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))
    made(session, "t", [ROWS, ROWS, ROWS], f"{partitioned} TBLPROPERTIES ('format-version' = {version}, {modes})")
    made(session, "u", [MORE_ROWS, "(2, 'two', 3, NULL, NULL, NULL)"])
    with duckdb.connect() as judge:
        judge.execute("SET TimeZone = 'UTC'")
        judge.execute(f"CREATE TABLE t ({COLUMNS})")
        judge.execute(f"CREATE TABLE u ({COLUMNS})")
        for rows in (ROWS, ROWS, ROWS):
            judge.execute(f"INSERT INTO t VALUES {rows}")
        judge.execute(f"INSERT INTO u VALUES {MORE_ROWS}, (2, 'two', 3, NULL, NULL, NULL)")
        for statement in statements:
            counts: Any = judge.execute(statement.format(t="t", n="t", u="u")).fetchone()
            [told] = session.sql(statement.format(t="lake.db.t", n="t", u="lake.db.u")).to_pylist()
            assert told["inserted"] + told["updated"] + told["deleted"] == counts[0], statement
            expected = texts(judge.sql("SELECT * FROM t").to_arrow_table())
            assert texts(session.sql("SELECT * FROM lake.db.t")) == expected, statement


MERGE = """MERGE INTO lake.db.t t USING (SELECT id, k, '1'::BIT AS z FROM lake.db.u) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET k = s.k WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, s.k)"""


def test_a_large_source_is_joined_on_the_driver(session: Session) -> None:
    """EXPLAIN says so; each new row is inserted once, rows without a key too."""
    made(session, "t", [ROWS, ROWS])
    made(session, "u", [MORE_ROWS, "(7, 'again', NULL, NULL, NULL, NULL), (NULL, NULL, NULL, NULL, NULL, NULL)"])
    assert line(session, MERGE).startswith("Run on this machine: a join of type ")
    [told] = session.sql(MERGE).to_pylist()
    assert (told["inserted"], told["updated"], told["deleted"]) == (5, 2, 0)
    assert session.sql("SELECT count(*) AS n FROM lake.db.t WHERE id = 7").to_pylist() == [{"n": 2}]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_two_rows_of_a_large_source_do_not_change_one_row(session: Session, mode: str) -> None:
    """They are refused wherever they are read, and no file is left."""
    made(session, "t", [ROWS, ROWS], f"TBLPROPERTIES ('write.merge.mode' = '{mode}')")
    made(session, "u", ["(1, 'x', 1, 1, NULL, NULL)", "(1, 'y', 1, 1, NULL, NULL)"])
    folder = Path(session.settings.iceberg.base_location).parent / "lake"
    before = {path for path in folder.rglob("data/**/*") if path.is_file()}
    with pytest.raises(InvalidRequestError, match=r"line 1, column 80: several rows of the source change one row"):
        session.sql(MERGE)
    assert {path for path in folder.rglob("data/**/*") if path.is_file()} == before
