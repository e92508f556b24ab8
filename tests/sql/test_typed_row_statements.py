"""Statements that change rows, as users of Trino, Spark and PostgreSQL type them; PyIceberg reads what they did."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from metastore.errors import InvalidRequestError
from metastore.session import Session

ROW = {"id": 1, "s": {"a": 1, "b": "x"}, "m": None, "l": None}
EMPTY = {"id": 2, "s": None, "m": None, "l": None}

CHANGES: list[tuple[str, list[dict[str, Any]]]] = [
    ("UPDATE {t} SET s.a = 5", [ROW | {"s": {"a": 5, "b": "x"}}, EMPTY | {"s": {"a": 5, "b": None}}]),
    ("UPDATE {t} c SET c.s.b = upper(s.b), s.a = id + 1 WHERE id = 1", [ROW | {"s": {"a": 2, "b": "X"}}, EMPTY]),
    (
        "MERGE INTO {t} c USING (SELECT 1 AS id) n ON c.id = n.id WHEN MATCHED THEN UPDATE SET c.s.a = n.id + 6",
        [ROW | {"s": {"a": 7, "b": "x"}}, EMPTY],
    ),
    ("UPDATE {t} SET s.a = u.n FROM {u} AS u WHERE t.id = u.id", [ROW | {"s": {"a": 10, "b": "x"}}, EMPTY]),
    (
        "UPDATE {t} SET s.a = u.n + v.id FROM {u} u JOIN {u} v ON u.n = v.n, (VALUES (1)) w(i) WHERE t.id = u.id",
        [ROW | {"s": {"a": 11, "b": "x"}}, EMPTY],
    ),
    ("UPDATE {t} c SET id = c.id + o.id FROM {t} o WHERE c.id < o.id", [ROW | {"id": 3}, EMPTY]),
    ("DELETE FROM {t} USING {u} u WHERE t.id = u.id", [EMPTY]),
    ("DELETE FROM {t} c USING {t} o WHERE c.id > o.id", [ROW]),
    ("DELETE FROM {t} USING {u}, {u} AS v", []),
    ("INSERT INTO {t} DEFAULT VALUES", [ROW, EMPTY, EMPTY | {"id": None}]),
    ("WITH x AS (SELECT 3 AS id) INSERT INTO {t} (id) SELECT id FROM x", [ROW, EMPTY, EMPTY | {"id": 3}]),
    (
        "WITH x(i) AS (VALUES (3)), y AS (SELECT i+1 FROM x) INSERT INTO {t} (id)\nWITH z AS (FROM y) SELECT * FROM z",
        [ROW, EMPTY, EMPTY | {"id": 4}],
    ),
    ("WITH x AS (SELECT 3 AS id) INSERT OVERWRITE {t} BY NAME SELECT id FROM x", [EMPTY | {"id": 3}]),
    (
        "INSERT INTO {t} (id) REPLACE WHERE id < 2 SELECT n FROM {u}",
        [EMPTY, *(EMPTY | {"id": n} for n in (10, 30, 40))],
    ),
    ("INSERT INTO {t} (id) REPLACE WHERE s.a IN (SELECT id FROM {u}) VALUES (7)", [EMPTY, EMPTY | {"id": 7}]),
    ("INSERT INTO {t} REPLACE WHERE true SELECT * FROM {t} WHERE id = 2", [EMPTY]),
    *(
        (
            f"INSERT INTO {{t}} REPLACE WHERE true {query}",
            [{"id": 3, "s": {"a": 4, "b": "z"}, "m": {"k": 5}, "l": [6, 7]}],
        )
        for query in (
            "VALUES (3, ROW(4, 'z'), MAP(ARRAY['k'], ARRAY[5]), ARRAY[6, 7])",
            "VALUES (3, named_struct('a', 4, 'b', 'z'), map('k', 5), array(6, 7))",
            "SELECT id, Named_Struct ( 'a', 1 + id, 'b', 'z' ), map('k', n // 6), array(6, 7) FROM {u} WHERE id = 3",
            "VALUES (3, {{'a': 4, 'b': 'z'}}, map(array('k'), array(5)), array(SELECT 6 UNION ALL SELECT 7))",
        )
    ),
]

REFUSED = [
    ("UPDATE {t} SET s.c = 1", "column 24: c is no field of the struct; there are a, b"),
    ("UPDATE {t} SET id.c = 1", "id is long, and has no fields to assign"),
    ("UPDATE {t} SET s.a = 1, s.A = 2", "field a is given twice"),
    ("UPDATE {t} SET s.a = 1, s = NULL", "column s is given twice"),
    ("UPDATE {t} SET s.a = DEFAULT", "DEFAULT is for a whole column"),
    ("UPDATE {t} SET s.a = 'x'", "column s is struct"),
    ("UPDATE {t} SET s.a = u.n FROM {u} u WHERE t.id < u.id", "column 37: several rows of the source change one row"),
    ("INSERT INTO {t} (id) DEFAULT VALUES", "DEFAULT VALUES takes no columns"),
    ("INSERT OVERWRITE {t} REPLACE WHERE id = 1 FROM {t}", "leave OVERWRITE and PARTITION out"),
    ("INSERT INTO {t} REPLACE WHERE nope = 1 SELECT * FROM {t}", "column 37: there is no column nope; "),
    ("INSERT INTO {t} REPLACE WHERE id = 1", "a query, or VALUES is expected, not the end"),
    ("WITH x AS (SELECT 1 AS i) INSERT INTO {t} (id) SELECT j FROM x", 'column 61: Referenced column "j" not found'),
    ("INSERT INTO {t} (id, s) VALUES (3, ROW(1))", "column s is struct"),
    ("INSERT INTO {t} (id, l) VALUES (3, array(4, nope))", 'column 51: Referenced column "nope" was not found'),
    ("INSERT INTO {t} (id, s) VALUES (3, named_struct('a', 1, 'b'))", "named_struct takes pairs"),
    ("DELETE FROM {t} USING {u} u WHERE id = u.id", 'Ambiguous reference to column name "id"'),
]


@pytest.fixture
def session(bare: Session) -> Session:
    """With tables of two rows, ``lake.db.t`` and ``lake.db.u``."""
    bare.sql("CREATE SCHEMA lake.db")
    bare.sql(
        "CREATE TABLE lake.db.t (id BIGINT, s STRUCT<a: INTEGER, b: VARCHAR>, m MAP<VARCHAR, INTEGER>, "
        "l ARRAY<INTEGER>)"
    )
    bare.sql("INSERT INTO lake.db.t (id, s) VALUES (1, {'a': 1, 'b': 'x'}), (2, NULL)")
    bare.sql("CREATE TABLE lake.db.u (id BIGINT, n INTEGER)")
    bare.sql("INSERT INTO lake.db.u VALUES (1, 10), (3, 30), (4, 40)")
    return bare


def rows(session: Session, table: str = "db.t") -> list[dict[str, Any]]:
    """The rows as PyIceberg reads them, by id."""
    found = session.catalogs.open("lake").load_table(table).scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row["id"] is None, row["id"]))


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """The row with maps as Python has them."""
    return row | {"m": None if row["m"] is None else dict(row["m"])}


@pytest.mark.parametrize(("statement", "expected"), CHANGES)
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_statement_changes_these_rows(
    session: Session, statement: str, expected: list[dict[str, Any]], mode: str
) -> None:
    """In one snapshot, whatever the mode."""
    session.sql(
        "ALTER TABLE lake.db.t SET PROPERTIES "
        + ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("update", "delete", "merge"))
    )
    session.sql(statement.format(t="lake.db.t", u="lake.db.u"))
    assert [plain(row) for row in rows(session)] == sorted(expected, key=lambda row: (row["id"] is None, row["id"]))
    assert len(session.catalogs.open("lake").load_table("db.t").snapshots()) == 2


@pytest.mark.parametrize(("statement", "message"), REFUSED)
def test_a_refused_statement_leaves_nothing(session: Session, tmp_path: Path, statement: str, message: str) -> None:
    """The message has its place; no file and no version is new."""
    before = session.catalogs.open("lake").load_table("db.t").metadata_location
    files = {path for path in (tmp_path / "lake").rglob("*") if path.is_file()}
    with pytest.raises(InvalidRequestError) as refused:
        session.sql(statement.format(t="lake.db.t", u="lake.db.u"))
    assert str(refused.value).startswith("line 1, column ")
    assert message in str(refused.value)
    assert session.catalogs.open("lake").load_table("db.t").metadata_location == before
    assert {path for path in (tmp_path / "lake").rglob("*") if path.is_file()} == files


PARTITIONS = [
    ("INTEGER", "7", 7),
    ("BIGINT", "-8", -8),
    ("DECIMAL(5, 2)", "1.5", Decimal("1.50")),
    ("BOOLEAN", "true", True),
    ("DATE", "2021-04-01", date(2021, 4, 1)),
    ("VARCHAR", "7", "7"),
]


@pytest.mark.parametrize(("kind", "text", "value"), PARTITIONS)
def test_a_text_in_partition_is_cast(session: Session, kind: str, text: str, value: object) -> None:
    """As Spark does it, whatever the column's type; a text that is no value of the type is refused."""
    session.sql(f"CREATE TABLE lake.db.p (id BIGINT, p {kind}) PARTITIONED BY (p)")
    session.sql(f"INSERT INTO lake.db.p PARTITION (p = '{text}') VALUES (1)")
    session.sql(f"INSERT OVERWRITE lake.db.p PARTITION (p = '{text}') SELECT 2")
    assert rows(session, "db.p") == [{"id": 2, "p": value}]
    if kind != "VARCHAR":
        with pytest.raises(InvalidRequestError, match="line 1, column 1: (Could not convert string|invalid date)"):
            session.sql("INSERT INTO lake.db.p PARTITION (p = 'x') VALUES (1)")
