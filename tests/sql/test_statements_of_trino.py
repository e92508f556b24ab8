"""Statements as a user of Trino types them: on a table of ours they do what Trino does on one of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import pytest
from services.s3 import S3Server
from services.trino import TrinoServer, in_json

from metastore.config import Settings
from metastore.errors import MetastoreError
from metastore.session import Session, connect

pytestmark = [pytest.mark.trino, pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Shared:
    """One catalog in PostgreSQL with data on S3: ``lake`` here, ``catalog`` in Trino."""

    session: Session
    trino: TrinoServer
    catalog: str


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server, trino: TrinoServer, postgres_server: str
) -> Iterator[Shared]:
    """Schemas ``ours`` and ``theirs``."""
    bucket, catalog = f"trino-{uuid.uuid4().hex[:8]}", f"lake_{uuid.uuid4().hex[:8]}"
    folder = tmp_path_factory.mktemp("shared")
    s3_server.create(bucket)
    keys = {f'"{key}"': value for key, value in s3_server.hadoop(s3_server.endpoint).items()}
    user, _, host = postgres_server.rpartition("@")
    name, _, password = user.partition(":")
    given = {
        "iceberg.location.base_path": str(folder / "own"),
        "catalogs.lake": {
            "type": "sql",
            "uri": f"postgresql+psycopg2://{postgres_server}/postgres",
            "warehouse": f"s3a://{bucket}/lake",
            **keys,
        },
    }
    properties = {
        "iceberg.catalog.type": "jdbc",
        "iceberg.jdbc-catalog.catalog-name": "lake",
        "iceberg.jdbc-catalog.driver-class": "org.postgresql.Driver",
        "iceberg.jdbc-catalog.connection-url": f"jdbc:postgresql://{host}/postgres",
        "iceberg.jdbc-catalog.connection-user": name,
        "iceberg.jdbc-catalog.connection-password": password,
        "iceberg.jdbc-catalog.default-warehouse-dir": f"s3://{bucket}/lake",
    }
    with ExitStack() as opened:
        session = opened.enter_context(connect(Settings.from_mapping({"drill.metastore": given}, environ={})))
        session.sql("CREATE SCHEMA lake.ours")
        opened.enter_context(trino.catalog(catalog, s3_server, properties))
        trino.rows(f"CREATE SCHEMA {catalog}.theirs")
        yield Shared(session, trino, catalog)


SCRIPTS = {
    "types": (
        (
            "CREATE TABLE {t} (id BIGINT, name VARCHAR, d DATE, ts TIMESTAMP(6), tz TIMESTAMP(6) WITH TIME ZONE, "
            "p DECIMAL(9,2), f DOUBLE, r REAL, b BOOLEAN, bin VARBINARY, u UUID, t TIME(6))"
        ),
        (
            "INSERT INTO {t} VALUES (1, 'a', DATE '2024-01-01', TIMESTAMP '2024-01-01 10:00:00', "
            "TIMESTAMP '2024-01-01 10:00:00 UTC', 1.25, 1e0, REAL '1.5', true, X'00ff', "
            "UUID '12151fd2-7586-11e9-8f9e-2a86e4085a59', TIME '10:00:00')"
        ),
        "INSERT INTO {t} (id, name) VALUES (2, 'b'), (3, NULL)",
        "UPDATE {t} SET name = upper(name), p = p + 1 WHERE id <= 2",
        "DELETE FROM {t} WHERE name IS NULL",
        "SELECT id, name, p FROM {t} ORDER BY id",
    ),
    "types that Iceberg lacks": (
        "CREATE TABLE {t} (x DECIMAL(38, 10), c CHAR(3), v VARCHAR(3), s SMALLINT, y TINYINT, l ARRAY(VARCHAR(5)))",
        "ALTER TABLE {t} ADD COLUMN w VARCHAR(7)",
        "INSERT INTO {t} VALUES (1234567890123456789012345678.0123456789, 'abc', 'x', 1, 2, ARRAY['z'], 'w')",
    ),
    "partitions": (
        (
            "CREATE TABLE {t} WITH (partitioning = ARRAY['bucket(id, 4)', 'month(d)', 'truncate(name, 2)'], "
            "sorted_by = ARRAY['id DESC NULLS LAST']) AS SELECT CAST(x AS BIGINT) AS id, "
            "CAST(DATE '2024-01-15' + INTERVAL '1' MONTH * x AS DATE) AS d, 'name' || CAST(x AS VARCHAR) AS name "
            "FROM UNNEST(SEQUENCE(1, 9)) AS u(x)"
        ),
        "ALTER TABLE {t} SET PROPERTIES partitioning = ARRAY['year(d)']",
        "INSERT INTO {t} VALUES (100, DATE '2030-05-05', 'x')",
        "ALTER TABLE {t} EXECUTE optimize",
        "ALTER TABLE {t} EXECUTE optimize(file_size_threshold => '128MB')",
        "ALTER TABLE {t} EXECUTE expire_snapshots(retention_threshold => '7d')",
        "ALTER TABLE {t} EXECUTE remove_orphan_files(retention_threshold => '7d')",
        "ALTER TABLE {t} EXECUTE optimize_manifests",
        "ANALYZE {t}",
        "DELETE FROM {t} WHERE d < DATE '2024-05-01'",
        "SELECT id, d, name FROM {t} ORDER BY id",
    ),
    "merge": (
        "CREATE TABLE {t} (id BIGINT, v VARCHAR)",
        "INSERT INTO {t} VALUES (1,'a'),(2,'b'),(3,'c')",
        (
            "MERGE INTO {t} t USING (VALUES (2,'B'),(4,'D')) AS s(id, v) ON t.id = s.id "
            "WHEN MATCHED AND s.v = 'zzz' THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v || t.v "
            "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
        ),
        "MERGE INTO {t} t USING {t} s ON t.id = s.id + 1 WHEN MATCHED THEN DELETE",
        "MERGE INTO {t} t USING (VALUES (1,'x'),(1,'y')) s(id, v) ON t.id = s.id WHEN MATCHED THEN UPDATE SET v='z'",
        "SELECT * FROM {t} ORDER BY id",
    ),
    "nested": (
        "CREATE TABLE {t} (id BIGINT, s ROW(a INTEGER, b VARCHAR), l ARRAY(INTEGER), m MAP(VARCHAR, DOUBLE))",
        "INSERT INTO {t} VALUES (1, ROW(1,'x'), ARRAY[1,2,NULL], MAP(ARRAY['k'], ARRAY[1e0])), (2, NULL, NULL, NULL)",
        "INSERT INTO {t} SELECT 3, CAST(ROW(7, 'seven') AS ROW(a INTEGER, b VARCHAR)), ARRAY[], MAP()",
        "UPDATE {t} SET s = CAST(ROW(9, s.b) AS ROW(a INTEGER, b VARCHAR)) WHERE id = 1",
        "SELECT id, s.a, cardinality(l) FROM {t} ORDER BY id",
        "ALTER TABLE {t} ADD COLUMN s.c BIGINT",
        "ALTER TABLE {t} RENAME COLUMN s.a TO aa",
        "ALTER TABLE {t} ALTER COLUMN s.aa SET DATA TYPE BIGINT",
        "ALTER TABLE {t} DROP COLUMN s.b",
        "SELECT id, s.aa, s.c FROM {t} ORDER BY id",
    ),
    "columns": (
        "CREATE TABLE IF NOT EXISTS {t} (id INTEGER)",
        "CREATE TABLE IF NOT EXISTS {t} (id INTEGER)",
        "ALTER TABLE {t} ADD COLUMN IF NOT EXISTS c VARCHAR COMMENT 'note'",
        "ALTER TABLE {t} ADD COLUMN IF NOT EXISTS c VARCHAR",
        "ALTER TABLE {t} ADD COLUMN first INTEGER FIRST",
        "ALTER TABLE {t} ADD COLUMN after INTEGER AFTER id",
        "ALTER TABLE {t} RENAME COLUMN c TO d",
        "ALTER TABLE IF EXISTS {t} DROP COLUMN IF EXISTS zzz",
        "ALTER TABLE {t} ALTER COLUMN id SET DATA TYPE BIGINT",
        "COMMENT ON TABLE {t} IS 'a table'",
        "COMMENT ON COLUMN {t}.id IS 'an id'",
        "INSERT INTO {t} (id) VALUES (9223372036854775807)",
    ),
    "quoted names": (
        'CREATE TABLE {t} ("Weird Name" INTEGER, "select" VARCHAR, "a.b" DOUBLE)',
        "INSERT INTO {t} VALUES (1, 'it''s', 2.5)",
        'UPDATE {t} SET "Weird Name" = "Weird Name" * 2, "select" = \'x\' || "select"',
        'DELETE FROM {t} WHERE "a.b" > 3',
    ),
    "values that do not fit": (
        "CREATE TABLE {t} (i INTEGER NOT NULL, v VARCHAR, d DATE)",
        "INSERT INTO {t} VALUES (NULL, 'a', NULL)",
        "INSERT INTO {t} VALUES ('1', 'a', DATE '2024-01-01')",
        "INSERT INTO {t} VALUES (1, 2, DATE '2024-01-01')",
        "INSERT INTO {t} VALUES (1, 'a', '2024-01-01')",
        "INSERT INTO {t} VALUES (3000000000, 'a', NULL)",
        "INSERT INTO {t} VALUES (1, 'a')",
        "INSERT INTO {t} (i, v, d, zzz) VALUES (1, 'a', NULL, 1)",
        "INSERT INTO {t} (i, i) VALUES (1, 2)",
        "UPDATE {t} SET zzz = 1",
        "UPDATE {t} SET i = 'x'",
        "DELETE FROM {t} WHERE zzz = 1",
    ),
    "deletes": (
        "CREATE TABLE {t} (id BIGINT, k VARCHAR) WITH (partitioning = ARRAY['k'])",
        "INSERT INTO {t} VALUES (1,'a'),(2,'b'),(3,'c'),(4,NULL)",
        "DELETE FROM {t} WHERE k IN ('a','c')",
        "DELETE FROM {t} WHERE k NOT IN (SELECT 'b')",
        "SELECT * FROM {t} ORDER BY id",
        "UPDATE {t} SET k = 'moved' WHERE id = 2",
        "DELETE FROM {t} WHERE id IN (SELECT max(id) FROM {t})",
        "SELECT * FROM {t} ORDER BY id",
        "TRUNCATE TABLE {t}",
        "INSERT INTO {t} TABLE {t}",
        "INSERT INTO {t} WITH x AS (SELECT 5 AS id) SELECT id, 'five' FROM x",
    ),
    "times": (
        "CREATE TABLE {t} (id BIGINT, ts TIMESTAMP(6) WITH TIME ZONE) WITH (partitioning = ARRAY['hour(ts)'])",
        (
            "INSERT INTO {t} VALUES (1, TIMESTAMP '2024-03-10 03:30:00 America/New_York'), "
            "(2, from_iso8601_timestamp('2024-03-10T02:30:00Z')), (3, TIMESTAMP '1969-12-31 23:59:59.999999 UTC')"
        ),
        "DELETE FROM {t} WHERE ts < TIMESTAMP '1970-01-01 00:00:00 UTC'",
        "UPDATE {t} SET ts = ts + INTERVAL '1' HOUR WHERE id = 1",
        "SELECT id, to_unixtime(ts) FROM {t} ORDER BY id",
        "SELECT id FROM {t} WHERE date(ts) = DATE '2024-03-10' ORDER BY id",
        "SELECT id FROM {t} WHERE date_trunc('hour', ts) = TIMESTAMP '2024-03-10 02:00:00 UTC' ORDER BY id",
        "SELECT id FROM {t} WHERE year(ts) = 2024 AND month(ts) = 3 ORDER BY id",
    ),
    "numbers": (
        "CREATE TABLE {t} (id BIGINT, v DOUBLE)",
        "INSERT INTO {t} VALUES (1, nan()), (2, infinity()), (3, -infinity()), (4, -0e0), (5, NULL)",
        "SELECT id FROM {t} WHERE is_nan(v)",
        "SELECT id FROM {t} WHERE is_infinite(v) ORDER BY id",
        "SELECT id FROM {t} WHERE is_finite(v) ORDER BY id",
        "SELECT id FROM {t} WHERE v = 0 ORDER BY id",
        "SELECT id FROM {t} WHERE v < 0 ORDER BY id",
        "DELETE FROM {t} WHERE v = 0",
    ),
    "texts": (
        "CREATE TABLE {t} (id BIGINT, v VARCHAR)",
        "INSERT INTO {t} VALUES (1, 'Straße'), (2, ''), (3, 'a%b'), (4, '😀'), (5, 'a_b')",
        "SELECT id FROM {t} WHERE v LIKE 'a\\%b' ESCAPE '\\'",
        "SELECT id, length(v), reverse(v) FROM {t} ORDER BY id",
        "SELECT id FROM {t} WHERE v LIKE 'a_b' ORDER BY id",
        "DELETE FROM {t} WHERE v LIKE 'a!_b' ESCAPE '!'",
        "DELETE FROM {t} WHERE v LIKE '%ß%'",
        "DELETE FROM {t} WHERE v = ''",
        "UPDATE {t} SET v = substr(v, 1, 1)",
        "SELECT id, v FROM {t} ORDER BY id",
    ),
    "copies": (
        "CREATE TABLE {t} AS SELECT 1 AS a, 'x' AS b, CAST(NULL AS DOUBLE) AS c",
        "CREATE TABLE {t}_copy (LIKE {t})",
        "CREATE TABLE {t}_like (z INTEGER, LIKE {t} INCLUDING PROPERTIES)",
        "CREATE TABLE {t}_none AS SELECT * FROM {t} WITH NO DATA",
        "SELECT count(*) FROM {t}_none",
        "ALTER TABLE {t}_copy RENAME TO {s}.renamed",
        "SELECT count(*) FROM {s}.renamed",
        "DROP TABLE {s}.renamed",
        "DROP TABLE IF EXISTS {s}.renamed",
        "DROP TABLE {s}.renamed",
        "CREATE OR REPLACE TABLE {t} AS SELECT 2 AS a",
    ),
    "what a table says of itself": (
        "CREATE TABLE {t} (id BIGINT)",
        "INSERT INTO {t} VALUES (1)",
        'SELECT is_current_ancestor FROM {s}."{n}$history" ORDER BY made_current_at DESC LIMIT 1',
        'SELECT operation FROM {s}."{n}$snapshots" ORDER BY committed_at DESC LIMIT 1',
        'SELECT record_count, file_count FROM {s}."{n}$partitions"',
        'SELECT file_format, record_count FROM {s}."{n}$files"',
        'SELECT name, type FROM {s}."{n}$refs"',
        'SELECT count(*) FROM {s}."{n}$manifests"',
        'SELECT "$path" IS NOT NULL FROM {t}',
    ),
    "schemas and views": (
        "CREATE TABLE {t} (id BIGINT, v VARCHAR) COMMENT 'hello' WITH (format_version = 2)",
        "SHOW TABLES FROM {s} LIKE 'zz%'",
        "CREATE SCHEMA IF NOT EXISTS {c}.extra_{n}_{k}",
        "CREATE SCHEMA {c}.extra_{n}_{k}",
        "DROP SCHEMA {c}.extra_{n}_{k}",
        "DROP SCHEMA IF EXISTS {c}.extra_{n}_{k}",
        "DROP SCHEMA {c}.extra_{n}_{k}",
        "CREATE VIEW {t}_v AS SELECT id FROM {t}",
        "CREATE OR REPLACE VIEW {t}_v AS SELECT v FROM {t}",
        "DROP VIEW {t}_v",
        "DROP VIEW IF EXISTS {t}_v",
        "DROP TABLE {t}_v",
    ),
}
"""Statements by subject. ``{t}`` is the table, ``{n}`` its name, ``{s}`` its schema, ``{c}`` its catalog."""


def outcomes(say: Callable[[str], list[list[Any]]], statements: Sequence[str], table: str) -> list[tuple[str, Any]]:
    """The statements that are carried out, in order, each with the rows of a query, or True."""
    schema, _, name = table.rpartition(".")
    catalog, _, kind = schema.partition(".")
    found: list[tuple[str, Any]] = []
    for statement in statements:
        with suppress(RuntimeError, MetastoreError):
            rows = say(statement.format(t=table, n=name, s=schema, c=catalog, k=kind))
            found.append((statement, rows if statement.startswith("SELECT") else True))
    return found


@pytest.mark.parametrize("subject", SCRIPTS)
def test_a_statement_does_what_trino_does(shared: Shared, subject: str) -> None:
    """It is carried out or refused, and a query has the same rows. Trino reads the same columns and rows in the end."""
    statements, name = SCRIPTS[subject], subject.replace(" ", "_").lower()

    def ours(statement: str) -> list[list[Any]]:
        return [[in_json(value) for value in row.values()] for row in shared.session.sql(statement).to_pylist()]

    theirs = outcomes(shared.trino.rows, statements, f"{shared.catalog}.theirs.{name}")
    mine = outcomes(ours, statements, f"lake.ours.{name}")
    assert mine == theirs
    for question in ("DESCRIBE {}", "SELECT * FROM {}"):
        rows = [shared.trino.rows(question.format(f"{shared.catalog}.{each}.{name}")) for each in ("ours", "theirs")]
        assert sorted(map(str, rows[0])) == sorted(map(str, rows[1]))
