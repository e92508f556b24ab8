"""Statements that users of Trino, Spark and Drill type on the first day: each runs, or says the way to go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.config.settings import Settings
from metastore.errors import MetastoreError
from metastore.session import Session, connect

STATEMENTS: list[tuple[str, str | None]] = [
    ("CREATE SCHEMA lake.db", None),
    (
        (
            "CREATE TABLE lake.db.t (id BIGINT, name VARCHAR, a INTEGER, l ARRAY(ROW(e INTEGER)), m MAP(VARCHAR, ROW(v "
            "INTEGER)), s ROW(a INTEGER, b VARCHAR), ts TIMESTAMP(6)) WITH (format_version = 3)"
        ),
        None,
    ),
    ("INSERT INTO lake.db.t (id, name, a) VALUES (1, 'one', 1), (2, 'two', 2)", None),
    ("CREATE TABLE lake.db.u (id BIGINT, name VARCHAR)", None),
    ("INSERT INTO lake.db.u VALUES (2, 'zwei')", None),
    ("USE lake.db", None),
    ("SELECT count(*) FROM t", None),
    ("SELECT count(*) FROM db.t", None),
    ("CALL system.expire_snapshots(table => 'db.t', retain_last => 10)", None),
    ("CREATE OR REPLACE TABLE r (id BIGINT)", None),
    ("CREATE OR REPLACE TABLE r AS SELECT id, name FROM t", None),
    ("REPLACE TABLE r AS SELECT id FROM t", None),
    ("CREATE TABLE like1 (LIKE t)", None),
    ("CREATE TABLE like2 LIKE t", None),
    ("CREATE TABLE nodata AS SELECT * FROM t WITH NO DATA", None),
    ("CREATE TABLE o WITH (format = 'ORC') AS SELECT 1 AS x", "rows are written as PARQUET"),
    ("CREATE TABLE av (x INTEGER) WITH (format = 'AVRO')", "rows are written as PARQUET"),
    ("CREATE SCHEMA lake.tmp1 WITH (location = '{folder}/elsewhere')", None),
    ("DESCRIBE SCHEMA lake.tmp1", None),
    ("SHOW NAMESPACES", None),
    ("SHOW CREATE SCHEMA lake.tmp1", None),
    ("ALTER SCHEMA lake.tmp1 RENAME TO tmp2", "CREATE SCHEMA, then ALTER TABLE"),
    ("DROP SCHEMA IF EXISTS lake.tmp2 CASCADE", None),
    ("DROP SCHEMA IF EXISTS lake.tmp1 CASCADE", None),
    ("ALTER TABLE t CREATE BRANCH dev", None),
    ("INSERT INTO t.branch_dev (id, name) VALUES (3, 'three')", None),
    ("UPDATE t.branch_dev SET name = 'drei' WHERE id = 3", None),
    ("DELETE FROM t.branch_dev WHERE id = 1", None),
    ("MERGE INTO t.branch_dev AS b USING u ON b.id = u.id WHEN MATCHED THEN UPDATE SET name = u.name", None),
    ("INSERT INTO \"t@dev\" (id, name) VALUES (9, 'nine')", None),
    ("INSERT INTO lake.db.\"t@dev\" (id, name) VALUES (10, 'ten')", None),
    ("SELECT * FROM t.branch_dev", None),
    ('SELECT * FROM "t@dev"', None),
    ("SELECT * FROM t.snapshots", None),
    ("SELECT * FROM lake.db.t.history", None),
    ("SELECT * FROM t.files", None),
    ("SELECT * FROM t.partitions", None),
    ("SELECT * FROM t.manifests", None),
    ("SELECT * FROM t.refs", None),
    ("SELECT * FROM t FOR SYSTEM_VERSION AS OF 'dev'", None),
    ("SELECT * FROM t FOR SYSTEM_TIME AS OF current_timestamp", None),
    ("SELECT * FROM t FOR TIMESTAMP AS OF current_timestamp - INTERVAL '0' DAY", None),
    ("SELECT * FROM t TIMESTAMP AS OF '2099-01-01 00:00:00'", None),
    ("CALL system.expire_snapshots(table => 'db.t', older_than => TIMESTAMP '2020-01-01 00:00:00')", None),
    ("CREATE VIEW dfs.shop.v1 AS SELECT id FROM lake.db.t", None),
    ("SELECT * FROM dfs.shop.v1", None),
    ("CREATE MATERIALIZED VIEW dfs.shop.mv AS SELECT count(*) c FROM lake.db.t", None),
    ("SELECT * FROM dfs.shop.mv", None),
    ("ANALYZE TABLE lake.db.t", None),
    ("ANALYZE t", None),
    ("ANALYZE TABLE t COMPUTE STATISTICS", None),
    ("SHOW STATS FOR t", None),
    ("SHOW STATS FOR (SELECT * FROM t WHERE id > 1)", None),
    ("UPDATE t SET s.a = 5 WHERE s IS NOT NULL", None),
    ("UPDATE t SET name = u.name FROM u WHERE t.id = u.id", None),
    ("DELETE FROM t USING u WHERE t.id = u.id AND u.id = 77", None),
    ("WITH x AS (SELECT 5 AS id) INSERT INTO u SELECT id, 'x' FROM x", None),
    ("INSERT INTO u WITH x AS (SELECT 6 AS id) SELECT id, 'x' FROM x", None),
    ("INSERT INTO u DEFAULT VALUES", None),
    ("INSERT INTO u REPLACE WHERE id = 6 SELECT 6, 'six'", None),
    ("CREATE TABLE p (id BIGINT, a INTEGER) WITH (partitioning = ARRAY['a'])", None),
    ("INSERT INTO p PARTITION (a = '7') SELECT 1", None),
    ("SELECT ROW(1, 'z')", None),
    ("SELECT named_struct('a', 1)", None),
    ("SELECT array(1, 2)", None),
    ("SELECT map('k', 1)", None),
    ("SELECT MAP(ARRAY['k'], ARRAY[1])", None),
    ("SELECT ARRAY[1, 2]", None),
    (
        "INSERT INTO t (id, ts) VALUES (4, TIMESTAMP '2026-01-01 00:00:00' AT TIME ZONE 'UTC')",
        "write the conversion, as CAST",
    ),
    ("COMMENT ON TABLE t IS 'the table'", None),
    ("COMMENT ON COLUMN t.a IS 'the column'", None),
    ("ALTER TABLE like1 DROP COLUMNS a, name", None),
    ("ALTER TABLE t CHANGE COLUMN a b2 INTEGER", None),
    ("ALTER TABLE t ADD COLUMN l.element.x INTEGER", None),
    ("ALTER TABLE t ADD COLUMN m.value.y INTEGER", None),
    ("ALTER TABLE IF EXISTS nothere ADD COLUMN q INTEGER", None),
    ("ALTER TABLE IF EXISTS t ADD COLUMN q INTEGER", None),
    ("ALTER TABLE p SET PROPERTIES partitioning = DEFAULT", None),
    ("SHOW TBLPROPERTIES t", None),
    ("DESCRIBE EXTENDED t", None),
    ("SHOW VIEWS", None),
    ("SHOW FUNCTIONS", None),
    ("SHOW FILES", "metastore files"),
    ("REFRESH TABLE t", "every statement reads the newest version"),
    ("SET x = y", "a session has spark.wap.branch"),
    ("RESET", None),
    ("EXPLAIN ANALYZE SELECT * FROM t", None),
    ("START TRANSACTION", "each statement is a transaction of its own"),
    ("COMMIT", "each statement is a transaction of its own"),
    ("CREATE TABLE st (x STRUCT<a: INT NOT NULL>)", None),
    ("CREATE TABLE bl (x BLOB)", None),
    ("SELECT _file, _pos, _spec_id FROM t", None),
    ("SELECT _row_id, _last_updated_sequence_number FROM t", None),
    ("SELECT _partition FROM p", None),
    ("SELECT x FROM (SELECT array(1,2) a) LATERAL VIEW explode(a) e AS x", None),
    ("SELECT approx_distinct(id) FROM t", None),
    ("INSERT INTO dfs.shop.files VALUES (1, 'x')", "CREATE VIEW stores a query over them"),
    ("DROP TABLE dfs.shop.files", "tables of files, which are read only here"),
    ("SLECT 1", "did you mean SELECT, SET or USE"),
    ("SELECT nmae FROM t", "did you mean name"),
    ("UPDATE t SET name = max(name)", "compute it in a subquery"),
    ("SELECT (SELECT id FROM t)", "scalar subqueries can only return a single row"),
]
"""In this order over one lake; beside each its refusal, or None."""

INTERNAL = re.compile(r"\$changed|Use SET|: -1 and -1")
"""Texts of the inside, which no error shows."""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A catalog ``lake``, and a table of files."""
    (tmp_path / "shop/files").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), tmp_path / "shop/files/a.parquet")
    given = {
        "iceberg.location.base_path": f"{tmp_path}/metastore",
        "catalogs.lake": {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"{tmp_path}/warehouse"},
        "storage.dfs.workspaces.shop": {"location": f"{tmp_path}/shop", "writable": "true"},
    }
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as session:
        session.analyze("dfs.shop.files")
        yield session


