"""Rows of a statement are written while they are computed: results larger than the memory of a statement are right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from metastore.config import Settings
from metastore.config.sql import SqlSettings
from metastore.duck.queries import Duck
from metastore.errors import EngineError, InvalidRequestError
from metastore.session import Session, connect

LARGE = 600_000
"""Rows of up to 700 bytes: more than the bytes of rows that a statement holds at once."""

MEMORY = 48 << 20


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session whose statements have little memory."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"{tmp_path}/lake"}
    given = {
        "iceberg.location.base_path": str(tmp_path / "m"),
        "catalogs.lake": lake,
        "sql.memory": f"{512 << 20}",
    }
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as made:
        made.sql("CREATE SCHEMA lake.db")
        yield made


def test_rows_beyond_the_memory_go_to_files() -> None:
    """With a limit groups are right, and a query that cannot spill is refused."""
    groups = "SELECT hash(i) AS k, count(*) AS c FROM range(4000000) r(i) GROUP BY 1"
    query = f"SELECT count(*) AS n, sum(c) AS c FROM ({groups})"
    with Duck(SqlSettings(memory=MEMORY)) as duck:
        rows = [row for batch in duck.stream(query).batches for row in batch.to_pylist()]
    assert rows == [{"n": 4_000_000, "c": 4_000_000}]
    with pytest.raises(EngineError, match="memory"), Duck(SqlSettings(memory=MEMORY)) as duck:
        duck.run("SELECT length(string_agg(repeat('x', 100), '')) FROM range(4000000)")


@pytest.mark.parametrize("mode", ["copy-on-write", pytest.param("merge-on-read", marks=pytest.mark.exhaustive)])
def test_a_large_change_is_the_change_of_all_its_rows(session: Session, mode: str) -> None:
    """Rows of several files, found in several pieces; new rows of MERGE come with the last of them."""
    modes = ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("update", "merge"))
    session.sql(f"CREATE TABLE lake.db.t (id BIGINT, k BIGINT, s VARCHAR) TBLPROPERTIES ({modes})")
    for first in (0, LARGE // 2):
        session.sql(f"INSERT INTO lake.db.t SELECT i, i % 3, 'old' FROM range({first}, {first + LARGE // 2}) r(i)")
    [told] = session.sql("UPDATE lake.db.t SET s = repeat('u', 700) || id WHERE k < 2").to_pylist()
    assert told["updated"] == LARGE // 3 * 2
    [told] = session.sql(
        f"""MERGE INTO lake.db.t t USING (SELECT i * 2 AS id FROM range({LARGE}) r(i)) s ON t.id = s.id
        WHEN MATCHED AND t.k = 2 THEN DELETE WHEN MATCHED THEN UPDATE SET s = repeat('m', 300)
        WHEN NOT MATCHED THEN INSERT VALUES (s.id, 7, repeat('n', 300))"""
    ).to_pylist()
    assert (told["deleted"], told["updated"], told["inserted"]) == (LARGE // 6, LARGE // 3, LARGE // 2)
    found = session.sql("SELECT s[1] AS s, count(*) AS n, count(DISTINCT id) AS ids FROM lake.db.t GROUP BY ALL")
    expected = {"o": LARGE // 6, "u": LARGE // 3, "m": LARGE // 3, "n": LARGE // 2}
    assert {row["s"]: (row["n"], row["ids"]) for row in found.to_pylist()} == {
        key: (n, n) for key, n in expected.items()
    }


LATE = "CAST(CASE WHEN i = 999999 THEN 'x' ELSE '7' END AS BIGINT)"


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        (f"INSERT INTO lake.db.t SELECT i,\n {LATE} FROM range(1000000) r(i)", "line 2, column 2"),
        (f"CREATE TABLE lake.db.new AS SELECT {LATE} AS n FROM range(1000000) r(i)", "line 1, column 36"),
        (
            f"""MERGE INTO lake.db.t USING (SELECT i, {LATE} AS n FROM range(1000000) r(i)) s ON t.id = s.i
            WHEN NOT MATCHED THEN INSERT VALUES (s.i, s.n)""",
            "line 1, column",
        ),
    ],
)
def test_a_value_that_fails_late_leaves_nothing(session: Session, tmp_path: Path, statement: str, place: str) -> None:
    """The files of the rows before it go; the error has its place."""
    session.sql("CREATE TABLE lake.db.t (id BIGINT, n BIGINT)")
    with pytest.raises(InvalidRequestError, match=f"{place}.*: Could not convert string 'x'"):
        session.sql(statement)
    assert session.sql("SELECT * FROM lake.db.t").num_rows == 0
    assert not list((tmp_path / "lake").rglob("*.parquet"))
