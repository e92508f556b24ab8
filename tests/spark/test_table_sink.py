"""A DataFrame goes into a table of a catalog: rows, partitions, one snapshot, and nothing else in the folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DecimalType, ListType, LongType, NestedField, StringType, TimestamptzType
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect
from metastore.spark import register_source
from metastore.spark.row_condition import RowCondition
from metastore.spark.source_options import SETTINGS, settings_option
from metastore.spark.table_sink import TableSink

pytestmark = pytest.mark.spark

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "Day", DateType()),
    NestedField(3, "price", DecimalType(9, 2)),
    NestedField(4, "name", StringType()),
)
BY_DAY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "Day"))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A catalog ``lake`` in SQLite."""
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/wh"}
    known = {"drill.metastore.iceberg.location.base_path": f"{tmp_path}/md", "drill.metastore.catalogs.lake": catalog}
    return Settings.from_mapping(known, environ={})


@pytest.fixture
def ms(settings: Settings) -> Iterator[Session]:
    """A session with the empty tables ``lake.shop.sales``, by day, ``lake.shop.flat`` and ``lake.shop.times``."""
    with connect(settings) as opened:
        catalog = opened.catalogs.open("lake")
        catalog.create_namespace("shop")
        catalog.create_table("shop.sales", SCHEMA, partition_spec=BY_DAY)
        catalog.create_table("shop.flat", SCHEMA)
        catalog.create_table("shop.times", Schema(NestedField(1, "at", ListType(2, TimestamptzType()))))
        yield opened


def table_of(ms: Session, name: str = "sales") -> Table:
    """The table as PyIceberg has it."""
    return ms.catalogs.open("lake").load_table(f"shop.{name}")


Save = Callable[..., None]


@pytest.fixture
def save(spark: SparkSession, ms: Session) -> Save:
    """Write a DataFrame into ``lake.shop.sales`` or another table."""
    register_source(spark)

    def write(frame: DataFrame, mode: str = "append", into: str = "lake.shop.sales", **options: str) -> None:
        given = {SETTINGS: settings_option(ms.settings), **options}
        frame.write.format("metastore").mode(mode).options(**given).save(into)

    return write


def rows_by_day(spark: SparkSession, first: int, days: list[int], tasks: int = 3) -> DataFrame:
    """Two rows for each day of January 2024, with the columns in another order and case."""
    values = ", ".join(f"({first + 2 * number + each}, {day})" for number, day in enumerate(days) for each in (0, 1))
    return spark.sql(
        "SELECT concat('n', id) AS name, ID, make_date(2024, 1, d) AS day, CAST(id AS INT) AS price "
        f"FROM VALUES {values} AS t(ID, d)"
    ).repartition(tasks)


def ids(table: Table, snapshot: int | None = None) -> list[int]:
    """The ids in the table, sorted, by PyIceberg."""
    found: list[Any] = table.scan(snapshot_id=snapshot).to_arrow()["id"].to_pylist()
    return sorted(found)


def parquet_files(ms: Session) -> set[str]:
    """The data files in the folder, whether the table has them or not."""
    folder = Path(table_of(ms).location().removeprefix("file://"))
    return {str(path) for path in folder.rglob("*.parquet")}


def files_of(table: Table) -> set[str]:
    """The data files of all snapshots."""
    return {str(path).removeprefix("file://") for path in table.inspect.all_files()["file_path"].to_pylist()}


