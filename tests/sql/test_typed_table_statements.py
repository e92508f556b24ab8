"""Statements about tables, as users of Trino and Spark type them; PyIceberg reads what they did."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.table import Table

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.session import Session


@pytest.fixture
def session(bare: Session) -> Session:
    """With the table ``lake.db.t``, which has three rows in two partitions."""
    bare.sql("CREATE SCHEMA lake.db")
    bare.sql("CREATE TABLE lake.db.t (id BIGINT, k VARCHAR COMMENT 'key', n INTEGER) PARTITIONED BY (k)")
    bare.sql("INSERT INTO lake.db.t VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, NULL)")
    return bare


def loaded(session: Session) -> Table:
    """The table as PyIceberg has it."""
    return session.catalogs.open("lake").load_table("db.t")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("first", ["CREATE OR REPLACE", "REPLACE"])
def test_a_replaced_table_keeps_its_identity_and_history(session: Session, first: str, version: int) -> None:
    """Its columns, partitions and order are new; columns of the same name keep their ids; old versions are read."""
    before = loaded(session)
    [old] = before.snapshots()
    session.sql("ALTER TABLE lake.db.t CREATE TAG kept")
    told = session.sql(
        f"{first} TABLE lake.db.t PARTITIONED BY (bucket(2, id)) TBLPROPERTIES ('format-version' = {version}) "
        "AS SELECT n AS m, id, k FROM lake.db.t WHERE id < 3"
    ).to_pylist()
    assert told == [{"ok": True, "summary": "lake.db.t: is replaced with 2 rows"}]
    after = loaded(session)
    assert after.metadata.table_uuid == before.metadata.table_uuid
    assert after.location() == before.location()
    assert after.metadata.format_version == version
    assert [(field.field_id, field.name) for field in after.schema().fields] == [(4, "m"), (1, "id"), (2, "k")]
    assert [(str(field.transform), field.field_id) for field in after.spec().fields] == [("bucket[2]", 1001)]
    assert sorted(after.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"m": 1, "id": 1, "k": "a"},
        {"m": 2, "id": 2, "k": "b"},
    ]
    current = after.current_snapshot()
    assert current is not None
    assert current.parent_snapshot_id is None
    assert len(after.snapshots()) == 2
    was = after.scan(snapshot_id=old.snapshot_id).to_arrow()
    assert was.column_names == ["id", "k", "n"]
    assert was.num_rows == 3
    assert session.sql("SELECT count(n) AS n FROM lake.db.t FOR VERSION AS OF 'kept'").to_pylist() == [{"n": 2}]
    session.sql("INSERT INTO lake.db.t VALUES (9, 9, 'z')")
    assert loaded(session).scan().to_arrow().num_rows == 3


def test_a_table_is_replaced_by_an_empty_one(session: Session) -> None:
    """Without a query it has no rows and no current snapshot; a statement back to the old shape finds its ids."""
    session.sql("CREATE OR REPLACE TABLE lake.db.t (id BIGINT, fresh DATE) COMMENT 'new'")
    assert loaded(session).current_snapshot() is None
    assert loaded(session).properties["comment"] == "new"
    assert not loaded(session).spec().fields
    session.sql("CREATE OR REPLACE TABLE lake.db.t (id BIGINT, k VARCHAR) PARTITIONED BY (k)")
    session.sql("INSERT INTO lake.db.t VALUES (5, 'x')")
    assert loaded(session).scan().to_arrow().to_pylist() == [{"id": 5, "k": "x"}]
    session.sql("CREATE OR REPLACE TABLE lake.db.new AS SELECT 1 AS a")
    assert session.sql("SELECT a FROM lake.db.new").to_pylist() == [{"a": 1}]


CHANGES = [
    ("ALTER TABLE lake.db.t DROP COLUMNS id, n", ["k"]),
    ("ALTER TABLE lake.db.t DROP COLUMNS IF EXISTS nope, id, ADD COLUMN m INTEGER", ["k", "n", "m"]),
    ("ALTER TABLE IF EXISTS lake.db.t DROP COLUMN n", ["id", "k"]),
    ("ALTER TABLE IF EXISTS lake.db.nope DROP COLUMN n", ["id", "k", "n"]),
    ("ALTER TABLE lake.db.t CHANGE COLUMN n m BIGINT COMMENT 'wide' FIRST", ["m", "id", "k"]),
    ("ALTER TABLE lake.db.t CHANGE n n INTEGER AFTER id, DROP COLUMN id", ["n", "k"]),
    ("ALTER TABLE lake.db.t ADD COLUMN b BLOB", ["id", "k", "n", "b"]),
]


@pytest.mark.parametrize(("statement", "names"), CHANGES)
def test_columns_change(session: Session, statement: str, names: list[str]) -> None:
    """The table has these columns afterwards."""
    session.sql(statement)
    assert [field.name for field in loaded(session).schema().fields] == names


def test_comments_and_partitioning_by_default(session: Session) -> None:
    """NULL takes a comment away; the default partitioning is none."""
    session.sql("COMMENT ON TABLE lake.db.t IS 'rows'")
    session.sql("COMMENT ON COLUMN lake.db.t.id IS 'number'")
    assert loaded(session).properties["comment"] == "rows"
    assert [field.doc for field in loaded(session).schema().fields] == ["number", "key", None]
    session.sql("COMMENT ON TABLE lake.db.t IS NULL")
    session.sql("COMMENT ON COLUMN lake.db.t.k IS NULL")
    assert "comment" not in loaded(session).properties
    assert not loaded(session).schema().find_field("k").doc
    session.sql("ALTER TABLE lake.db.t SET PROPERTIES partitioning = DEFAULT")
    assert not loaded(session).spec().fields


LIKES = [
    ("(LIKE lake.db.t)", ["id", "k", "n"], 0),
    ("LIKE lake.db.t", ["id", "k", "n"], 1),
    ("(a DATE, LIKE lake.db.t, z DATE) PARTITIONED BY (a)", ["a", "id", "k", "n", "z"], 1),
    ("AS SELECT k, id + 1 AS i FROM lake.db.t WITH NO DATA", ["k", "i"], 0),
    ("PARTITIONED BY (k) AS (SELECT k FROM lake.db.t)\nWITH NO DATA", ["k"], 1),
]


@pytest.mark.parametrize(("columns", "names", "fields"), LIKES)
def test_a_table_is_made_like_another(session: Session, columns: str, names: list[str], fields: int) -> None:
    """With the columns of a table, or of a query, and no rows. LIKE without brackets takes the partitioning."""
    session.sql(f"CREATE TABLE lake.db.like {columns}")
    made = session.catalogs.open("lake").load_table("db.like")
    assert [field.name for field in made.schema().fields] == names
    assert len(made.spec().fields) == fields
    assert not made.snapshots()
    for field in made.schema().fields:
        if field.name == "k" and "AS" not in columns:
            assert field.doc == "key"


def test_rows_of_a_query_with_data(session: Session) -> None:
    """WITH DATA is what AS does."""
    session.sql("CREATE TABLE lake.db.copy AS SELECT id FROM lake.db.t WITH DATA")
    assert session.sql("SELECT count(*) AS n FROM lake.db.copy").to_pylist() == [{"n": 3}]


def test_schemas_come_and_go(session: Session, tmp_path: Path) -> None:
    """CASCADE drops entries of tables, and no file; a schema with schemas in it stays."""
    session.sql(f"CREATE SCHEMA lake.own WITH (location = '{tmp_path}/elsewhere')")
    session.sql("CREATE TABLE lake.own.t (a INTEGER)")
    assert (tmp_path / "elsewhere" / "t" / "metadata").is_dir()
    assert {"info_name": "location", "info_value": f"{tmp_path}/elsewhere"} in session.sql(
        "DESCRIBE SCHEMA lake.own"
    ).to_pylist()
    shown = str(session.sql("SHOW CREATE SCHEMA lake.own").column(0)[0].as_py())
    with pytest.raises(InvalidRequestError, match=r"line 1, column 13: schema lake.own has 1 tables, such as t"):
        session.sql("DROP SCHEMA lake.own")
    files = sorted(tmp_path.rglob("*.json"))
    session.sql("DROP SCHEMA lake.own CASCADE")
    assert sorted(tmp_path.rglob("*.json")) == files
    assert session.catalogs.schemas("lake") == ["db"]
    assert session.sql("DROP SCHEMA IF EXISTS lake.own").to_pylist()[0]["ok"] is False
    with pytest.raises(NotFoundError, match="schema lake.own does not exist"):
        session.sql("DROP DATABASE lake.own")
    session.sql(shown)
    session.sql("DROP NAMESPACE lake.own RESTRICT")
    session.sql("CREATE SCHEMA lake.db.inner")
    with pytest.raises(InvalidRequestError, match="has the schemas and views db.inner"):
        session.sql("DROP SCHEMA lake.db CASCADE")
    assert loaded(session).scan().to_arrow().num_rows == 3
    with pytest.raises(InvalidRequestError, match="metastore is the metastore's own"):
        session.sql("DROP SCHEMA metastore.components CASCADE")


REFUSED = [
    ("ALTER SCHEMA lake.db RENAME TO lake.other", "does not rename or change schemas: run CREATE SCHEMA"),
    ("ALTER TABLE lake.db.t CHANGE COLUMN n m VARCHAR", "lake.db.t does not allow that"),
    ("REPLACE TABLE lake.db.nope (a INTEGER)", "table lake.db.nope does not exist"),
    ("CREATE OR REPLACE TABLE lake.db.t (a INTEGER) PARTITIONED BY (nope)", "there is no column nope"),
    ("CREATE OR REPLACE TABLE lake.db.t AS SELECT CAST(k AS INTEGER) AS k FROM lake.db.t", "Could not convert"),
    ("COMMENT ON COLUMN lake.db.t IS 'x'", "schema lake.lake does not exist"),
    ("COMMENT ON COLUMN lake.db.t.nope IS 'x'", "nope"),
    ("COMMENT ON VIEW lake.db.t IS 'x'", "COLUMN is expected, not VIEW"),
]


@pytest.mark.parametrize(("statement", "message"), REFUSED)
def test_a_refused_statement_leaves_nothing(session: Session, tmp_path: Path, statement: str, message: str) -> None:
    """The message has its place; no file and no version is new."""
    before = loaded(session).metadata_location
    files = {path for path in (tmp_path / "lake").rglob("*") if path.is_file()}
    with pytest.raises((InvalidRequestError, NotFoundError)) as refused:
        session.sql(statement)
    assert str(refused.value).startswith("line 1, column ")
    assert message in str(refused.value)
    assert loaded(session).metadata_location == before
    assert {path for path in (tmp_path / "lake").rglob("*") if path.is_file()} == files


def test_types_that_iceberg_lacks_become_wider_ones_which_the_answer_names(session: Session) -> None:
    """As Trino and Spark keep them: lengths of texts and short numbers, nested and in ALTER TABLE, too."""
    made = session.sql(
        "CREATE TABLE lake.db.w (c CHAR(3), v VARCHAR(4), s SMALLINT, y TINYINT, l ARRAY<STRING(4)>, t TIME(6), x TEXT)"
    ).to_pylist()
    assert made[0]["summary"] == (
        "lake.db.w: is created; CHAR(3) is kept as VARCHAR of any length; VARCHAR(4) is kept as VARCHAR of any length; "
        "SMALLINT is kept as INT; TINYINT is kept as INT; STRING(4) is kept as VARCHAR of any length"
    )
    changed = session.sql("ALTER TABLE lake.db.w ADD COLUMN z CHARACTER(2)").to_pylist()
    assert changed[0]["summary"] == "lake.db.w: column z is added; CHARACTER(2) is kept as VARCHAR of any length"
    columns = session.catalogs.open("lake").load_table("db.w").schema().fields
    assert [str(field.field_type) for field in columns] == [
        *("string", "string", "int", "int", "list<string>", "time", "string", "string")
    ]
    with pytest.raises(InvalidRequestError, match=r"column 33: times of day .* TIME\(6\)"):
        session.sql("CREATE TABLE lake.db.no (t TIME(3))")
