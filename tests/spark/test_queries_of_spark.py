"""A caller chooses Spark for the query of a statement: what it writes equals what DuckDB's query writes elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from metastore.config import Settings
from metastore.errors import EngineError, InvalidRequestError, MetastoreError, NotFoundError
from metastore.session import Session
from metastore.session import connect as connect_here
from metastore.spark import connect, merge
from metastore.spark.session import copy_session

pytestmark = pytest.mark.spark

SOURCE = """CREATE TABLE lake.db.s AS
    SELECT i AS id, ['a', 'b', NULL][i % 3 + 1] AS k, (i * 1.125)::DECIMAL(18, 3) AS d,
    TIMESTAMPTZ '2021-04-01 10:00:00Z' + to_hours(i) AS tz, TIMESTAMP '2021-03-28 02:30:00' AS ts, i / 2.0 AS x
    FROM range({0}, {0} + 30) r(i)"""

STATEMENTS = [
    "CREATE TABLE lake.db.{t} {clauses} AS SELECT id, k, d, tz, ts, x, CAST(id AS BIGINT) AS n FROM lake.db.s",
    """INSERT INTO lake.db.{t} (id, k, d, n) SELECT max(id) + 100, k, sum(d), count(*) FROM lake.db.s GROUP BY k""",
    """INSERT INTO lake.db.{t} (id, k, tz, ts) SELECT a.id + 200, b.k, a.tz, b.ts FROM lake.db.s a
    JOIN lake.db.s b ON a.id = b.id + 2""",
    """INSERT INTO lake.db.{t} BY NAME SELECT id + 300 AS id, k FROM
    (SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY id) AS place FROM lake.db.s) w WHERE place < 3""",
    "INSERT INTO lake.db.{t} (id, k) SELECT DISTINCT CAST(400 AS BIGINT), k FROM lake.db.s WHERE id > 5",
    "INSERT INTO lake.db.{t} (id) SELECT id FROM lake.db.s WHERE id < 0",
    "INSERT OVERWRITE lake.db.{t} SELECT id, k, d, tz, ts, x, 7 FROM lake.db.{t} WHERE k = 'a' AND id < 250",
    """MERGE INTO lake.db.{t} t USING (SELECT id * 3 AS id, k, id AS m FROM lake.db.s WHERE id < 20) s ON t.id = s.id
    WHEN MATCHED AND t.n > 6 THEN DELETE WHEN MATCHED THEN UPDATE SET k = s.k, n = s.m
    WHEN NOT MATCHED THEN INSERT (id, k, n) VALUES (s.id, s.k, DEFAULT)
    WHEN NOT MATCHED BY SOURCE AND t.id = 7 THEN UPDATE SET n = 77""",
]


@pytest.fixture(scope="module")
def sessions(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Session]]:
    """A session on Spark, in another time zone, and one on this machine; each has the table ``s`` of 30 rows."""
    several_tasks = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "4"}
    with copy_session(spark, {"spark.sql.session.timeZone": "America/New_York", **several_tasks}) as elsewhere:
        yield from _opened(elsewhere, tmp_path_factory)


def _opened(elsewhere: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Session]]:

    def settings(folder: Path) -> Settings:
        lake = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"{folder}/lake"}
        given = {"iceberg.location.base_path": str(folder / "m"), "catalogs.lake": lake}
        return Settings.from_mapping({"drill.metastore": given}, environ={})

    opened = [
        connect(elsewhere, settings(tmp_path_factory.mktemp("spark"))),
        connect_here(settings(tmp_path_factory.mktemp("here"))),
    ]
    for session in opened:
        session.sql("CREATE SCHEMA lake.db")
        session.sql(SOURCE.format(0))
    yield opened
    for session in opened:
        session.close()


def texts(rows: pa.Table) -> list[str]:
    """Rows that compare whatever their order."""
    return sorted(map(repr, rows.to_pylist()))


def files(session: Session) -> int:
    """The number of data files that lie in the lake, in tables or not."""
    folder = str(session.settings.catalogs["lake"].properties["warehouse"])
    return len(list(Path(folder).rglob("*.parquet")))


@pytest.mark.parametrize("version", [pytest.param(2, marks=pytest.mark.exhaustive), 3])
@pytest.mark.parametrize(
    ("partitioned", "mode"),
    [
        pytest.param("", "merge-on-read", marks=pytest.mark.exhaustive),
        ("PARTITIONED BY (k)", "copy-on-write"),
    ],
)
def test_each_statement_writes_the_rows_of_duckdb(
    sessions: list[Session], version: int, partitioned: str, mode: str
) -> None:
    """Groups, joins, windows and MERGE, in a session of another time zone; one snapshot each."""
    name = f"t{version}{mode[0]}"
    modes = ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))
    clauses = f"{partitioned} TBLPROPERTIES ('format-version' = {version}, {modes})"
    by_spark, here = sessions
    for number, statement in enumerate(STATEMENTS, 1):
        text = statement.format(t=name, clauses=clauses)
        told = by_spark.sql(text, engine="spark").to_pylist()[0]
        expected = here.sql(text).to_pylist()[0]
        for each in ("inserted", "updated", "deleted"):
            assert told.get(each) == expected.get(each), statement
        assert told.get("engine", "spark") == "spark"
        rows = [session.sql(f"SELECT * FROM lake.db.{name}") for session in sessions]
        assert rows[0].schema == rows[1].schema
        assert texts(rows[0]) == texts(rows[1]), statement
        log = [session.sql(f'SELECT operation FROM lake.db."{name}$snapshots"').to_pylist() for session in sessions]
        assert log[0] == log[1]
        assert len(log[0]) <= number


def test_rows_of_a_partition_come_to_one_file(sessions: list[Session]) -> None:
    """Groups of 30 rows in many tasks become one file for each of the three partitions."""
    by_spark = sessions[0]
    by_spark.sql("CREATE TABLE lake.db.few (id BIGINT, k VARCHAR) PARTITIONED BY (k)")
    by_spark.sql("INSERT INTO lake.db.few SELECT id, max(k) FROM lake.db.s GROUP BY id", engine="spark")
    assert by_spark.sql('SELECT count(*) AS n FROM lake.db."few$data_files"').to_pylist() == [{"n": 3}]


def test_merged_rows_of_a_partition_come_to_one_file(spark: SparkSession, sessions: list[Session]) -> None:
    """New rows of two clauses, from six tasks, become one file for each of the three partitions."""
    by_spark = sessions[0]
    by_spark.sql("CREATE TABLE lake.db.fresh (id BIGINT, k VARCHAR) PARTITIONED BY (k)")
    told = merge(
        by_spark,
        spark.range(0, 60, 1, 6).selectExpr("id", "concat('k', id % 3) AS k"),
        "lake.db.fresh",
        "target.id = source.id",
        "WHEN NOT MATCHED AND source.id < 30 THEN INSERT *",
        "WHEN NOT MATCHED AND source.id < 50 THEN INSERT (k, id) VALUES (source.k, source.id)",
    )
    assert told["inserted"].to_pylist() == [50]
    assert by_spark.sql(
        "SELECT count(DISTINCT id) AS n, sum(id) AS s FROM lake.db.fresh WHERE k = 'k' || id % 3"
    ).to_pylist() == [{"n": 50, "s": 1225}]
    assert by_spark.sql('SELECT count(*) AS n FROM lake.db."fresh$data_files"').to_pylist() == [{"n": 3}]


def test_a_query_is_pruned_and_says_which_engine_runs_it(sessions: list[Session]) -> None:
    """EXPLAIN names the engine and its dialect, for every statement that has a query."""
    by_spark = sessions[0]
    found = by_spark.sql("SELECT k, collect_set(id % 2) AS odd FROM lake.db.s WHERE id < 3 GROUP BY k", engine="spark")
    assert {(row["k"], len(row["odd"])) for row in found.to_pylist()} == {("a", 1), ("b", 1), (None, 1)}
    by_spark.sql("CREATE TABLE lake.db.e (id BIGINT, k VARCHAR)")
    for statement in (
        "SELECT k FROM lake.db.s GROUP BY k",
        "INSERT INTO lake.db.e SELECT max(id), k FROM lake.db.s GROUP BY k",
        "CREATE TABLE lake.db.new AS SELECT k FROM lake.db.s GROUP BY k",
        "MERGE INTO lake.db.e t USING lake.db.s s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ):
        lines = by_spark.sql(f"EXPLAIN {statement}", engine="spark").column("plan").to_pylist()
        assert lines[0] == "Run by Spark, in Spark's SQL"
        assert any("Exchange hashpartitioning" in str(line) for line in lines), lines
    with pytest.raises(NotFoundError):
        by_spark.sql("SELECT * FROM lake.db.new")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("DELETE FROM lake.db.w", InvalidRequestError, r"line 1, column 1: DELETE FROM has no query that Spark could"),
        ("INSERT INTO lake.db.w SELECT id FROM lake.db.s", InvalidRequestError, "1 columns, and values are expected"),
        (
            "INSERT INTO lake.db.w SELECT k, id FROM lake.db.s",
            InvalidRequestError,
            "column id is long, .* gives string",
        ),
        ("INSERT INTO lake.db.w SELECT nope, k FROM lake.db.s", InvalidRequestError, "column 30: unknown column nope"),
        ("INSERT INTO lake.db.w SELECT id, k FROM lake.db.no", InvalidRequestError, "column 49: unknown table or view"),
        ("INSERT INTO lake.db.w SELECT 1, raise_error('no') FROM lake.db.s", EngineError, "no SQLSTATE: P0001"),
        (
            "CREATE TABLE lake.db.v AS SELECT k || raise_error('no') AS k FROM lake.db.s",
            EngineError,
            "no SQLSTATE: P0001",
        ),
        (
            "MERGE INTO lake.db.w t USING lake.db.no s ON t.id = s.id WHEN MATCHED THEN DELETE",
            InvalidRequestError,
            "line 1, column 38: unknown table or view lake.db.no",
        ),
        (
            "MERGE INTO lake.db.w t USING (SELECT 1 AS id FROM lake.db.s) s ON t.id = s.id\n{U} k = 'x'",
            InvalidRequestError,
            "line 1, column 67: several rows of the source change one row",
        ),
        (
            "MERGE INTO lake.db.w t USING (SELECT 1 AS id FROM lake.db.s LIMIT 1) s ON t.id = s.id\n{U} id = 'x'",
            InvalidRequestError,
            "line 2, column 1: column id is long, and the query gives string",
        ),
        (
            "INSERT INTO lake.db.s (tz) SELECT ts FROM lake.db.s",
            InvalidRequestError,
            "column tz is timestamptz, and Spark gives .*, whose times have no zone",
        ),
        (
            "MERGE INTO lake.db.s t USING lake.db.s s ON t.id = s.id\n{U} tz = s.ts",
            InvalidRequestError,
            "line 2, column 1: column tz is timestamptz, and Spark gives .*, whose times have no zone",
        ),
        (
            "MERGE INTO lake.db.w t USING lake.db.s s ON t.id = s.id\n{U} k = raise_error(s.k)",
            EngineError,
            "SQLSTATE: P0001",
        ),
    ],
)
def test_what_fails_changes_nothing(
    sessions: list[Session], text: str, error: type[MetastoreError], message: str
) -> None:
    """A typed error; the table has its rows and no further snapshot, and no file is left."""
    by_spark = sessions[0]
    by_spark.sql("CREATE TABLE IF NOT EXISTS lake.db.w AS SELECT id, k FROM lake.db.s")
    assert by_spark.sql("SELECT count(*) AS n FROM lake.db.w").to_pylist() == [{"n": 30}]
    before = files(by_spark), by_spark.sql("SELECT count(*), max(k) FROM lake.db.w").to_pylist()
    with pytest.raises(error, match=message):
        by_spark.sql(text.replace("{U}", "WHEN MATCHED THEN UPDATE SET"), engine="spark")
    assert (files(by_spark), by_spark.sql("SELECT count(*), max(k) FROM lake.db.w").to_pylist()) == before
    assert "v" not in by_spark.catalogs.tables("lake", "db")


def test_the_configuration_chooses_for_all_queries(sessions: list[Session]) -> None:
    """Statements without a query run as ever; a call's own engine wins; without Spark the error says how to open it."""
    given = {"drill.metastore.engine.sql": "spark", "drill.metastore.iceberg.location.base_path": "/nowhere"}
    settings = Settings.from_mapping(given, environ={})
    assert settings.engine.sql == "spark"
    with connect_here(settings) as without, pytest.raises(EngineError, match=r"open it with metastore\.spark\.connect"):
        without.sql("SELECT 1 AS x FROM information_schema.tables")
    with pytest.raises(InvalidRequestError, match="engine is duckdb or spark, .* it is 'flink'"):
        sessions[0].sql("SELECT 1", engine="flink")  # type: ignore[arg-type] # as a user types it
    assert sessions[0].sql("SELECT [1, 2] AS l", engine="duckdb").to_pylist() == [{"l": [1, 2]}]