def test_rows_are_appended_by_name_in_one_snapshot(spark: SparkSession, ms: Session, save: Save) -> None:
    """Types are widened as in INSERT; each file has one partition, and bounds and counts of its rows."""
    save(rows_by_day(spark, 1, [1, 2, 3]))
    table = table_of(ms)
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["Day"].day, str(row["price"]), row["name"]) for row in rows] == [
        (number, (number + 1) // 2, f"{number}.00", f"n{number}") for number in range(1, 7)
    ]
    assert len(table.snapshots()) == 1
    for entry in table.inspect.files().to_pylist():
        day = entry["readable_metrics"]["Day"]
        assert day["lower_bound"] == day["upper_bound"] == entry["partition"]["Day"]
    judged = spark.read.parquet(*files_of(table)).agg({"id": "sum"}).collect()[0][0]
    assert judged == 21
    assert parquet_files(ms) == files_of(table)
    save(rows_by_day(spark, 7, [1]).where("false"))
    assert len(table_of(ms).snapshots()) == 1


@pytest.mark.parametrize(
    ("into", "options", "left"),
    [
        ("sales", {}, [11, 12]),
        ("sales", {"partitionOverwriteMode": "static"}, [11, 12]),
        ("sales", {"partitionoverwritemode": "Dynamic"}, [1, 2, 5, 6, 11, 12]),
        ("flat", {"partitionOverwriteMode": "dynamic"}, [11, 12]),
    ],
)
def test_overwriting_replaces_everything_or_the_partitions_of_the_new_rows(
    spark: SparkSession, ms: Session, save: Save, into: str, options: dict[str, str], left: list[int]
) -> None:
    """In one snapshot, on top of the one before; as Spark's own tables have it."""
    save(rows_by_day(spark, 1, [1, 2, 3]), into=f"lake.shop.{into}")
    save(rows_by_day(spark, 11, [2]), "overwrite", f"lake.shop.{into}", **options)
    table = table_of(ms, into)
    assert ids(table) == left
    assert len(table.snapshots()) == 2


@pytest.mark.parametrize(
    ("columns", "into", "options", "said"),
    [
        ("1L AS id, 1 AS nam", "lake.shop.sales", {}, "no column nam; did you mean name"),
        ("'x' AS id", "lake.shop.sales", {}, "column id is long, and the query gives string"),
        ("array(TIMESTAMP_NTZ'2024-01-01') AS at", "lake.shop.times", {}, "column at .* whose times have no zone"),
        pytest.param("'x' AS name", "lake.shop.sales", {}, "requires a value in id", marks=pytest.mark.exhaustive),
        pytest.param("1L AS id, 'a' AS name, 'b' AS name", "lake.shop.sales", {}, "name", marks=pytest.mark.exhaustive),
        pytest.param("1L AS id", "lake.shop.sale", {}, "did you mean sales", marks=pytest.mark.exhaustive),
        pytest.param("1L AS id", "sales", {}, "is not a table of a catalog", marks=pytest.mark.exhaustive),
        ("1L AS id", "metastore.components.tables", {}, "the metastore's own"),
        pytest.param(
            "1L AS id", "lake.shop.sales", {"where": "id = 1"}, "unknown option where", marks=pytest.mark.exhaustive
        ),
        ("1L AS id", "lake.shop.sales", {"partitionOverwriteMode": "dynamic"}, "for mode overwrite"),
        pytest.param(
            "1L AS id",
            "lake.shop.sales",
            {"replaceWhere": "id = 1"},
            "for mode overwrite",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_a_task_runs(
    spark: SparkSession, ms: Session, save: Save, columns: str, into: str, options: dict[str, str], said: str
) -> None:
    """With the names of columns and tables."""
    with pytest.raises(AnalysisException, match=said):
        save(spark.sql(f"SELECT {columns}"), into=into, **options)
    assert parquet_files(ms) == set()


@pytest.mark.parametrize(
    "condition",
    [
        "f = 0.1",
        "f != 0.1",
        "f = 0.1F",
        "f IN (1, 16777217)",
        "s.f < 0.1",
        "NOT (n <> -9223372036854775808L)",
        "n > -2L",
    ],
)
def test_a_condition_is_true_of_sparks_rows(spark: SparkSession, condition: str) -> None:
    """Spark compares FLOAT with other numbers as DOUBLE; a sign belongs to its number."""
    values = "(0.1F, -9223372036854775808L), (16777216F, 1L), (NULL, -1L), (-0.0F, NULL)"
    frame = spark.sql(f"SELECT f, n, named_struct('f', f) AS s FROM VALUES {values} AS t(f, n)")
    rows = frame.toArrow().combine_chunks().to_batches()[0]
    where = RowCondition.of(condition, "t", rows.schema)

    def meets(row: pa.RecordBatch) -> bool:
        try:
            return list(where.met_by([row], rows.schema)) == [row]
        except InvalidRequestError:
            return False

    right = [bool(row[0]) for row in frame.selectExpr(condition).collect()]
    assert [meets(rows.slice(place, 1)) for place in range(rows.num_rows)] == right


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        pytest.param("Day = DATE '2024-01-02'", [1, 2, 5, 6, 13, 14], marks=pytest.mark.exhaustive),  # whole files
        ("day between '2024-01-02' and '2024-01-03' AND id > 3", [1, 2, 3, 13, 14]),  # a part of one
        pytest.param("name LIKE 'n_' OR `Id` = 13 or NAME = \"n14\"", [13, 14], marks=pytest.mark.exhaustive),
        pytest.param("price + 1 >= 13.00 or year(day) < 0", [1, 2, 3, 4, 5, 6, 13, 14], marks=pytest.mark.exhaustive),
    ],
)
def test_rows_of_a_condition_are_replaced_in_one_snapshot(
    spark: SparkSession, ms: Session, save: Save, condition: str, left: list[int]
) -> None:
    """The condition is Spark's SQL; Spark's own filter says which old rows stay."""
    save(rows_by_day(spark, 1, [1, 2, 3]))
    old = spark.read.parquet(*files_of(table_of(ms)))
    stay = [row["id"] for row in old.where(f"NOT coalesce({condition}, false)").select("id").collect()]
    new = rows_by_day(spark, 13, [2])
    save(new, "overwrite", replaceWhere=condition)
    table = table_of(ms)
    assert ids(table) == left == sorted([*stay, 13, 14])
    assert len(table.snapshots()) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"replaceWhere": "id > 13"}, "1 of 2 rows do not meet replaceWhere 'id > 13'"),
        *(
            pytest.param(options, said, marks=pytest.mark.exhaustive)
            for options, said in (
                ({"replaceWhere": "name <> 'n13' OR NULL"}, "do not meet"),
                ({"replaceWhere": "idd > 13"}, "idd"),
                ({"replaceWhere": "id >"}, "syntax error"),
                ({"replaceWhere": "id IN (SELECT 1)"}, "no subqueries"),
                ({"replaceWhere": "id > 0", "partitionOverwriteMode": "static"}, "without partitionOverwriteMode"),
            )
        ),
    ],
)
def test_a_row_that_the_condition_does_not_have_is_refused(
    spark: SparkSession, ms: Session, save: Save, options: dict[str, str], said: str
) -> None:
    """NULL is not true; the table is as before, and no file is left."""
    save(rows_by_day(spark, 1, [1]))
    files = parquet_files(ms)
    with pytest.raises(Exception, match=said):
        save(rows_by_day(spark, 13, [2], tasks=1), "overwrite", **options)
    assert parquet_files(ms) == files
    assert ids(table_of(ms)) == [1, 2]


