"""Statements that run by tasks change a table as the same statements on this machine do, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.table import Table
from support.delete_files import delete_equal, with_ids
from support.row_lineage import version_3
from support.row_statements import COLUMNS, PARTITIONINGS, REFUSED, ROWS, STATEMENTS
from support.task_engine import TaskEngine

from metastore.config import Settings
from metastore.duck.queries import Duck
from metastore.errors import EngineError, InvalidRequestError, MetastoreError
from metastore.session import Session, connect
from metastore.sql.queries.relations import Relations
from metastore.sql.queries.statement_functions import ONE_VALUE, RANDOM
from metastore.sql.statement import Statement
from metastore.sql.tasks.division import Division, UndividedQuery, divide_query


@pytest.fixture
def engine() -> TaskEngine:
    """An engine that runs statements by tasks, whatever their size."""
    return TaskEngine()


@pytest.fixture
def session(tmp_path: Path, engine: TaskEngine) -> Iterator[Session]:
    """A session on it with the schema ``lake.db``."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"{tmp_path}/lake"}
    given = {"drill.metastore": {"iceberg.location.base_path": str(tmp_path / "m"), "catalogs.lake": lake}}
    with connect(Settings.from_mapping(given, environ={}), engine) as session:
        session.sql("CREATE SCHEMA lake.db")
        yield session


def made(session: Session, name: str, clauses: str = "", files: int = 3) -> None:
    """Create the table with the same five rows in each of its first files."""
    session.sql(f"DROP TABLE IF EXISTS lake.db.{name}")
    session.sql(f"CREATE TABLE lake.db.{name} ({COLUMNS.replace('VARCHAR[]', 'ARRAY(VARCHAR)')}) {clauses}")
    for _ in range(files):
        session.sql(f"INSERT INTO lake.db.{name} VALUES {ROWS}")


def change(session: Session, statement: str) -> dict[str, Any]:
    """What a statement says that it did."""
    [row] = session.sql(statement).to_pylist()
    return dict(row)


def loaded(session: Session, name: str) -> Table:
    """The table as PyIceberg has it."""
    return session.catalogs.open("lake").load_table(f"db.{name}")


def texts(rows: pa.Table) -> list[str]:
    """Rows that compare whatever their order, NaN too."""
    return sorted(map(repr, rows.to_pylist()))