def test_a_dataframe_is_merged(spark: SparkSession, sessions: list[Session]) -> None:
    """``merge`` has the rows of MERGE by SQL, whatever its DataFrame is made of; one snapshot."""
    by_spark, here = sessions
    for session in sessions:
        session.sql("CREATE TABLE lake.db.m PARTITIONED BY (bucket(4, id)) AS SELECT id, k, x FROM lake.db.s")
    source = spark.range(20, 40).selectExpr("id", "concat('new', id) AS k", "CAST(NULL AS DOUBLE) AS x")
    told = merge(
        by_spark,
        source,
        "lake.db.m",
        "target.id = source.id",
        "WHEN MATCHED AND source.id % 2 = 0 THEN UPDATE SET *",
        "WHEN NOT MATCHED THEN INSERT *",
    ).to_pylist()[0]
    assert (told["inserted"], told["updated"], told["deleted"], told["engine"]) == (10, 5, 0, "spark")
    here.sql(
        "MERGE INTO lake.db.m AS t USING (SELECT i AS id, 'new' || i AS k, NULL::DOUBLE AS x\n"
        "FROM range(20, 40) r(i)) s "
        "ON t.id = s.id WHEN MATCHED AND s.id % 2 = 0 THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    rows = [session.sql("SELECT * FROM lake.db.m") for session in sessions]
    assert texts(rows[0]) == texts(rows[1])
    assert by_spark.sql('SELECT count(*) AS n FROM lake.db."m$snapshots"').to_pylist() == [{"n": 2}]


def test_a_merge_into_a_branch_leaves_main(spark: SparkSession, sessions: list[Session]) -> None:
    """The branch begins where main is; the next merge reads the branch. A tag and an empty name are refused."""
    ms = sessions[0]
    ms.sql("CREATE TABLE lake.db.b AS SELECT id FROM lake.db.s WHERE id < 4")
    ms.sql("ALTER TABLE lake.db.b CREATE TAG first")
    on = ("lake.db.b", "target.id = source.id", "WHEN MATCHED THEN DELETE", "WHEN NOT MATCHED THEN INSERT *")
    for first, left in ((2, [0, 1, 4, 5]), (4, [0, 1, 6, 7])):
        merge(ms, spark.range(first, first + 4), *on, branch="audit")
        table = ms.catalogs.open("lake").load_table("db.b")
        ids: list[Any] = table.scan(snapshot_id=table.metadata.refs["audit"].snapshot_id).to_arrow()["id"].to_pylist()
        assert sorted(ids) == left
        main: list[Any] = table.scan().to_arrow()["id"].to_pylist()
        assert sorted(main) == [0, 1, 2, 3]
    for name, said in (("first", "first is a tag"), ("", "it is empty")):
        with pytest.raises(InvalidRequestError, match=said):
            merge(ms, spark.range(1), *on, branch=name)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("lake.db.s", "target.id = source.id"), InvalidRequestError, "merge needs a clause"),
        (("lake.db.s", "target.id = source.id", "WHEN"), InvalidRequestError, "line 2, column 5: MATCHED is expected"),
        (("lake.db.no", "target.id = source.id", "WHEN MATCHED THEN DELETE"), NotFoundError, "lake.db.no"),
        (("s", "target.id = source.id", "WHEN MATCHED THEN DELETE"), InvalidRequestError, r"catalog\.schema\.table"),
        (
            ("lake.db.s", "target.id = source.no", "WHEN MATCHED THEN DELETE"),
            InvalidRequestError,
            "line 1, column 60: Spark does not understand the statement: .*`source`.`no` cannot be resolved\\.$",
        ),
    ],
)
def test_a_merge_that_cannot_be_read_is_refused(
    spark: SparkSession, sessions: list[Session], arguments: tuple[str, ...], error: type[MetastoreError], message: str
) -> None:
    """With the place in the clause, and before anything is written."""
    with pytest.raises(error, match=message):
        merge(sessions[0], spark.range(1), *arguments)