def test_a_branch_gets_the_rows_and_main_stays(spark: SparkSession, ms: Session, save: Save) -> None:
    """The branch begins where main is. Each mode reads and changes it alone. A tag is refused."""
    save(rows_by_day(spark, 1, [1, 2]))
    ms.sql("ALTER TABLE lake.shop.sales CREATE TAG first")
    save(rows_by_day(spark, 11, [1]), branch="audit")
    assert ids(table_of(ms), table_of(ms).metadata.refs["audit"].snapshot_id) == [1, 2, 3, 4, 11, 12]
    save(rows_by_day(spark, 5, [3]))
    save(rows_by_day(spark, 21, [2]), "overwrite", branch="audit", replaceWhere="day = '2024-01-02'")
    save(rows_by_day(spark, 31, [1]), "overwrite", branch="audit", partitionOverwriteMode="dynamic")
    table = table_of(ms)
    assert ids(table) == [1, 2, 3, 4, 5, 6]
    audit = table.metadata.refs["audit"].snapshot_id
    assert ids(table, audit) == [21, 22, 31, 32]
    assert table.metadata.refs["audit"].snapshot_ref_type == SnapshotRefType.BRANCH
    summary = next(each.summary for each in table.snapshots() if each.snapshot_id == audit)
    assert summary is not None
    assert summary["total-records"] == "4"
    save(rows_by_day(spark, 41, [1]), "overwrite", branch="main")
    assert ids(table_of(ms)) == [41, 42]
    with pytest.raises(AnalysisException, match="first is a tag"):
        save(rows_by_day(spark, 51, [1]), branch="first")