def written(folder: Path) -> set[str]:
    """The files of rows and deletes in the lake."""
    return {str(path) for path in (folder / "lake").rglob("data/**/*") if path.is_file()}


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(PARTITIONINGS),
    st.sampled_from([1, 2, 3]),
    st.sampled_from(["copy-on-write", "merge-on-read"]),
    st.sampled_from(["none", "hash", "range"]),
    st.lists(STATEMENTS, min_size=1, max_size=3),
)
def test_a_table_changes_as_in_duckdb(
    session: Session, partitioned: str, version: int, mode: str, distribution: str, statements: list[str]
) -> None:
    """Rows, counts and the records of the summary are DuckDB's, as this package and PyIceberg read them."""
    modes = ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))
    properties = f"'format-version' = {version}, 'write.distribution-mode' = '{distribution}', {modes}"
    made(session, "t", f"{partitioned} TBLPROPERTIES ({properties})")
    with duckdb.connect() as judge:
        judge.execute("SET TimeZone = 'UTC'")
        judge.execute(f"CREATE TABLE t ({COLUMNS})")
        for _ in range(3):
            judge.execute(f"INSERT INTO t VALUES {ROWS}")
        for statement in statements:
            try:
                counts = judge.execute(statement.format(t="t", n="t")).fetchone()
            except duckdb.Error as error:
                pytest.fail(f"DuckDB refuses {statement}: {error}")
            told = change(session, statement.format(t="lake.db.t", n="t"))
            assert counts is not None
            assert told["inserted"] + told["updated"] + told["deleted"] == counts[0], statement
            expected = texts(judge.sql("SELECT * FROM t").to_arrow_table())
            assert texts(session.sql("SELECT * FROM lake.db.t")) == expected, statement
            assert loaded(session, "t").scan().to_arrow().num_rows == len(expected)
            current = loaded(session, "t").current_snapshot()
            assert current is not None
            assert current.summary is not None
            tasks = list(loaded(session, "t").scan().plan_files())
            assert current.summary["total-records"] == str(sum(task.file.record_count for task in tasks))
            assert version > 1 or not any(task.delete_files for task in tasks)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session on this machine, whose table ``t`` has three files."""
    folder = tmp_path_factory.mktemp("alone")
    lake = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"{folder}/lake"}
    given = {"drill.metastore": {"iceberg.location.base_path": str(folder / "m"), "catalogs.lake": lake}}
    with connect(Settings.from_mapping(given, environ={})) as session:
        session.sql("CREATE SCHEMA lake.db")
        made(session, "t")
        yield session


VALUES_REFUSED = [
    "INSERT INTO {t} (id) SELECT n * 1000000000 * 1000000000 FROM {t}",
    "INSERT INTO {t} (n) SELECT id * 1000000000 FROM {t}",
    "INSERT INTO {t} (id) SELECT CAST(k AS BIGINT) FROM {t}",
    "INSERT INTO {t} (id)\nSELECT k\nFROM {t}",
    "INSERT INTO {t} SELECT id, nope FROM {t}",
    "INSERT OVERWRITE {t} SELECT id FROM {t}",
    "UPDATE {t} SET n = CAST(k AS INTEGER)",
    "UPDATE {t} SET n = id * 1000000000 WHERE id > 2",
    "DELETE FROM {t} WHERE\n CAST(k AS INTEGER) > 3",
    "DELETE FROM {t} WHERE error('stop') IS NULL",
    "MERGE INTO {t} USING (SELECT 1 AS id UNION ALL SELECT 1) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = 1",
    "MERGE INTO {t} USING (SELECT 2 AS id, 'x' AS k) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.k",
    "MERGE INTO {t} USING (SELECT 99 AS id, 'x' AS k) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (n) VALUES (s.k)",
    "MERGE INTO {t} USING (SELECT nope) s ON t.id = s.id WHEN MATCHED THEN DELETE",
]


@pytest.mark.parametrize("statement", [*(each for each, _ in REFUSED), *VALUES_REFUSED])
def test_what_is_refused_has_the_message_of_this_machine(
    session: Session, alone: Session, tmp_path: Path, statement: str
) -> None:
    """With its line and column; no file is left, and no snapshot."""
    made(session, "t")
    before, snapshot = written(tmp_path), loaded(session, "t").current_snapshot()
    with pytest.raises(MetastoreError) as here:
        alone.sql(statement.format(t="lake.db.t"))
    with pytest.raises(MetastoreError) as by_tasks:
        session.sql(statement.format(t="lake.db.t"))
    assert (type(by_tasks.value), str(by_tasks.value)) == (type(here.value), str(here.value))
    assert written(tmp_path) == before
    assert loaded(session, "t").current_snapshot() == snapshot


DIVIDED = [
    ("SELECT id FROM {t} WHERE n > 1", None),
    ("SELECT id, random() FROM {t}", None),
    ("SELECT * FROM {t} t JOIN {u} u USING (id)", None),
    ("SELECT * FROM {u} u JOIN {t} t USING (id)", None),
    ("SELECT t.id FROM {t} t LEFT JOIN {u} u ON t.id = u.id", None),
    ("SELECT t.id FROM {u} u RIGHT JOIN {t} t ON t.id = u.id", None),
    ("SELECT id FROM {t} WHERE id IN (SELECT max(id) FROM {u})", None),
    ("SELECT id, (SELECT max(u.n) FROM {u} u WHERE u.id = t.id) FROM {t} t", None),
    ("WITH x AS (SELECT * FROM {t}) SELECT id FROM x WHERE n > 1", None),
    ("SELECT unnest(tags) FROM {t}", None),
    ("SELECT t.id FROM {t} t WHERE NOT EXISTS (SELECT 1 FROM {u} u WHERE u.id > t.id)", None),
    ("SELECT t.id FROM {u} u LEFT JOIN {t} t ON t.id = u.id", None),
    ("SELECT id FROM {u} WHERE id IN (SELECT id FROM {t})", None),
    ("SELECT id, now() FROM {t}", "now has one value"),
    ("SELECT id, current_date FROM {t}", "current_date has one value"),
    ("SELECT id, now /* a comment */ () FROM {t}", "now has one value"),
    ("SELECT t.id AS age, k AS now FROM {t} t JOIN {u} u USING (id, k)", None),
    ("SELECT '00000000-0000-0000-0000-000000000001'::UUID FROM {t} t JOIN {u} u USING (id)", None),
    ("SELECT (SELECT max(u.n) FROM {t} u) + id FROM {t}", None),
    ("VALUES (1)", "the query reads no table in files"),
    ("SELECT id FROM {t} ORDER BY n, id", None),
    ("SELECT id FROM {t} WHERE n > 1 UNION ALL SELECT n FROM {u}", None),
    ("SELECT id + 1 FROM (SELECT id FROM {t} UNION ALL SELECT id FROM {u} ORDER BY id) WHERE id > 2", None),
    ("SELECT id FROM {t} UNION ALL SELECT 7", "it unites several queries"),
    ("SELECT id FROM {t} UNION SELECT id FROM {u}", "DISTINCT compares the rows"),
    ("SELECT id FROM {t} ORDER BY id LIMIT 3", "LIMIT counts the rows"),
    ("SELECT id, row_number() OVER () FROM (SELECT id FROM {t} ORDER BY id)", "a window function compares the rows"),
    ("SELECT list(id) FROM (SELECT id FROM {t} ORDER BY id)", "it aggregates the rows"),
    ("SELECT k, count(*) FROM {t} GROUP BY k", "it aggregates the rows"),
    ("SELECT t.id FROM {t} t FULL JOIN {u} u USING (id)", "a join of type FULL may compare the rows"),
    ("SELECT id FROM {t} EXCEPT SELECT id FROM {u}", "DISTINCT compares the rows"),
    ("SELECT id FROM {t} TABLESAMPLE 10%", "a sample counts the rows"),
]


LEFT_SIDES = ("SELECT t.id FROM {u} u LEFT", "SELECT id FROM {u} WHERE id IN")
"""Queries whose smaller table is divided, since the larger one is the other side of a join."""


@pytest.mark.parametrize(("query", "reason"), DIVIDED)
def test_a_query_is_divided_if_each_row_passes_alone(session: Session, query: str, reason: str | None) -> None:
    """By DuckDB's own plan; the larger table is divided if it can be, and the other one travels to the tasks."""
    made(session, "t", files=3)
    made(session, "u", files=1)
    statement = Statement.parse(query.format(t="lake.db.t", u="lake.db.u"))
    found = divide_query(session, statement, Relations(session))
    if reason is None:
        assert isinstance(found, Division)
        union = 4 if "UNION ALL" in query else 3
        assert found.chosen.files == (1 if query.startswith(LEFT_SIDES) else union)
        rows = [batch for part in found.parts() for batch in found.query.rows({part.table: part.rows})]
        here = session.sql(statement.text)
        assert sum(batch.num_rows for batch in rows) == here.num_rows
        if "random" not in query:
            assert texts(pa.Table.from_batches(rows).rename_columns(here.column_names)) == texts(here)
    else:
        assert isinstance(found, UndividedQuery)
        assert reason in found.reason


