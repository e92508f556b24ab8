"""Default values of columns, and of fields of structs: for rows of older files, for new rows, and after a rewrite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StructType

from metastore.config.settings import Settings
from metastore.session import Session, connect

NEW: list[dict[str, Any]] = [
    {"id": 20, "name": "n", "type": "int", "initial-default": 9, "write-default": 10},
    {"id": 21, "name": "A b", "type": "string", "initial-default": "old", "write-default": "new"},
    {
        "id": 30,
        "name": "own",
        "type": {
            "type": "struct",
            "fields": [
                {"id": 31, "name": "a", "required": False, "type": "int", "initial-default": 7, "write-default": 8},
                {"id": 32, "name": "b", "required": False, "type": "string"},
            ],
        },
        "initial-default": {},
        "write-default": {},
    },
    {
        "id": 40,
        "name": "none",
        "type": {
            "type": "struct",
            "fields": [
                {"id": 41, "name": "a", "required": False, "type": "int", "initial-default": 7, "write-default": 8}
            ],
        },
    },
]
KINDS = {
    "boolean": True,
    "float": 1.5,
    "decimal(9, 2)": "1.25",
    "date": "0001-01-02",
    "time": "01:02:03.000004",
    "timestamp": "1969-12-31T23:59:59.999999",
    "timestamptz": "2020-01-02T03:04:05.000006+00:00",
    "timestamp_ns": "1969-12-31T23:59:59.999999999",
    "timestamptz_ns": "2020-01-02T03:04:05.000006007+00:00",
    "uuid": "00000000-0000-0000-0000-000000000007",
    "binary": "00ff",
    "fixed[2]": "0102",
}
LATE = {"id": 50, "name": "late", "required": False, "type": "int", "initial-default": 3, "write-default": 4}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """``lake.db.t`` with the rows 1 and 2; columns, and the field ``s.late``, are newer than their files."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/wh"}
    given = {
        "iceberg.location.base_path": str(tmp_path / "m"),
        "catalogs.lake": lake,
        "storage.p": {"type": "iceberg", "catalog": "lake"},
    }
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as opened:
        catalog = opened.catalogs.open("lake")
        catalog.create_namespace("db")
        struct = StructType(NestedField(3, "x", IntegerType(), required=False))
        columns = [NestedField(1, "id", LongType(), required=False), NestedField(2, "s", struct, required=False)]
        table = catalog.create_table("db.t", Schema(*columns))
        opened.sql("ALTER TABLE lake.db.t SET PROPERTIES format_version = 3")
        opened.sql("INSERT INTO lake.db.t VALUES (1, {'x': 5}), (2, NULL)")
        old = Path(table.refresh().metadata_location.removeprefix("file://"))
        content = json.loads(old.read_text())
        content["schemas"][-1]["fields"] += [{"required": False, **field} for field in NEW]
        content["schemas"][-1]["fields"][1]["type"]["fields"].append(LATE)
        content["last-column-id"] = 50
        new = old.with_name(f"00099-{'0' * 8}-0000-0000-0000-{'0' * 12}.metadata.json")
        new.write_text(json.dumps(content))
        with sqlite3.connect(tmp_path / "c.db") as database:
            database.execute("UPDATE iceberg_tables SET metadata_location = ?", (f"file://{new}",))
        yield opened


OLD: dict[str, Any] = {"n": 9, "A b": "old", "own": {"a": 7, "b": None}, "none": None}
ROWS: list[dict[str, Any]] = [{"id": 1, "s": {"x": 5, "late": 3}, **OLD}, {"id": 2, "s": None, **OLD}]
REWRITE = "CALL lake.system.rewrite_data_files(table => 'db.t', options => MAP(ARRAY['rewrite-all'], ARRAY['true']))"
QUERY = "SELECT * FROM lake.db.t ORDER BY id"


