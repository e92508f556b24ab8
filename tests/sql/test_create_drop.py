"""CREATE SCHEMA, CREATE TABLE [AS] and DROP TABLE [PURGE] in a catalog: what they make, refuse, delete and keep."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from metastore.config import Settings
from metastore.errors import InvalidRequestError, MetastoreError, NotFoundError, ProcedureError
from metastore.session import Session, connect


@pytest.fixture
def session(bare: Session) -> Session:
    """With the schema ``lake.db``, which is empty."""
    bare.sql("CREATE SCHEMA lake.db")
    return bare


def loaded(session: Session, name: str) -> Table:
    """The table as PyIceberg has it."""
    return session.catalogs.open("lake").load_table(f"db.{name}")


def files_of(folder: Path) -> set[Path]:
    """Every file below the folder."""
    return {path for path in folder.rglob("*") if path.is_file()}


def test_a_schema_is_created_once(bare: Session) -> None:
    """A second time is an error, unless IF NOT EXISTS."""
    for word in ("SCHEMA", "DATABASE", "NAMESPACE"):
        assert bare.sql(f"CREATE {word} lake.{word}").to_pylist()[0]["ok"] is True
    with pytest.raises(InvalidRequestError, match=r"line 1, column 15: schema lake\.SCHEMA exists already"):
        bare.sql("CREATE SCHEMA lake.SCHEMA")
    assert bare.sql("CREATE SCHEMA IF NOT EXISTS lake.SCHEMA").to_pylist()[0]["ok"] is False
    assert bare.catalogs.schemas("lake") == ["DATABASE", "NAMESPACE", "SCHEMA"]


def test_a_table_has_what_the_statement_says(session: Session) -> None:
    """Columns with ids, partitioning, order, properties, place and version; in the spellings of Spark and of Trino."""
    session.sql(
        "CREATE TABLE lake.db.s (level VARCHAR NOT NULL COMMENT 'how bad', ts TIMESTAMP, o STRUCT<host: STRING>, "
        "l ARRAY<INT>) USING iceberg PARTITIONED BY (days(ts), bucket(16, level), truncate(2, level), o.host) "
        "COMMENT 'what happened' TBLPROPERTIES ('format-version' = '1', 'write.parquet.compression-codec' = 'zstd')"
    )
    table = loaded(session, "s")
    assert table.metadata.format_version == 1
    assert table.schema().field_ids == {1, 2, 3, 4, 5, 6}
    assert table.schema().find_field("level").required
    assert table.schema().find_field("level").doc == "how bad"
    assert table.properties == {"comment": "what happened", "write.parquet.compression-codec": "zstd"}
    fields = [(field.name, str(field.transform)) for field in table.spec().fields]
    assert fields == [
        ("ts_day", "day"),
        ("level_bucket", "bucket[16]"),
        ("level_trunc", "truncate[2]"),
        ("o.host", "identity"),
    ]
    place = f"{table.location()}-elsewhere"
    session.sql(
        "CREATE TABLE lake.db.t (a BIGINT, b DATE) WITH (partitioning = ARRAY['month(b)'], format = 'PARQUET', "
        f"sorted_by = ARRAY['a DESC NULLS LAST', 'b'], format_version = 2, location = '{place}')"
    )
    table = loaded(session, "t")
    assert (table.metadata.format_version, table.location()) == (2, place)
    assert [str(field.transform) for field in table.spec().fields] == ["month"]
    assert [str(field) for field in table.sort_order().fields] == ["1 DESC NULLS LAST", "2 ASC NULLS FIRST"]
    assert session.sql("CREATE TABLE IF NOT EXISTS lake.db.t (x INT)").to_pylist()[0]["ok"] is False


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE lake.db.old (a INT)", "table lake.db.old exists already"),
        ("CREATE TABLE lake.db.old AS SELECT 1 AS a", "table lake.db.old exists already"),
        ("CREATE TABLE lake.nope.t (a INT)", "schema lake.nope does not exist: run CREATE SCHEMA lake.nope"),
        ("CREATE TABLE lake.dbb.t AS SELECT 1 AS a", "did you mean db? If not, run CREATE SCHEMA lake.dbb"),
        (
            "CREATE TABLE lake.db.t (a INT) TBLPROPERTIES ('write.merge.mode' = 'mor')",
            "line 1, column 68: property write.merge.mode is 'mor'; merge-on-read and copy-on-write are supported",
        ),
        ("CREATE TABLE lake.db.t (a INT) TBLPROPERTIES ('format-version' = 4)", "format version 4: this package"),
        ("CREATE TABLE lake.db.t (a INT, A INT)", "column A is given twice"),
        ("CREATE TABLE lake.db.t (a INT) PARTITIONED BY (days(a))", "line 1, column 48: day(a): a is int"),
        ("CREATE TABLE lake.db.t (a INT) PARTITIONED BY (b)", "there is no column b; there are a"),
        ("CREATE TABLE lake.db.t (a INT) PARTITIONED BY (a, a)", "partitioned by a twice"),
        ("CREATE TABLE lake.db.t (a INT) USING parquet", "ICEBERG is expected, not parquet"),
        ("CREATE TABLE lake.db.t (a INT) WITH (format = 'ORC')", "format ORC: rows are written as PARQUET"),
        ("CREATE TABLE lake.db.t (a INT) WITH (compression_codec = 'x')", "is Trino's name"),
        ("CREATE TABLE lake.db.t (a INT) WITH (sorted_by = ARRAY['b'])", "there is no column 'b'"),
        ("CREATE TABLE lake.db.t (a INT DEFAULT 1)", "default values need format version 3"),
        ("CREATE TABLE lake.db.t (a INT DEFAULT b, b INT)", "line 1, column 39: a default value is one constant"),
        ("CREATE TABLE lake.db.t", "columns in brackets, or AS and a query is expected"),
        ("CREATE TABLE lake.db.t (a INT) AS SELECT 1 AS a", "the columns of CREATE TABLE AS are those of the query"),
        ("CREATE TABLE lake.db.t AS SELECT 1 AS a, 2 AS a", "a"),
        (
            "CREATE TABLE lake.db.t AS SELECT INTERVAL 1 DAY AS a",
            "the query returns a type that Iceberg does not support",
        ),
        ("CREATE TABLE lake.db.t AS SELECT error('no') AS a", "no"),
        ("CREATE TABLE lake.db.t AS SELECT nope", "line 1, column 34: Referenced column"),
        ("CREATE TABLE metastore.components.t (a INT)", "has no component t"),
        ("DROP TABLE lake.db.t", "table lake.db.t does not exist"),
        ("DROP TABLE metastore.components.tables", "is the metastore's own"),
    ],
)
def test_what_fails_leaves_nothing(session: Session, tmp_path: Path, statement: str, message: str) -> None:
    """No table, no file; the message says line and column."""
    session.sql("CREATE TABLE lake.db.old (a INT)")
    files = files_of(tmp_path / "lake")
    with pytest.raises(MetastoreError) as refused:
        session.sql(statement)
    assert message in str(refused.value)
    assert str(refused.value).startswith("line 1, column ")
    assert files_of(tmp_path / "lake") == files
    assert session.catalogs.tables("lake", "db") == ["old"]


def test_a_table_of_a_query_has_its_rows_in_one_commit(session: Session) -> None:
    """Types that Iceberg does not have become wider ones; the first version has the rows."""
    session.sql(
        "CREATE TABLE lake.db.t WITH (partitioning = ARRAY['bucket(2, a)']) AS SELECT i AS a, i::UTINYINT AS b, "
        "i::UBIGINT AS c, TIMESTAMP_NS '2020-01-01 00:00:00' AS d, [i] AS e FROM range(5) r(i)"
    )
    table = loaded(session, "t")
    assert len(table.metadata.snapshots) == 1
    assert table.metadata.metadata_log == []
    kinds = [str(field.field_type) for field in table.schema().fields]
    assert kinds == ["long", "int", "decimal(20, 0)", "timestamp", "list<long>"]
    assert session.sql("SELECT sum(a) AS s, count(*) AS n FROM lake.db.t").to_pylist() == [{"s": 10, "n": 5}]


def test_a_file_system_has_tables_but_no_entries(tmp_path: Path) -> None:
    """Rows are written there as anywhere; what needs an entry of a catalog is refused by name."""
    lake = {"type": "filesystem", "warehouse": f"{tmp_path}/lake"}
    given = {"drill.metastore": {"iceberg.location.base_path": str(tmp_path / "own"), "catalogs.lake": lake}}
    with connect(Settings.from_mapping(given, environ={})) as session:
        session.sql("CREATE SCHEMA lake.db")
        session.sql("CREATE TABLE lake.db.t (a INT) PARTITIONED BY (bucket(2, a))")
        session.sql("INSERT INTO lake.db.t VALUES (1), (2)")
        session.sql("UPDATE lake.db.t SET a = a + 1 WHERE a = 2")
        assert session.sql("SELECT sum(a) AS s FROM lake.db.t").to_pylist() == [{"s": 4}]
        with pytest.raises(InvalidRequestError, match="CREATE TABLE first, then INSERT INTO"):
            session.sql("CREATE TABLE lake.db.u AS SELECT 1 AS a")
        for purge in ("", " PURGE"):
            with pytest.raises(InvalidRequestError, match="has no entries to drop"):
                session.sql(f"DROP TABLE lake.db.t{purge}")


def test_drop_keeps_every_file(session: Session, tmp_path: Path) -> None:
    """The answer names the metadata that registers the table again."""
    session.sql("CREATE TABLE lake.db.t AS SELECT 1 AS a")
    files = files_of(tmp_path / "lake")
    [row] = session.sql("DROP TABLE lake.db.t").to_pylist()
    assert files_of(tmp_path / "lake") == files
    with pytest.raises(NoSuchTableError):
        loaded(session, "t")
    session.call("lake.system.register_table", "db", "t", row["summary"].rpartition(" ")[2])
    assert session.sql("SELECT a FROM lake.db.t").to_pylist() == [{"a": 1}]
    assert session.sql("DROP TABLE IF EXISTS lake.db.u").to_pylist()[0]["ok"] is False


def test_purge_deletes_the_files_of_all_versions(session: Session, tmp_path: Path) -> None:
    """And none that the table does not name."""
    session.sql("CREATE TABLE lake.db.t AS SELECT range AS a FROM range(10)")
    session.sql("UPDATE lake.db.t SET a = 0 WHERE a > 5")
    stray = tmp_path / "lake" / "db" / "t" / "data" / "stray.parquet"
    stray.write_bytes(b"of somebody")
    session.sql("CREATE TABLE lake.db.other AS SELECT 1 AS a")
    session.sql("DROP TABLE lake.db.t PURGE")
    assert files_of(tmp_path / "lake" / "db" / "t") == {stray}
    assert session.sql("SELECT a FROM lake.db.other").to_pylist() == [{"a": 1}]


def test_purge_keeps_what_another_table_needs(session: Session, tmp_path: Path) -> None:
    """A second entry of the table, and files outside of its location: both are kept and said."""
    session.sql("CREATE TABLE lake.db.t AS SELECT 1 AS a")
    [path] = (tmp_path / "lake" / "db" / "t").rglob("*.parquet")
    session.sql("CREATE TABLE lake.db.taker (a INT)")
    loaded(session, "taker").add_files([str(path)])
    [row] = session.sql("DROP TABLE lake.db.t PURGE").to_pylist()
    assert "1 are kept: lake.db.taker" in row["summary"]
    assert session.sql("SELECT a FROM lake.db.taker").to_pylist() == [{"a": 1}]
    [row] = session.sql("DROP TABLE lake.db.taker PURGE").to_pylist()
    assert "1 are kept: they lie outside of its location" in row["summary"]
    assert path.exists()


def test_purge_is_refused_where_nothing_is_proven(session: Session, tmp_path: Path) -> None:
    """For a table that shares its files, and beside a table of which nothing can be known; nothing is dropped."""
    session.sql("CREATE TABLE lake.db.t TBLPROPERTIES ('gc.enabled' = 'false') AS SELECT 1 AS a")
    files = files_of(tmp_path / "lake")
    with pytest.raises(ProcedureError, match="GC is disabled"):
        session.sql("DROP TABLE lake.db.t PURGE")
    session.sql("ALTER TABLE lake.db.t UNSET PROPERTIES 'gc.enabled'")
    session.sql("CREATE TABLE lake.db.broken (a INT)")
    Path(loaded(session, "broken").metadata_location.removeprefix("file://")).write_text("no json")
    with pytest.raises((InvalidRequestError, NotFoundError), match="Nothing was dropped; DROP TABLE without PURGE"):
        session.sql("DROP TABLE lake.db.t PURGE")
    assert files <= files_of(tmp_path / "lake")
    assert session.sql("SELECT a FROM lake.db.t").to_pylist() == [{"a": 1}]