def test_functions_that_depend_on_the_call_are_known() -> None:
    """DuckDB's catalog says which functions do; those that only depend on the time zone are equal in every task."""
    zoned = {"make_timestamptz", "timezone", "timezone_hour", "timezone_minute", "strftime", "time_bucket", "era"}
    with Duck() as duck:
        found = duck.run("SELECT DISTINCT function_name AS name, stability FROM duckdb_functions()").to_pylist()
    # Parts of a time have the zone of the session, which is UTC in every task; see what remains by name.
    by_call = {row["name"] for row in found if row["stability"] == "CONSISTENT_WITHIN_QUERY"}
    named = {name for name in by_call if name.startswith(("current_", "get", "now", "today", "transaction", "txid"))}
    volatile = {row["name"] for row in found if row["stability"] == "VOLATILE"}
    harmless = {"current_database", "current_schema", "current_schemas", "error", "sleep_ms", "stats", "vector_type"}
    assert (named | volatile) - harmless <= ONE_VALUE | RANDOM
    assert zoned <= by_call


def test_random_values_are_drawn_once(session: Session) -> None:
    """Each row of a query has its own; rows that a source of MERGE changes have the source's one value."""
    made(session, "t", files=4)
    session.sql("CREATE TABLE lake.db.r AS SELECT id, random() AS r FROM lake.db.t")
    [[distinct, rows]] = [
        list(row.values()) for row in session.sql("SELECT count(DISTINCT r), count(*) FROM lake.db.r").to_pylist()
    ]
    assert (distinct, rows) == (20, 20)
    source = "(SELECT 1 AS id, random() AS r)"
    told = change(
        session, f"MERGE INTO lake.db.r t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET r = s.r"
    )
    assert told["updated"] == 4
    assert session.sql("SELECT count(DISTINCT r) AS n FROM lake.db.r WHERE id = 1").to_pylist() == [{"n": 1}]


