"""Statements that change rows, as users of Trino, Spark and PostgreSQL type them; PyIceberg reads what they did."""

from __future__ import annotations

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
]

REFUSED = [
    ("UPDATE {t} SET s.c = 1", "column 24: c is no field of the struct; there are a, b"),
    ("UPDATE {t} SET id.c = 1", "id is long, and has no fields to assign"),
    ("UPDATE {t} SET s.a = 1, s.A = 2", "field a is given twice"),
    ("UPDATE {t} SET s.a = 1, s = NULL", "column s is given twice"),
    ("UPDATE {t} SET s.a = DEFAULT", "DEFAULT is for a whole column"),
    ("UPDATE {t} SET s.a = 'x'", "column s is struct"),
    ("UPDATE {t} SET s.a = u.n FROM {u} u WHERE t.id < u.id", "column 37: several rows of the source change one row"),
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
