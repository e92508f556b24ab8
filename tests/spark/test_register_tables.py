"""``register(spark, ms, "dfs.shop.*")``: tables by name in ``spark.sql``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.tables_of_kinds import settings_of_kinds

from metastore.errors import InvalidRequestError
from metastore.session import Session, connect
from metastore.spark import register

pytestmark = pytest.mark.spark


@pytest.fixture
def ms(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    """Analyzed tables ``dfs.w.a`` and ``dfs.w.b-2``, one that nobody analyzed, and ``prod.db.c``."""
    for number, name in enumerate(("a", "b-2", "new")):
        (tmp_path / "lake" / name / "k=1").mkdir(parents=True)
        pq.write_table(pa.table({"id": [number]}), tmp_path / "lake" / name / "k=1" / "0.parquet")
    with connect(settings_of_kinds(tmp_path)) as opened:
        catalog = opened.catalogs.open("prod")
        catalog.create_namespace("db")
        rows = pa.table({"id": [7]})
        catalog.create_table("db.c", rows.schema).append(rows)
        opened.analyze("dfs.w.a")
        opened.analyze("dfs.w.b-2")
        yield opened
    for view in spark.catalog.listTables():
        spark.catalog.dropTempView(view.name)


def rows(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    """The rows of a query, sorted."""
    return sorted(map(tuple, spark.sql(query).collect()))


def test_all_tables_that_fit_are_views(spark: SparkSession, ms: Session) -> None:
    """Of folders by Spark's own reader, and of catalogs; columns of directories are there."""
    assert register(spark, ms, "dfs.w.*", "prod.db.c", prefix="x_") == ["x_a", "x_b_2", "x_c"]
    query = "SELECT a.id, b.id, c.id, CAST(a.k AS STRING) FROM x_a a, x_b_2 b, x_c c"
    assert rows(spark, query) == [(0, 1, 7, "1")]
    plan = spark.table("x_a")._jdf.queryExecution().executedPlan().toString()
    assert "FileScan parquet" in plan
    assert register(spark, ms, "prod") == register(spark, ms, "prod.d*") == ["c"]


def test_a_second_call_shows_what_came_since(spark: SparkSession, ms: Session, tmp_path: Path) -> None:
    """A view keeps the files of its making."""
    register(spark, ms, "dfs.w.a")
    pq.write_table(pa.table({"id": [5]}), tmp_path / "lake" / "a" / "k=1" / "1.parquet")
    ms.analyze("dfs.w.a")
    assert rows(spark, "SELECT id FROM a") == [(0,)]
    register(spark, ms, "dfs.w.a")
    assert rows(spark, "SELECT id FROM a") == [(0,), (5,)]


def test_names_that_do_not_fit_are_refused(spark: SparkSession, ms: Session, tmp_path: Path) -> None:
    """Before any view is made."""
    with pytest.raises(InvalidRequestError, match=r"no analyzed table fits 'dfs\.w\.nope\*'"):
        register(spark, ms, "dfs.w.a", "dfs.w.nope*")
    with pytest.raises(InvalidRequestError, match="no analyzed table fits 'dfs.w.new'"):
        register(spark, ms, "dfs.w.new")
    (tmp_path / "lake" / "A").mkdir()
    pq.write_table(pa.table({"id": [5]}), tmp_path / "lake" / "A" / "0.parquet")
    ms.analyze("dfs.w.A")
    with pytest.raises(InvalidRequestError, match="would both be called a"):
        register(spark, ms, "dfs.w.*")
    assert spark.catalog.listTables() == []