@pytest.mark.parametrize(("mode", "most"), [("none", 12), ("hash", 3), ("range", 3)])
def test_a_partition_gets_few_files(session: Session, engine: TaskEngine, mode: str, most: int) -> None:
    """With ``hash`` one for each partition, with ``none`` one for each task and partition."""
    made(session, "s", files=4)
    session.sql(
        "CREATE TABLE lake.db.t (id BIGINT, k VARCHAR) PARTITIONED BY (k) "
        f"TBLPROPERTIES ('write.distribution-mode' = '{mode}')"
    )
    told = change(session, "INSERT INTO lake.db.t SELECT id, k FROM lake.db.s WHERE k IN ('a', 'b') OR k IS NULL")
    files = session.sql('SELECT record_count FROM lake.db."t$files"').num_rows
    assert told["inserted"] == 16
    assert files == most
    assert engine.tasks >= 4


def test_a_distribution_that_is_not_known_is_refused(session: Session) -> None:
    """By its name, with the value that is meant instead."""
    made(session, "s")
    session.sql("CREATE TABLE lake.db.t (id BIGINT) TBLPROPERTIES ('write.distribution-mode' = 'round')")
    with pytest.raises(
        InvalidRequestError, match="write.distribution-mode of lake.db.t is 'round'; none, hash and range"
    ):
        session.sql("INSERT INTO lake.db.t SELECT id FROM lake.db.s")


CHANGES = [
    "INSERT INTO lake.db.t SELECT * FROM lake.db.t WHERE id < 3",
    "INSERT OVERWRITE lake.db.t SELECT * FROM lake.db.t WHERE id < 3",
    "DELETE FROM lake.db.t WHERE id = 1",
    "UPDATE lake.db.t SET n = 7 WHERE id = 1",
    """MERGE INTO lake.db.t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = 8
    WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)""",
    "CREATE TABLE lake.db.new AS SELECT * FROM lake.db.t",
    "INSERT INTO lake.db.t (k, id) SELECT k, id FROM lake.db.t UNION ALL SELECT k, n FROM lake.db.t ORDER BY 1",
]


@pytest.mark.parametrize("statement", CHANGES)
def test_files_of_lost_attempts_go(session: Session, engine: TaskEngine, tmp_path: Path, statement: str) -> None:
    """A task that ran twice leaves files that no answer names; after the commit they are gone."""
    made(session, "t", "PARTITIONED BY (k)")
    engine.lost_attempts = 1
    session.sql(statement)
    engine.lost_attempts = 0
    names = {str(path) for path in written(tmp_path)}
    kept = set()
    for name in ("t", "new") if "new" in statement else ("t",):
        kept |= {
            row["file_path"] for row in session.sql(f'SELECT file_path FROM lake.db."{name}$all_files"').to_pylist()
        }
    assert {path.removeprefix("file://") for path in kept} == names


