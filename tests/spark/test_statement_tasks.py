"""Statements of a session on Spark write by tasks what the same statements write on this machine."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

import metastore
from metastore.config import Settings
from metastore.errors import InvalidRequestError, MetastoreError
from metastore.session import Session
from metastore.session import connect as connect_here
from metastore.spark import SparkEngine, connect

pytestmark = pytest.mark.spark

REPOSITORY = Path(metastore.__file__).parents[1]

COLUMNS = (
    "id BIGINT NOT NULL, k VARCHAR, x DOUBLE, d DECIMAL(38, 3), day DATE, t TIME, ts TIMESTAMP, tz TIMESTAMPTZ, "
    "u UUID, b VARBINARY, tags ARRAY(VARCHAR)"
)
VALUES = (
    "SELECT i, ['a', 'b', NULL][i % 3 + 1], [0.5, 'nan'::DOUBLE, -0.0][i % 3 + 1], (i * 1.125)::DECIMAL(38, 3), "
    "DATE '1500-01-01' + i::INTEGER, TIME '10:00:00.000001', TIMESTAMP '1969-12-31 23:59:59.5', "
    "TIMESTAMPTZ '2021-04-01 10:00:00Z', '00000000-0000-0000-0000-000000000001'::UUID, '\\xAA'::BLOB, ['x', NULL] "
    "FROM range({0}, {0} + 6) r(i)"
)


def settings(folder: Path) -> Settings:
    """A lake in ``folder``; statements of any size run by tasks."""
    lake = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"{folder}/lake"}
    given = {
        "iceberg.location.base_path": str(folder / "m"),
        "catalogs.lake": lake,
        "engine.spark_threshold_size": 0,
    }
    return Settings.from_mapping({"drill.metastore": given}, environ={})


@pytest.fixture(scope="module")
def sessions(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Session]]:
    """A session on Spark and one on this machine, each with its own lake and the table ``s`` of three files."""
    opened = [
        connect(spark, settings(tmp_path_factory.mktemp("spark"))),
        connect_here(settings(tmp_path_factory.mktemp("here"))),
    ]
    for session in opened:
        session.sql("CREATE SCHEMA lake.db")
        session.sql(f"CREATE TABLE lake.db.s ({COLUMNS})")
        for first in (0, 6, 12):
            session.sql(f"INSERT INTO lake.db.s {VALUES.format(first)}")
    yield opened
    for session in opened:
        session.close()


STATEMENTS = [
    """CREATE TABLE lake.db.{t} AS SELECT s.*, n.n FROM lake.db.s s
    LEFT JOIN (SELECT id, count(*) AS n FROM lake.db.s WHERE id < 9 GROUP BY id) n USING (id)""",
    "INSERT INTO lake.db.{t} BY NAME SELECT * FROM lake.db.s WHERE id % 2 = 0",
    """INSERT INTO lake.db.{t} BY NAME SELECT min(id) AS id, k, x, max(d) AS d, any_value(t ORDER BY id) AS t, tags, b
    FROM lake.db.s GROUP BY k, x, tags, b, u HAVING count(*) > 1""",
    """INSERT INTO lake.db.{t} BY NAME SELECT a.id + 100 AS id, b.k, a.day, a.t, a.u, b.tz FROM lake.db.s a
    FULL JOIN lake.db.s b ON a.id = b.id + 2 WHERE a.id IS NOT NULL UNION ALL
    SELECT id + 200, k, day, t, u, tz FROM lake.db.s QUALIFY row_number() OVER (PARTITION BY k ORDER BY id) < 3""",
    """INSERT INTO lake.db.{t} BY NAME SELECT count(*) + 500 AS id, b.k FROM lake.db.s a
    FULL JOIN lake.db.s b ON a.id = b.id + 2 GROUP BY b.k""",
    "INSERT INTO lake.db.{t} BY NAME SELECT id + 300 AS id, k FROM lake.db.s ORDER BY id DESC LIMIT 5",
    "INSERT INTO lake.db.{t} BY NAME SELECT count(*) + 400 AS id, max(k) AS k FROM lake.db.s",
    "INSERT OVERWRITE lake.db.{t} BY NAME SELECT *, 7 AS n FROM lake.db.s WHERE k = 'a' OR id > 12",
    "DELETE FROM lake.db.{t} WHERE id IN (SELECT max(id) FROM lake.db.s) OR isnan(x)",
    "UPDATE lake.db.{t} SET n = n + 1, k = upper(k), x = NULL WHERE id > 3",
    """MERGE INTO lake.db.{t} t USING (SELECT id, 'new' AS k FROM lake.db.s WHERE id % 4 = 0) s ON t.id = s.id
    WHEN MATCHED AND t.id > 8 THEN DELETE WHEN MATCHED THEN UPDATE SET k = s.k
    WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = -1 WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, s.k)""",
    # A column of the type BIT does not travel to tasks, so the source is joined on the driver, as a large one is.
    """MERGE INTO lake.db.{t} t USING (SELECT id + 1 AS id, k, '1'::BIT AS z FROM lake.db.s WHERE id % 3 = 0) s
    ON t.id = s.id WHEN MATCHED THEN UPDATE SET k = s.k, n = 5
    WHEN NOT MATCHED THEN INSERT (id, k) VALUES (s.id, 'new')""",
]

COMPARING = ("GROUP BY k", "QUALIFY", "GROUP BY b.k", "LIMIT", "count(*) + 400", "::BIT")
"""What statements have that compare rows: they run on the driver in either session."""


def texts(rows: pa.Table) -> list[str]:
    """Rows that compare whatever their order, NaN too."""
    return sorted(map(repr, rows.to_pylist()))


def kinds(session: Session, name: str) -> set[tuple[Any, ...]]:
    """What the data files of a table are: content, format, spec, and whether they have counts and bounds.

    Tasks may empty a file, and drop it, whose rows are in a larger file here: then only one of them has deletes.
    """
    rows = session.sql(f'SELECT * FROM lake.db."{name}$data_files"').to_pylist()
    return {
        (row["content"], row["file_format"], row["spec_id"], bool(row["value_counts"]), bool(row["lower_bounds"]))
        for row in rows
    }


@pytest.mark.parametrize("version", [pytest.param(2, marks=pytest.mark.exhaustive), 3])
@pytest.mark.parametrize(
    ("partitioned", "mode"),
    [
        ("", "merge-on-read"),
        pytest.param("PARTITIONED BY (k)", "copy-on-write", marks=pytest.mark.exhaustive),
    ],
)
def test_each_statement_writes_what_it_writes_here(
    sessions: list[Session], version: int, partitioned: str, mode: str
) -> None:
    """Answers, rows, kinds of files and operations of snapshots, in types that Spark itself does not have."""
    name = f"t{version}{mode[:1]}"
    modes = ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))
    clauses = f"{partitioned} TBLPROPERTIES ('format-version' = {version}, {modes}) AS"
    for statement in STATEMENTS:
        text = statement.format(t=name).replace(" AS", f" {clauses}", 1) if "CREATE" in statement else statement
        told = [session.sql(text.format(t=name)).to_pylist()[0] for session in sessions]
        if "engine" in told[0]:
            ran_by = "local" if any(each in statement for each in COMPARING) else "spark"
            assert [row.pop("engine") for row in told] == [ran_by, "local"]
            assert len({bool(row.pop("snapshot_id")) for row in told}) == 1
        else:
            assert told[0].pop("summary") == f"{told[1].pop('summary')}, by tasks of the engine spark"
        assert told[0] == told[1], statement
        rows = [session.sql(f"SELECT * FROM lake.db.{name}") for session in sessions]
        assert rows[0].schema == rows[1].schema
        assert texts(rows[0]) == texts(rows[1]), statement
        assert kinds(sessions[0], name) == kinds(sessions[1], name), statement
        told_by_log = [
            session.sql(f'SELECT operation FROM lake.db."{name}$snapshots" ORDER BY committed_at').to_pylist()
            for session in sessions
        ]
        assert told_by_log[0] == told_by_log[1]
    ids = [session.sql(f'SELECT count(*) AS n FROM lake.db."{name}$files"').to_pylist() for session in sessions]
    assert ids[0][0]["n"] >= ids[1][0]["n"]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO lake.db.s SELECT * REPLACE (CASE WHEN id = 13 THEN NULL ELSE id END AS id) FROM lake.db.s",
        *(
            pytest.param(text, marks=pytest.mark.exhaustive)
            for text in (
                "CREATE TABLE lake.db.bad PARTITIONED BY (k) AS SELECT id, CAST(k AS BIGINT) AS k FROM lake.db.s",
                "UPDATE lake.db.s SET id = CAST(coalesce(k, '1') AS BIGINT)",
            )
        ),
        """MERGE INTO lake.db.s t USING (SELECT 13 AS id FROM range(2)) v ON t.id = v.id
        WHEN MATCHED THEN UPDATE SET x = 1""",
    ],
)
def test_a_failure_on_an_executor_says_what_it_says_here(sessions: list[Session], statement: str) -> None:
    """With the line and column; no file is left by any task."""
    lakes = [Path(session.settings.iceberg.base_location).parent / "lake" for session in sessions]
    before = [{path for path in lake.rglob("data/**/*") if path.is_file()} for lake in lakes]
    messages = []
    for session in sessions:
        with pytest.raises(MetastoreError) as failed:
            session.sql(statement)
        messages.append((type(failed.value), str(failed.value)))
    assert messages[0] == messages[1]
    assert [{path for path in lake.rglob("data/**/*") if path.is_file()} for lake in lakes] == before


def _deal(chunk: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the numbers below ``chunk`` by their remainder; for a negative number, an error."""
    if chunk < 0:
        raise InvalidRequestError(f"{chunk} is negative")
    for number in range(chunk):
        yield number % 3, pa.record_batch({"n": [number]})


