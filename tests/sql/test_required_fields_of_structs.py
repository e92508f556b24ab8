"""A required field of a struct that is NULL is NULL at every door: as DuckDB has it, and PyIceberg alone has not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StructType

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect

ROWS: dict[int, Any] = {
    1: {"a": 1, "n": {"c": 1}},
    2: None,
    3: None,
    4: {"a": 5, "n": None},
    5: {"a": 1, "n": None},
}
CONDITIONS = {
    "s.a IS NULL": [2, 3],
    "s.a IS NOT NULL": [1, 4, 5],
    "s.a <> 1 OR s.a IS NULL": [2, 3, 4],
    "NOT (s.a IS NULL) AND id > 1": [4, 5],
    "s.n.c IS NULL": [2, 3, 4, 5],
    "s.n.c IS NOT NULL OR s IS NULL": [1, 2, 3],
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """``lake.db.t``, analyzed as ``p.db.t``, in files that are all NULL, without NULL, and both."""
    with made(tmp_path_factory.mktemp("lake")) as session:
        session.analyze("p.db.t")
        yield session


def made(folder: Path) -> Session:
    """A session with the table ``lake.db.t``."""
    lake = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/wh"}
    given = {
        "iceberg.location.base_path": str(folder / "m"),
        "catalogs.lake": lake,
        "storage.p": {"type": "iceberg", "catalog": "lake"},
    }
    session = connect(Settings.from_mapping({"drill.metastore": given}, environ={}))
    inner = StructType(NestedField(5, "c", IntegerType(), required=True))
    struct = StructType(NestedField(3, "a", IntegerType(), required=True), NestedField(4, "n", inner, required=False))
    columns = [NestedField(1, "id", LongType(), required=False), NestedField(2, "s", struct, required=False)]
    catalog = session.catalogs.open("lake")
    catalog.create_namespace("db")
    catalog.create_table("db.t", Schema(*columns))
    for ids in ((1, 2), (3,), (4, 5)):
        values = ", ".join(f"({n}, {_text(ROWS[n])})" for n in ids)
        session.sql(f"INSERT INTO lake.db.t VALUES {values}")
    return session


def _text(value: Any) -> str:
    return "NULL" if value is None else repr(value).replace("None", "NULL")


@pytest.mark.parametrize("condition", CONDITIONS)
def test_rows_are_found(session: Session, condition: str) -> None:
    """By SELECT over the catalog and the analyzed table, by scans, and by pruning."""
    for name in ("lake.db.t", "p.db.t"):
        found = session.sql(f"SELECT id FROM {name} WHERE {condition} ORDER BY id")["id"].to_pylist()
        assert found == CONDITIONS[condition], name
    scanned = session.tables.scan("p.db.t", condition).to_arrow().sort_by("id")
    assert scanned["id"].to_pylist() == CONDITIONS[condition]


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_only_such_rows_are_deleted(tmp_path: Path, condition: str, mode: str) -> None:
    """Those that the condition is true of; the others stay."""
    with made(tmp_path) as session:
        session.sql(f"ALTER TABLE lake.db.t SET PROPERTIES write.delete.mode = '{mode}'")
        session.sql(f"DELETE FROM lake.db.t WHERE {condition}")
        left = session.sql("SELECT id FROM lake.db.t ORDER BY id")["id"].to_pylist()
        assert left == [n for n in ROWS if n not in CONDITIONS[condition]]


def test_a_procedure_picks_their_files(tmp_path: Path) -> None:
    """Two files have such rows; nothing of manifests tells that the third has none."""
    with made(tmp_path) as session:
        [row] = session.sql(
            "CALL lake.system.rewrite_data_files(table => 'db.t', where => 's.a IS NULL', "
            "options => MAP(ARRAY['rewrite-all'], ARRAY['true']))"
        ).to_pylist()
        assert row["rewritten_data_files_count"] >= 2
        assert session.sql("SELECT id FROM lake.db.t WHERE s.a IS NULL ORDER BY 1")["id"].to_pylist() == [2, 3]


def test_a_struct_with_required_fields_is_written_in_sql(session: Session) -> None:
    """CREATE TABLE and ADD COLUMN take NOT NULL and COMMENT at a field; a row without its value is refused."""
    session.sql(
        "CREATE TABLE lake.db.made (id BIGINT, s STRUCT<a: INT NOT NULL COMMENT 'one', n: ROW(c INT NOT NULL)>)"
    )
    session.sql("ALTER TABLE lake.db.made ADD COLUMN l ARRAY<STRUCT<d: INT NOT NULL>>")
    schema = session.catalogs.table("lake", "db", "made").load().schema()
    required = [schema.find_column_name(each) for each in sorted(schema.field_ids) if schema.find_field(each).required]
    assert (required, schema.find_field("s.a").doc) == (["s.a", "s.n.c", "l.element.d"], "one")
    session.sql("INSERT INTO lake.db.made VALUES (1, named_struct('a', 1, 'n', NULL), NULL), (2, NULL, NULL)")
    for values, column in (
        ("3, named_struct('a', NULL, 'n', NULL), NULL", "s.a"),
        ("3, NULL, array(named_struct('d', NULL))", "l.element.d"),
    ):
        with pytest.raises(InvalidRequestError, match=f"column {column} is required: 1 rows have no value"):
            session.sql(f"INSERT INTO lake.db.made VALUES ({values})")
    with pytest.raises(InvalidRequestError, match=r"column s\.a is required"):
        session.sql("UPDATE lake.db.made SET s.a = NULL WHERE id = 1")
    assert session.sql("SELECT id FROM lake.db.made ORDER BY id").column(0).to_pylist() == [1, 2]