class Stopping(TaskEngine):
    """An engine that stops after some answers, as a cluster that is shut down."""

    def run(self, *given: Any) -> Iterator[pa.RecordBatch]:
        """The first answer, then the end."""
        found = super().run(*given)
        yield next(found)
        next(found, None)  # its answer does not arrive
        raise EngineError("the cluster was shut down")


@pytest.mark.parametrize("statement", CHANGES)
def test_an_engine_that_fails_leaves_nothing(tmp_path: Path, session: Session, statement: str) -> None:
    """Neither the files of answers, nor those of tasks whose answers did not arrive."""
    made(session, "t", "PARTITIONED BY (k)")
    before = written(tmp_path)
    with connect(session.settings, Stopping()) as failing, pytest.raises(EngineError, match="shut down"):
        failing.sql(statement)
    assert written(tmp_path) == before
    assert loaded(session, "t").scan().to_arrow().num_rows == 15


EXPLAINED = [
    ("INSERT INTO lake.db.t SELECT * FROM lake.db.t WHERE id < 3", "Run by tasks of the engine local: 3 files, "),
    ("INSERT OVERWRITE lake.db.t SELECT * FROM lake.db.t ORDER BY id", "Run by tasks of the engine local: 3 files, "),
    ("INSERT INTO lake.db.t (id) VALUES (1)", "Run on this machine: the query reads no table in files"),
    ("CREATE TABLE lake.db.n AS SELECT * FROM lake.db.t WHERE id < 3", "Run by tasks of the engine local: 3 files, "),
    ("DELETE FROM lake.db.t WHERE n > 1", "Run by tasks of the engine local: 3 files, "),
    ("UPDATE lake.db.t SET n = 1 WHERE ts < now()", "Run on this machine: now has one value for the whole statement"),
    (
        "MERGE INTO lake.db.t USING (SELECT 1 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
        "Run by tasks of the engine local: 3 files, ",
    ),
]


@pytest.mark.parametrize(("statement", "line"), EXPLAINED)
def test_explain_says_where_a_statement_runs(
    session: Session, engine: TaskEngine, tmp_path: Path, statement: str, line: str
) -> None:
    """And why; then which files it fetches. Nothing runs, and nothing is written."""
    made(session, "t")
    before = written(tmp_path)
    lines = [str(each) for each in session.sql(f"EXPLAIN {statement}")["plan"].to_pylist()]
    assert lines[0].startswith(line)
    assert any(each.startswith("Fetch lake.db.t") for each in lines) is ("VALUES (1)" not in statement)
    assert (written(tmp_path), engine.tasks) == (before, 0)
    with pytest.raises(InvalidRequestError, match="line 1, column 37: there is no column nope; there are id, k, n"):
        session.sql("EXPLAIN DELETE FROM lake.db.t WHERE nope = 1")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM lake.db.v3 WHERE id % 4 = 1",
        "UPDATE lake.db.v3 SET k = 'b' WHERE k = 'a' OR id > 25",
        """MERGE INTO lake.db.v3 t USING (SELECT * FROM range(8, 40, 5) r(id)) s ON t.id = s.id
        WHEN MATCHED AND s.id < 20 THEN DELETE WHEN MATCHED THEN UPDATE SET k = 'c'
        WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)""",
    ],
)
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_keep_their_ids(session: Session, alone: Session, statement: str, mode: str) -> None:
    """In format version 3, as on this machine: a changed row keeps its id, and has the number of the change."""
    modes = ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))
    lineage = []
    for each in (session, alone):
        each.sql("DROP TABLE IF EXISTS lake.db.v3")
        each.sql(
            "CREATE TABLE lake.db.v3 (id BIGINT, k VARCHAR) PARTITIONED BY (k) "
            f"TBLPROPERTIES ('format-version' = 3, {modes})"
        )
        for first in (0, 10, 20):
            each.sql(f"INSERT INTO lake.db.v3 SELECT i, ['a', 'b'][i % 2 + 1] FROM range({first}, {first + 10}) r(i)")
        told = change(each, statement)
        assert told["deleted"] + told["updated"] >= 5
        lineage.append(version_3(loaded(each, "v3").metadata_location).rows)
    old = {key for key in lineage[0] if key < 30}
    assert {key: lineage[0][key] for key in old} == {key: lineage[1][key] for key in old}
    assert lineage[0].keys() == lineage[1].keys()


