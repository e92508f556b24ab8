"""The metastore's views in Spark: the answers are those of the expanded query, in Spark and in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from metastore.config.settings import Settings
from metastore.errors import ConflictError, EngineError, InvalidRequestError, NotFoundError
from metastore.model.identity import TableInfo
from metastore.session import Session
from metastore.spark import connect, read_table, register_views
from metastore.sql.views.definition import Definition

pytestmark = pytest.mark.spark

COLUMNS: list[pa.Field[Any]] = [
    pa.field("id", pa.int32()),
    pa.field("Region", pa.int64()),
    pa.field("amount", pa.decimal128(9, 2)),
    pa.field("at", pa.timestamp("us", tz="UTC")),
]
VIEWS = {
    "late": "SELECT id AS k, Region, amount FROM sales WHERE id > 11",
    "named": "SELECT l.k, r.name AS Name FROM late l JOIN regions r ON l.Region = r.region",
    "counted": "SELECT Name, count(*) AS n, max(k) AS latest FROM named GROUP BY Name HAVING count(*) > 1",
    "braces": "SELECT id, '{}' AS b, concat('{', cast(id AS string)) AS c FROM sales",
}
GROUPED = (
    "SELECT Region, count(*) AS n, sum(amount) AS total, avg(id) AS mean, max(at) AS latest FROM sales GROUP BY Region"
)


def write(data: Path, name: str, ids: range) -> None:
    """A file of sales."""
    rows = [{"id": n, "Region": n % 3, "amount": Decimal(n) / 4, "at": n * 1_000_000} for n in ids]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(COLUMNS)), data / "sales" / f"{name}.parquet")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The workspace's folder, with three files of sales and one of regions."""
    folder = tmp_path_factory.mktemp("views") / "data"
    (folder / "sales").mkdir(parents=True)
    (folder / "regions").mkdir()
    for number in range(3):
        write(folder, str(number), range(10 * number, 10 * number + 10))
    regions = [{"region": number, "name": name} for number, name in enumerate(("north", "east", "south"))]
    pq.write_table(pa.Table.from_pylist(regions), folder / "regions/all.parquet")
    return folder


@pytest.fixture(scope="module")
def ms(spark: SparkSession, data: Path) -> Iterator[Session]:
    """A session on Spark; its small work runs there, too."""
    workspaces = {"tmp": {"location": str(data), "writable": True}}
    location = {"base_path": str(data.parent), "relative_path": "metastore"}
    given = {"iceberg.location": location, "storage.dfs.workspaces": workspaces}
    with connect(spark, Settings.from_mapping({"drill.metastore": given}, environ={})) as session:
        session.analyze("dfs.tmp.sales")
        session.analyze("dfs.tmp.regions")
        for name, query in VIEWS.items():
            session.views.define(f"dfs.tmp.{name}", query)
        yield session


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Rows of a frame, sorted."""
    return sorted(frame.toArrow().to_pylist(), key=repr)


def test_views_answer_as_their_queries_do(spark: SparkSession, ms: Session, data: Path) -> None:
    """In Spark over the unpruned tables, and in DuckDB over the files; columns are spelled as they were defined."""
    assert register_views(spark, ms) == {TableInfo("dfs", "tmp", name): name for name in VIEWS}
    raw = {name: spark.read.parquet(str(data / name)) for name in ("sales", "regions")}
    engine = duckdb.connect()
    for name in raw:
        engine.sql(f"CREATE VIEW {name} AS SELECT * FROM '{data}/{name}/*.parquet'")
    for name, query in VIEWS.items():
        found = spark.table(name)
        unfolded = query
        for inner in ("named", "late"):
            unfolded = unfolded.replace(f"FROM {inner}", f"FROM ({VIEWS[inner]}) AS")
        unfolded = unfolded.replace("AS GROUP", "AS inner_ GROUP").replace("AS l JOIN", "l JOIN")
        theirs = engine.sql(unfolded.replace("AS string", "AS varchar"))
        assert found.columns == theirs.columns
        assert [tuple(row.values()) for row in rows(found)] == sorted(theirs.fetchall(), key=repr)
        for table, frame in raw.items():
            frame.createOrReplaceTempView(table)
        assert rows(found) == rows(spark.sql(unfolded))


def test_views_read_what_pruning_leaves(spark: SparkSession, ms: Session) -> None:
    """The view's own condition keeps the file with the lowest ids from being read."""
    register_views(spark, ms, ["dfs.tmp.late"])
    read = {Path(path).name for path in spark.table("late").inputFiles()}
    assert read == {"1.parquet", "2.parquet"}