@pytest.mark.parametrize(
    "statement",
    [
        REWRITE,
        "UPDATE lake.db.t SET id = id",
        "DELETE FROM lake.db.t WHERE id = 99 OR id + 1 = 98",
        "INSERT INTO lake.db.t (id) SELECT 5 WHERE FALSE",
    ],
)
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_old_rows_keep_their_values(session: Session, statement: str, mode: str) -> None:
    """A rewrite stores the defaults that rows had, wherever a file lacks a column or field."""
    for kind in ("update", "delete"):
        session.sql(f"ALTER TABLE lake.db.t SET PROPERTIES write.{kind}.mode = '{mode}'")
    assert session.sql(QUERY).to_pylist() == ROWS
    session.sql(statement)
    assert session.sql(QUERY).to_pylist() == ROWS
    session.sql("DELETE FROM lake.db.t WHERE id = 2")
    assert session.sql(QUERY).to_pylist() == ROWS[:1]


def test_new_rows_have_the_other_defaults(session: Session) -> None:
    """A column without a value has its write default; an empty struct those of its fields."""
    session.sql("INSERT INTO lake.db.t (id, s) VALUES (3, NULL)")
    expected = {"id": 3, "s": None, "n": 10, "A b": "new", "own": {"a": 8, "b": None}, "none": None}
    assert session.sql(QUERY).to_pylist() == [*ROWS, expected]
    session.sql("ALTER TABLE lake.db.t RENAME COLUMN n TO number")  # the struct's default stays in the metadata
    renamed = [{"number" if name == "n" else name: each for name, each in row.items()} for row in [*ROWS, expected]]
    assert session.sql(QUERY).to_pylist() == renamed


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("n = 9", [1, 2]),
        ("n IS NULL", []),
        ("own.a = 7 AND own.b IS NULL", [1, 2]),
        ("own.a <> 7", []),
        ("own IS NULL", []),
        ("none.a IS NULL", [1, 2]),
        ("none.a = 7", []),
        ("s.late IS NULL", [2]),
        ("s.late = 3", [1]),
        ("s.late <> 4 OR id = 2", [1, 2]),
        ("NOT (s.late = 3) OR s.x IS NULL", [2]),
    ],
)
def test_conditions_are_of_the_values_that_rows_have(session: Session, condition: str, ids: list[int]) -> None:
    """A field's default holds where its struct is there; elsewhere it is NULL. In the catalog and analyzed."""
    condition = condition.replace("none.", '"none".')
    assert session.sql(f"SELECT id FROM lake.db.t WHERE {condition} ORDER BY id")["id"].to_pylist() == ids
    session.analyze("p.db.t")
    assert session.sql(f"SELECT id FROM p.db.t WHERE {condition} ORDER BY id")["id"].to_pylist() == ids
    session.sql(f"DELETE FROM lake.db.t WHERE {condition}")
    assert session.sql("SELECT id FROM lake.db.t ORDER BY id")["id"].to_pylist() == [n for n in (1, 2) if n not in ids]


def test_every_type_keeps_its_default(session: Session) -> None:
    """In metadata that other changes write, and in rows that are written anew."""
    table = session.catalogs.open("lake").load_table("db.t")
    path = Path(table.metadata_location.removeprefix("file://"))
    content = json.loads(path.read_text())
    for number, (kind, value) in enumerate(KINDS.items()):
        defaults = {"initial-default": value, "write-default": value}
        field = {"id": 100 + number, "name": f"c{number}", "required": False, "type": kind, **defaults}
        content["schemas"][-1]["fields"].append(field)
    content["last-column-id"] = 200
    path.write_text(json.dumps(content))
    before = session.sql(QUERY).to_pylist()
    assert all(before[0][f"c{number}"] is not None for number in range(len(KINDS)))
    session.sql("ALTER TABLE lake.db.t RENAME COLUMN c0 TO first")
    session.sql("ALTER TABLE lake.db.t RENAME COLUMN first TO c0")
    session.sql(
        "CALL lake.system.rewrite_data_files(table => 'db.t', options => MAP(ARRAY['rewrite-all'], ARRAY['true']))"
    )
    assert session.sql(QUERY).to_pylist() == before
    written = json.loads(Path(table.refresh().metadata_location.removeprefix("file://")).read_text())
    current = next(each for each in written["schemas"] if each["schema-id"] == written["current-schema-id"])
    found = {field["type"]: field for field in current["fields"] if field["name"].startswith("c")}
    assert {str(kind): field["initial-default"] for kind, field in found.items()} == KINDS