EMPTY = [
    ("INSERT INTO lake.db.t SELECT * FROM lake.db.t WHERE id > 99", 0),
    ("INSERT OVERWRITE lake.db.t SELECT * FROM lake.db.t WHERE id > 99", 0),
    ("INSERT OVERWRITE lake.db.t PARTITION (k = 'a') SELECT id, n, x, ts, tags FROM lake.db.t WHERE id > 99", 6),
    ("DELETE FROM lake.db.t WHERE id > 99 AND n > 7", 0),
    ("MERGE INTO lake.db.t USING (SELECT 99 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE", 0),
]


@pytest.mark.parametrize(("statement", "deleted"), EMPTY)
def test_a_query_without_rows_changes_what_it_changes_here(session: Session, statement: str, deleted: int) -> None:
    """Nothing, and makes no snapshot; with PARTITION it empties these partitions."""
    made(session, "t", "PARTITIONED BY (k)")
    told = change(session, statement)
    assert (told["inserted"], told["updated"], told["deleted"]) == (0, 0, deleted)
    assert (told["snapshot_id"] is None) == (deleted == 0)
    assert session.sql("SELECT id FROM lake.db.t").num_rows == 15 - deleted


def test_random_values_are_not_dealt_by_partition(session: Session) -> None:
    """A task that runs again would deal others, so that rows are lost or doubled, as apache/spark 35460 reports."""
    made(session, "t")

    class Watched(TaskEngine):
        """Refuses to deal rows of a query."""

        def shuffle(self, *_: Any) -> Iterator[pa.RecordBatch]:
            raise AssertionError

    with connect(session.settings, Watched()) as watched:
        watched.sql("CREATE TABLE lake.db.r PARTITIONED BY (k) AS SELECT id, k, uuid() AS u FROM lake.db.t")
        assert watched.sql("SELECT count(DISTINCT u) = count(*) AS ok FROM lake.db.r").to_pylist() == [{"ok": True}]


def test_a_table_without_rows_is_filled(session: Session, engine: TaskEngine) -> None:
    """INSERT OVERWRITE into a new table that is partitioned, and a MERGE of new rows only."""
    made(session, "s")
    made(session, "t", "PARTITIONED BY (k, days(ts))", files=0)
    assert change(session, "INSERT OVERWRITE lake.db.t SELECT * FROM lake.db.s")["inserted"] == 15
    assert engine.tasks > 0
    made(session, "t", files=0)
    told = change(
        session,
        "MERGE INTO lake.db.t USING lake.db.s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *",
    )
    assert (told["inserted"], told["deleted"]) == (15, 0)


def test_a_merge_of_new_keys_that_loses_its_race_finds_them(session: Session) -> None:
    """Two statements that both see no match do not insert twice, as apache/iceberg 12653 reports."""
    made(session, "t")
    merge = """MERGE INTO lake.db.t USING (SELECT id + 90 AS id FROM lake.db.t WHERE id = 5 GROUP BY id) s
    ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"""
    lost: list[dict[str, Any]] = []

    class Beaten(TaskEngine):
        """The same statement commits elsewhere while the tasks run."""

        def run(self, *given: Any) -> Iterator[pa.RecordBatch]:
            """Run, after the other statement for the first time."""
            if not lost:
                lost.append({})
                lost[0] = change(session, merge)
            return super().run(*given)

    with connect(session.settings, Beaten()) as slow:
        told = change(slow, merge)
    assert (lost[0]["inserted"], told["inserted"]) == (1, 0)
    assert session.sql("SELECT count(*) AS n FROM lake.db.t WHERE id = 95").to_pylist() == [{"n": 1}]