def _sum(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the remainders, the sum and the count of all rows."""
    numbers = [row["n"] for batch in batches for row in batch.to_pylist()]
    if numbers:
        remainders = {number % 3 for number in numbers}
        yield pa.record_batch({"of": [sorted(remainders)], "sum": [sum(numbers)], "count": [len(numbers)]})


SUMS = pa.schema({"of": pa.list_(pa.int64()), "sum": pa.int64(), "count": pa.int64()})


def test_rows_of_a_group_meet_in_one_task(engine: SparkEngine) -> None:
    """Each group is gathered once; an error while dealing has its own type."""
    found = list(engine.shuffle([5, 100, 7], _deal, _sum, 3, SUMS))
    rows = sorted((row for batch in found for row in batch.to_pylist()), key=repr)
    assert [row["of"] for row in rows] == [[0], [1], [2]]
    assert sum(row["sum"] for row in rows) == sum(range(5)) + sum(range(100)) + sum(range(7))
    assert sum(row["count"] for row in rows) == 112
    assert engine.repeats_tasks is False
    with pytest.raises(InvalidRequestError, match="-1 is negative"):
        list(engine.shuffle([5, -1], _deal, _sum, 3, SUMS))
    assert list(engine.shuffle([], _deal, _sum, 3, SUMS)) == []


def test_the_example_of_the_guide_runs(spark: SparkSession, tmp_path: Path) -> None:
    """On the tables that it names."""
    text = (REPOSITORY / "docs/guide/spark.md").read_text().partition("## Change rows by statements")[2]
    [example, *_] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    with connect_here(settings(tmp_path)) as session:
        session.sql("CREATE SCHEMA lake.shop")
        session.sql("CREATE TABLE lake.shop.staged AS SELECT i AS id, i - 2 AS amount FROM range(6) r(i)")
        session.sql("CREATE TABLE lake.shop.sales (id BIGINT, amount BIGINT)")
        names = {"spark": spark, "connect": lambda given: connect(given, settings(tmp_path))}
        exec(compile(example, "spark.md", "exec"), names)  # noqa: S102 - our own document
        found = session.sql("SELECT id FROM lake.shop.sales ORDER BY id").to_pylist()
        assert [row["id"] for row in found] == [3, 4, 5]


ON_CLUSTER = """
import os, signal
from functools import partial
from pathlib import Path
from metastore.config.settings import Settings
from metastore.session import connect
from metastore.spark import SparkEngine

def dies_once(task, marker, work):
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        yield from task(work)
    else:
        list(task(work))  # its files are written, and nobody will hear of them
        os.kill(os.getpid(), signal.SIGKILL)

class Dies(SparkEngine):
    number = 0
    def _deadly(self, task):
        self.number += 1
        return partial(dies_once, task, f"{{folder}}/marker{{self.number}}")
    def run(self, chunks, task, schema):
        return super().run(chunks, self._deadly(task), schema)
    def shuffle(self, chunks, deal, gather, groups, schema):
        return super().shuffle(chunks, deal, self._deadly(gather), groups, schema)

folder = {folder!r}
settings = Settings.from_mapping({{
    "drill.metastore.iceberg.location": {{"base_path": folder, "relative_path": "metastore"}},
    "drill.metastore.catalogs.lake":
        {{"type": "sql", "uri": f"sqlite:///{{folder}}/lake.db", "warehouse": f"file://{{folder}}/lake"}},
}}, environ={{}})
engine = Dies(settings={{"spark.master": "local-cluster[2,1,1024]"}})
with connect(settings, engine=engine) as session:
    session.sql("CREATE SCHEMA lake.db")
    session.sql("CREATE TABLE lake.db.s (id BIGINT, k VARCHAR)")
    for first in (0, 10, 20):
        session.sql(f"INSERT INTO lake.db.s SELECT i, ['a', 'b'][i % 2 + 1] FROM range({{first}}, {{first}} + 10) r(i)")
    session.sql("CREATE TABLE lake.db.t (id BIGINT, k VARCHAR) PARTITIONED BY (k)")
    answer["told"] = []
    for statement in (
        "INSERT INTO lake.db.t SELECT * FROM lake.db.s",
        "DELETE FROM lake.db.t WHERE id % 3 = 0",
        "UPDATE lake.db.t SET id = id + 100 WHERE k = 'a'",
    ):
        row = session.sql(statement).to_pylist()[0]
        answer["told"].append([row["inserted"], row["deleted"], row["updated"], row["engine"]])
    answer["rows"] = sorted(session.sql("SELECT id FROM lake.db.t")["id"].to_pylist())
    paths = session.sql('SELECT file_path FROM lake.db."t$all_files"')["file_path"].to_pylist()
    answer["named"] = sorted({{path.removeprefix("file://") for path in paths}})
    answer["deaths"] = len(list(Path(folder).glob("marker*")))
engine.close()
"""


@pytest.mark.clusters
@pytest.mark.integration
def test_processes_that_die_cost_only_time(
    run_driver: Callable[..., dict[str, Any]], bare_python: Path, tmp_path: Path
) -> None:
    """Each statement loses a process that has written its files; every row is there once, and no other file is left."""
    home, lake = tmp_path / "spark-home", tmp_path / "lake"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    (home / "work").mkdir()
    lake.mkdir()
    said = run_driver(ON_CLUSTER.format(folder=str(lake)), PYSPARK_PYTHON=str(bare_python), SPARK_HOME=str(home))
    assert said["deaths"] == 3
    assert said["told"] == [[30, 0, 0, "spark"], [0, 10, 0, "spark"], [0, 0, 10, "spark"]]
    left = [number for number in range(30) if number % 3]
    assert said["rows"] == sorted(number if number % 2 else number + 100 for number in left)
    assert {str(path) for path in (lake / "lake/db/t/data").rglob("*") if path.is_file()} == set(said["named"])
    shutil.rmtree(home / "work")
