"""A DataFrame's structs have their fields in another order and case than the table: each value goes to its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from metastore.config.settings import Settings
from metastore.session import Session
from metastore.spark import connect, merge, register_source
from metastore.spark.source_options import SETTINGS, settings_option

pytestmark = pytest.mark.spark

STRUCT = "STRUCT<a: INT, b: INT>"
TYPES = f"id BIGINT, one {STRUCT}, many ARRAY<{STRUCT}>, named MAP<STRING, {STRUCT}>"
INTO = ("lake.db.t", "dfs.w.t")


@pytest.fixture
def ms(spark: SparkSession, tmp_path: Path) -> Iterator[Session]:
    """A session with the empty table ``lake.db.t``, and a workspace that may be written to."""
    (tmp_path / "data").mkdir()
    given = {
        "iceberg.location.base_path": f"{tmp_path}/md",
        "catalogs.lake": {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"{tmp_path}/wh"},
        "storage.dfs": {"type": "file", "workspaces": {"w": {"location": f"{tmp_path}/data", "writable": True}}},
    }
    register_source(spark)
    with connect(spark, Settings.from_mapping({"drill.metastore": given}, environ={})) as opened:
        opened.sql("CREATE SCHEMA lake.db")
        inner = "STRUCT(a INTEGER, b INTEGER)"
        opened.sql(f"CREATE TABLE lake.db.t (id BIGINT, one {inner}, many ARRAY({inner}), named MAP(VARCHAR, {inner}))")
        yield opened


def swapped_structs(spark: SparkSession, first: int) -> DataFrame:
    """Three rows whose structs have ``B`` before ``a``."""
    return spark.range(first, first + 3, 1, 2).selectExpr(
        "map('k', named_struct('B', CAST(id AS INT), 'a', 7)) AS named",
        "IF(id % 2 = 0, named_struct('B', CAST(id AS INT), 'a', 8), NULL) AS one",
        "array(named_struct('B', CAST(id AS INT), 'a', 9), NULL) AS many",
        "id",
    )


def by_spark(frame: DataFrame) -> list[str]:
    """The rows with the fields of the table, as Spark itself converts them: it names every field."""
    inner = "named_struct('a', {0}.a, 'b', {0}.B)"
    plain = frame.selectExpr(
        "id",
        f"IF(one IS NULL, NULL, {inner.format('one')}) AS one",
        f"transform(many, x -> IF(x IS NULL, NULL, {inner.format('x')})) AS many",
        f"transform_values(named, (k, x) -> {inner.format('x')}) AS named",
    )
    return texts(plain.toArrow())


def texts(table: pa.Table) -> list[str]:
    """Rows that compare whatever their order."""
    return sorted(map(repr, table.to_pylist()))


def save(ms: Session, frame: DataFrame, into: str) -> None:
    """Append."""
    writer = frame.write.format("metastore").mode("append").option(SETTINGS, settings_option(ms.settings))
    writer.save(into)


@pytest.mark.parametrize("into", INTO)
def test_values_go_to_the_fields_of_their_names(spark: SparkSession, ms: Session, tmp_path: Path, into: str) -> None:
    """As in Spark's own writes by name: apache/spark 22946 and 33728, apache/paimon 7743."""
    save(ms, spark.createDataFrame([(None, None, None, None)], TYPES), into)
    frame = swapped_structs(spark, 0)
    save(ms, frame, into)
    folder = tmp_path / ("wh" if into.startswith("lake") else "data")
    found = (
        spark.read.schema(TYPES).options(recursiveFileLookup="true", pathGlobFilter="*.parquet").parquet(str(folder))
    )
    assert texts(found.where("id IS NOT NULL").toArrow()) == by_spark(frame)


@pytest.mark.parametrize("into", INTO)
@pytest.mark.parametrize("struct", ["named_struct('a', 1)", "named_struct('a', 1, 'b', 2, 'c', 3)"])
def test_other_fields_are_refused(spark: SparkSession, ms: Session, into: str, struct: str) -> None:
    """A field is missing, or there is one more: before a task runs."""
    save(ms, spark.createDataFrame([(None, None, None, None)], TYPES), into)
    with pytest.raises(AnalysisException, match="column many is .*gives"):
        save(ms, spark.range(1).selectExpr("id", f"array({struct}) AS many"), into)


def test_merge_does_so(spark: SparkSession, ms: Session) -> None:
    """By UPDATE SET * and INSERT *."""
    save(ms, swapped_structs(spark, 0), "lake.db.t")
    clauses = ("WHEN MATCHED THEN UPDATE SET *", "WHEN NOT MATCHED THEN INSERT *")
    merge(ms, swapped_structs(spark, 1), "lake.db.t", "target.id = source.id", *clauses)
    expected = by_spark(swapped_structs(spark, 0).where("id < 1").unionAll(swapped_structs(spark, 1)))
    assert texts(ms.sql("SELECT * FROM lake.db.t")) == expected
