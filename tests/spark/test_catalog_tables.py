"""Tables of Spark's own catalog that read through the metastore: ``CREATE TABLE … USING metastore OPTIONS (…)``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from metastore.session import connect
from metastore.spark import register_source
from metastore.spark.catalog_options import options_of_creation
from metastore.spark.source_options import SETTINGS

pytestmark = pytest.mark.spark


@pytest.fixture
def conf(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """A site whose tables ``dfs.w.a`` and ``dfs.w.b`` have equal columns; Spark's catalog is empty afterwards."""
    for name, first in (("a", 1), ("b", 11)):
        (tmp_path / "lake" / name).mkdir(parents=True)
        pq.write_table(pa.table({"id": [first, first + 1], "s": ["x", None]}), tmp_path / "lake" / name / "0.parquet")
    file = tmp_path / "site.conf"
    file.write_text(
        f'drill.metastore.iceberg.location.base_path = "{tmp_path}/md"\n'
        f'drill.metastore.storage.dfs.workspaces.w.location = "{tmp_path}/lake"\n'
    )
    with connect(file) as ms:
        ms.analyze("dfs.w.a")
        ms.analyze("dfs.w.b")
    register_source(spark)
    yield file
    for table in spark.catalog.listTables():
        if not table.isTemporary:
            spark.sql(f"DROP TABLE `{table.name}`")


def ids(spark: SparkSession, query: str) -> list[int]:
    """The first column of a query, sorted."""
    return sorted(row[0] for row in spark.sql(query).collect())


def test_a_persistent_table_has_the_rows_and_follows_the_metastore(spark: SparkSession, conf: Path) -> None:
    """By name, in SQL and as a DataFrame; each query reads what the metastore knows when it runs."""
    spark.sql(
        f"CREATE TABLE sales USING metastore OPTIONS (path 'dfs.w.a', Conf '{conf}') TBLPROPERTIES (owned = 'me')"
    )
    spark.sql(f"CREATE TABLE others USING metastore LOCATION 'dfs.w.b' OPTIONS (conf '{conf}', columns 'id')")
    assert ids(spark, "SELECT id FROM sales WHERE id > 1") == [2]
    assert ids(spark, "SELECT s.id + o.id FROM sales s JOIN others o ON o.id = s.id + 10") == [12, 14]
    assert spark.table("others").columns == ["id"]
    pq.write_table(pa.table({"id": [3], "s": ["y"]}), conf.parent / "lake" / "a" / "1.parquet")
    with connect(conf) as ms:
        ms.analyze("dfs.w.a")
    assert ids(spark, "SELECT id FROM sales") == [1, 2, 3]
    assert ids(spark, "SELECT id FROM sales WITH (where = 'id < 3')") == [1, 2]


def test_a_frame_of_another_name_reads_what_it_names(spark: SparkSession, conf: Path) -> None:
    """The schema of a persistent table carries its options; a path of one's own wins over them."""
    spark.sql(f"CREATE TABLE sales USING metastore OPTIONS (path 'dfs.w.a', conf '{conf}')")
    reader = spark.read.format("metastore").schema(spark.table("sales").schema).option("conf", str(conf))
    assert sorted(row.id for row in reader.load("dfs.w.b").collect()) == [11, 12]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TABLE t USING metastore OPTIONS (path 'dfs.w.a', conf '{conf}', wher 'id = 1')", "option wher"),
        ("CREATE TABLE t USING metastore OPTIONS (path 'dfs.w.gone', conf '{conf}')", "NotFoundError"),
        ("CREATE TABLE t USING metastore OPTIONS (conf '{conf}')", "name a table"),
        (f"CREATE TABLE t USING metastore OPTIONS (path 'dfs.w.a', `{SETTINGS}` '{{{{}}}}')", "name a configuration"),
    ],
)
def test_what_cannot_be_created_says_why(spark: SparkSession, conf: Path, statement: str, said: str) -> None:
    """Before there is a table."""
    with pytest.raises(AnalysisException, match=said):
        spark.sql(statement.format(conf=conf))


def test_what_spark_does_not_pass_on_is_refused(spark: SparkSession, conf: Path) -> None:
    """Declared columns lose the options; a write could go to the table that the rows come from."""
    spark.sql(f"CREATE TABLE declared (id BIGINT) USING metastore OPTIONS (path 'dfs.w.a', conf '{conf}')")
    with pytest.raises(AnalysisException, match="must not list columns"):
        spark.table("declared").count()
    spark.sql(f"CREATE TABLE sales USING metastore OPTIONS (path 'dfs.w.a', conf '{conf}')")
    for statement in ("INSERT INTO sales SELECT * FROM sales", "INSERT OVERWRITE sales VALUES (1, 'a')"):
        with pytest.raises(AnalysisException, match="does not pass the name of its table"):
            spark.sql(statement)


def test_options_of_a_load_are_no_options_of_a_table() -> None:
    """Only Spark's own properties tell that a table is created."""
    assert options_of_creation({"path": "a.b.c", "conf": "x"}) is None
    given = {"Path": "a.b.c", "option.rowid": "true", "rowid": "true", "owner": "me", "provider": "metastore", "z": "1"}
    assert options_of_creation(given) == {"rowid": "true", "path": "a.b.c"}