def test_a_statement_that_loses_its_race_is_written_again(session: Session, tmp_path: Path) -> None:
    """On the version of the winner; the files of the first attempt are gone."""
    made(session, "t")
    lost: list[dict[str, Any]] = []

    class Beaten(TaskEngine):
        """Another statement commits while the tasks run."""

        def run(self, *given: Any) -> Iterator[pa.RecordBatch]:
            """Run, after the other statement for the first time."""
            if not lost:
                lost.append(change(session, "UPDATE lake.db.t SET n = 100 WHERE id = 1"))
            return super().run(*given)

    with connect(session.settings, Beaten()) as slow:
        told = change(slow, "UPDATE lake.db.t SET n = n + 1 WHERE id = 1")
    assert (told["updated"], lost[0]["updated"]) == (3, 3)
    assert session.sql("SELECT DISTINCT n FROM lake.db.t WHERE id = 1").to_pylist() == [{"n": 101}]
    named = session.sql('SELECT file_path FROM lake.db."t$all_files"')["file_path"].to_pylist()
    assert {str(path).removeprefix("file://") for path in named} == written(tmp_path)


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    """A plugin ``dfs`` whose table ``dfs.shop.sale`` has directories and four files."""
    for number in range(4):
        folder = tmp_path / "shop" / "sale" / f"y{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        texts_of_file: list[str | None] = [f"text {number}", None, f"text {number}", None, "x"]
        rows = pa.table({"id": pa.array(range(number * 5, number * 5 + 5)), "t": pa.array(texts_of_file)})
        pq.write_table(rows, folder / f"{number}.parquet")
    workspaces = {"shop": {"location": str(tmp_path / "shop"), "writable": True}}
    return {"dfs": {"type": "file", "connection": "file:///", "workspaces": workspaces}}


SOURCES = [
    "SELECT id, t FROM dfs.shop.sale",
    "SELECT id, t FROM dfs.shop.sale WHERE id % 3 = 0 AND t LIKE 'text%'",
    "SELECT id, dir0 AS t FROM dfs.shop.sale WHERE id > 3",
    'SELECT id, "$path" AS t FROM dfs.shop.sale WHERE id > 3',
    "SELECT id, t FROM dfs.shop.seen WHERE id < 12",
    "SELECT v.id, s.t FROM dfs.shop.sale s JOIN dfs.shop.seen v ON s.id = v.id",
    "SELECT id, \"$path\" AS t FROM lake.db.old WHERE k = 'a'",
    "SELECT id, k AS t FROM lake.db.old FOR VERSION AS OF {first}",
    "SELECT id, k AS t FROM lake.db.old",
    "SELECT added AS id, k AS t FROM lake.db.old WHERE added = 7 OR added IS NULL",
]


@pytest.mark.parametrize("query", SOURCES)
def test_any_table_is_divided(tmp_path: Path, data: dict[str, Any], query: str) -> None:
    """Directories, views, earlier versions, files of older schemas, and deletes of every kind."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"{tmp_path}/lake"}
    given = {"iceberg.location.base_path": str(tmp_path / "m"), "catalogs.lake": lake, "storage": data}
    engine = TaskEngine()
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={}), engine) as session:
        session.analyze("dfs.shop.sale")
        session.sql("CREATE VIEW dfs.shop.seen AS SELECT id, upper(t) AS t FROM dfs.shop.sale WHERE id > 2")
        session.sql("CREATE SCHEMA lake.db")
        made(session, "old")
        first = loaded(session, "old").current_snapshot()
        assert first is not None
        session.sql("ALTER TABLE lake.db.old ADD COLUMN added BIGINT")
        session.sql("INSERT INTO lake.db.old (id, k, added) VALUES (50, 'a', 7), (51, 'b', 8)")
        session.sql("DELETE FROM lake.db.old WHERE id = 1 AND n > 0")
        delete_equal(loaded(session, "old"), with_ids(pa.table({"id": [5]}), 1), [1])
        text = query.format(first=first.snapshot_id)
        session.sql("CREATE TABLE lake.db.new (id BIGINT, t VARCHAR)")
        tasks = engine.tasks
        told = change(session, f"INSERT INTO lake.db.new {text}")
        assert engine.tasks > tasks
        expected = texts(session.sql(text).select([0, 1]).rename_columns(["id", "t"]))
        assert told["inserted"] == len(expected) > 0
        assert texts(session.sql("SELECT id, t FROM lake.db.new")) == expected