def test_a_task_that_fails_leaves_nothing(spark: SparkSession, ms: Session, save: Save) -> None:
    """The files of the other tasks go, too, once they are there; the error names the column."""
    folder = Path(table_of(ms).location().removeprefix("file://"))

    def after_the_others(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            while batch["id"].null_count and len(list(folder.rglob("*.parquet"))) < 3:
                pass
            yield batch

    frame = spark.range(0, 100, 1, 4).selectExpr("IF(id = 99, NULL, id) AS id", "DATE '2024-01-01' AS day")
    with pytest.raises(Exception, match="column id is required: 1 rows have no value"):
        save(frame.mapInArrow(after_the_others, "id LONG, day DATE"))
    assert parquet_files(ms) == set()
    assert table_of(ms).snapshots() == []


def sink(ms: Session, spark: SparkSession, overwrites: str | None = None) -> TableSink:
    """A writer of the columns of :func:`rows_by_day`, as Spark has it."""
    columns = rows_by_day(spark, 1, [1]).schema
    return TableSink(ms.settings, "lake.shop.sales", columns, overwrites=overwrites, speculates=True)


def batch(first: int, day: int) -> pa.RecordBatch:
    """One row with the columns of :func:`rows_by_day`."""
    days = pa.array([19723 + day - 1], pa.int32()).cast(pa.date32())
    values: dict[str, Any] = {"name": ["x"], "ID": [first], "day": days, "price": pa.array([1], pa.int32())}
    return pa.record_batch(values)


def test_files_of_other_attempts_are_deleted(spark: SparkSession, ms: Session) -> None:
    """A second attempt of a task has written; the commit has the files of one."""
    writer = sink(ms, spark)
    kept, _lost = writer.write(iter([batch(1, 1)])), writer.write(iter([batch(1, 1)]))
    assert len(parquet_files(ms)) == 2
    writer.commit([kept])
    assert parquet_files(ms) == files_of(table_of(ms))
    assert ids(table_of(ms)) == [1]


def test_a_commit_after_other_columns_is_refused(spark: SparkSession, ms: Session) -> None:
    """The files were written for the columns of before; they are deleted, and Spark's abort finds nothing to do."""
    writer = sink(ms, spark)
    message = writer.write(iter([batch(1, 1)]))
    ms.sql("ALTER TABLE lake.shop.sales ADD COLUMN more BIGINT")
    with pytest.raises(Exception, match="other columns, partitions or properties"):
        writer.commit([message])
    writer.abort([message])
    assert parquet_files(ms) == set()
    assert table_of(ms).snapshots() == []


@pytest.mark.parametrize("overwrites", [pytest.param(None, marks=pytest.mark.exhaustive), "dynamic"])
def test_a_commit_in_between_is_kept(spark: SparkSession, ms: Session, overwrites: str | None) -> None:
    """An append to another partition neither fails a write nor is lost."""
    sink(ms, spark).commit([sink(ms, spark).write(iter([batch(1, 1)]))])
    writer = sink(ms, spark, overwrites)
    message = writer.write(iter([batch(2, 1)]))
    sink(ms, spark).commit([sink(ms, spark).write(iter([batch(3, 2)]))])
    writer.commit([message])
    assert ids(table_of(ms)) == [*([1] if overwrites is None else []), 2, 3]


def test_an_abort_after_a_commit_of_unknown_outcome_deletes_nothing(spark: SparkSession, ms: Session) -> None:
    """Spark aborts after every failed commit, with all messages; a snapshot may name the files."""
    writer = sink(ms, spark)
    message = writer.write(iter([batch(1, 1)]))
    writer.abort([message])
    assert len(parquet_files(ms)) == 1
    writer.abort([message, None])
    assert parquet_files(ms) == set()


RETRIED = """
import os, pathlib, sys
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from metastore.session import connect
from metastore.spark import register_source
root = os.environ["ROOT"]
spark = SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
register_source(spark)

def dies_once(value):
    from pyspark import TaskContext
    task = TaskContext.get()
    if value == 199999 and task.attemptNumber() == 0:
        os._exit(1)
    return value

with connect(root + "/site.conf") as ms:
    catalog = ms.catalogs.open("lake")
    catalog.create_namespace("shop")
    properties = {"write.target-file-size-bytes": "100000"}
    catalog.create_table("shop.t", pa.schema({"id": pa.int64()}), properties=properties)
    frame = spark.range(0, 200000, 1, 2).select(udf(dies_once, "long")("id").alias("id"))
    options = {"conf": root + "/site.conf"}
    frame.write.format("metastore").mode("append").options(**options).save("lake.shop.t")
    table = catalog.load_table("shop.t")
    answer["rows"] = len(set(table.scan().to_arrow()["id"].to_pylist()))
    answer["count"] = table.scan().count()
    answer["named"] = sorted(p.removeprefix("file://") for p in table.inspect.all_files()["file_path"].to_pylist())
    folder = pathlib.Path(table.location().removeprefix("file://"))
    answer["there"] = sorted(map(str, folder.rglob("*.parquet")))
spark.stop()
"""


@pytest.mark.exhaustive
def test_a_worker_that_dies_while_it_writes_leaves_nothing(
    run_driver: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """Spark runs its task again; the files of the first attempt are deleted after the commit."""
    (tmp_path / "site.conf").write_text(
        f'drill.metastore.iceberg.location.base_path = "{tmp_path}/md"\n'
        f'drill.metastore.catalogs.lake {{ type = sql, uri = "sqlite:///{tmp_path}/c.db" }}\n'
        f'drill.metastore.catalogs.lake.warehouse = "file://{tmp_path}/wh"\n'
    )
    answer = run_driver(RETRIED, ROOT=str(tmp_path))
    assert (answer["rows"], answer["count"]) == (200000, 200000)
    assert answer["there"] == answer["named"]
    assert len(answer["named"]) > 4