def test_names_of_temporary_views(spark: SparkSession, ms: Session) -> None:
    """Two of one name are refused, unless they are told apart; an unknown view is not found, a table is none."""
    ms.views.define("dfs.root.late", Definition("SELECT id FROM sales", schema_path=("dfs", "tmp")))
    with pytest.raises(InvalidRequestError, match="would both be called late"):
        register_views(spark, ms, ["dfs.tmp.late", "dfs.root.late"])
    called = register_views(
        spark, ms, ["dfs.tmp.late", "dfs.root.late"], name=lambda view: f"{view.workspace}_{view.name}"
    )
    assert sorted(called.values()) == ["root_late", "tmp_late"]
    assert spark.table("root_late").count() == 30
    ms.views.drop("dfs.root.late")
    with pytest.raises(NotFoundError, match=r"dfs.tmp.latr; did you mean dfs.tmp.late"):
        register_views(spark, ms, ["dfs.tmp.latr"])
    with pytest.raises(InvalidRequestError, match="is a table"):
        register_views(spark, ms, ["dfs.tmp.sales"])


def test_what_spark_does_not_understand_is_said(spark: SparkSession, ms: Session) -> None:
    """A function that nobody has."""
    ms.views.define("dfs.tmp.odd", "SELECT no_such_function(id) AS a FROM sales")
    with pytest.raises(EngineError, match="NO_SUCH_FUNCTION"):
        register_views(spark, ms, ["dfs.tmp.odd"])
    ms.views.drop("dfs.tmp.odd")


def test_refresh_on_spark(spark: SparkSession, ms: Session, data: Path) -> None:
    """In full, then by the new file alone; the rows, in Spark and here, are those of the query, in the same types."""
    ms.materialized_views.define("dfs.tmp.m", GROUPED)
    ms.materialized_views.define("dfs.tmp.plain", "SELECT id, upper('x') AS X, at FROM sales WHERE id > 5")
    for name, files in (("m", 3), ("plain", 3)):
        result = ms.materialized_views.refresh(f"dfs.tmp.{name}")
        assert (result.mode, result.engine, result.files) == ("full", "spark", files)
    write(data, "late", range(40, 45))
    for name in ("m", "plain"):
        result = ms.materialized_views.refresh(f"dfs.tmp.{name}")
        assert (result.mode, result.files) == ("incremental", 1)
        unit = ms.materialized_views.get(f"dfs.tmp.{name}")
        info = TableInfo("dfs", "tmp", unit.data_location or "")
        register_views(spark, ms, [f"dfs.tmp.{name}"], freshness="any")
        stored = rows(spark.table(name))
        assert stored == rows(read_table(spark, ms, info))
        assert stored == sorted(ms.tables.scan(info).to_arrow().to_pylist(), key=repr)
        spark.read.parquet(str(data / "sales")).createOrReplaceTempView("sales")
        fresh = spark.sql(unit.sql or "")
        assert rows(fresh) == stored
        assert [(f.name, f.dataType) for f in fresh.schema] == [(f.name, f.dataType) for f in spark.table(name).schema]
    (data / "sales/late.parquet").unlink()


def test_threads_that_refresh_leave_the_session_as_it_was(spark: SparkSession, ms: Session) -> None:
    """Each has the settings that it needs while it writes, and no other thread ever sees them, nor do its RDDs."""
    settings = ("spark.sql.session.timeZone", "spark.sql.parquet.outputTimestampType")
    before = [spark.conf.get(key) for key in settings]
    spark.conf.set(settings[0], "America/New_York")
    names = [f"dfs.tmp.hours{number}" for number in range(3)]
    for name in names:
        ms.materialized_views.define(name, "SELECT id, cast(at AS string) AS said FROM sales")
    try:
        with ThreadPoolExecutor(len(names)) as threads:
            under_way = [threads.submit(ms.materialized_views.refresh, name, "full") for name in names * 2]
            seen = set()
            while not all(one.done() for one in under_way):
                seen.add(tuple(spark.conf.get(key) for key in settings))
            for one in under_way:
                with suppress(ConflictError):
                    one.result()
        assert seen == {("America/New_York", before[1])}
        assert spark.sparkContext.parallelize([(1,)]).toDF().sparkSession is spark
        for name in names:
            info = TableInfo("dfs", "tmp", ms.materialized_views.get(name).data_location or "")
            [first] = ms.tables.scan(info, "id = 0").to_arrow()["said"].to_pylist()
            assert first == "1970-01-01 00:00:00"
    finally:
        spark.conf.set(settings[0], str(before[0]))