def test_each_runs_or_says_the_way(session: Session, tmp_path: Path) -> None:
    """A refusal has its place in the statement."""
    for text, refusal in STATEMENTS:
        statement = text.replace("{folder}", str(tmp_path))
        if refusal is None:
            session.sql(statement)
            continue
        with pytest.raises(MetastoreError) as caught:
            session.sql(statement)
        assert refusal in str(caught.value), statement
        assert str(caught.value).startswith("line 1, column "), statement
        assert not INTERNAL.search(str(caught.value)), statement


def test_the_answers(session: Session, tmp_path: Path) -> None:
    """What the rows are after all of them."""
    for text, refusal in STATEMENTS:
        if refusal is None:
            session.sql(text.replace("{folder}", str(tmp_path)))
    rows = session.sql("SELECT id, name, s.a AS a FROM lake.db.t ORDER BY id").to_pylist()
    assert rows == [{"id": 1, "name": "one", "a": None}, {"id": 2, "name": "zwei", "a": None}]
    branch = session.sql("SELECT id, name FROM lake.db.t.branch_dev ORDER BY id").to_pylist()
    assert [(row["id"], row["name"]) for row in branch] == [(2, "zwei"), (3, "drei"), (9, "nine"), (10, "ten")]
    assert session.sql("SELECT id, a FROM lake.db.p").to_pylist() == [{"id": 1, "a": 7}]
