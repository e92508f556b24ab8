"""A DataFrame goes into the folder of a table of files: rows, directories, metadata, and no visible file of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import obstore
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from services.s3 import S3Server

from metastore.config.settings import Settings
from metastore.errors import StorageError
from metastore.session import Session, connect
from metastore.spark import register_source
from metastore.spark.folder_sink import FolderSink
from metastore.spark.source_options import SETTINGS, settings_option

pytestmark = pytest.mark.spark


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[Session]:
    """A session with the workspaces ``dfs.shop``, in the folder ``lake``, and ``dfs.closed``, without writing."""
    (tmp_path / "lake").mkdir()
    workspaces = {
        "shop": {"location": f"{tmp_path}/lake", "writable": True},
        "closed": {"location": f"{tmp_path}/closed"},
    }
    known = {
        "drill.metastore.iceberg.location.base_path": f"{tmp_path}/md",
        "drill.metastore.storage.dfs": {"type": "file", "workspaces": workspaces},
    }
    with connect(Settings.from_mapping(known, environ={})) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of ``dfs.shop.sales``."""
    return tmp_path / "lake" / "sales"


Save = Callable[..., None]


@pytest.fixture
def save(spark: SparkSession, ms: Session) -> Save:
    """Write a DataFrame into ``dfs.shop.sales`` or another table."""
    register_source(spark)

    def write(frame: DataFrame, mode: str = "append", into: str = "dfs.shop.sales", **options: str) -> None:
        given = {SETTINGS: settings_option(ms.settings), **options}
        frame.write.format("metastore").mode(mode).options(**given).save(into)

    return write


def rows(spark: SparkSession, first: int, end: int, tasks: int = 2) -> DataFrame:
    """Rows of two months and two regions, one of which has a name that must be escaped, and one NULL."""
    return spark.range(first, end, 1, tasks).selectExpr(
        "id", "CAST(1 + id % 2 AS INT) AS month", "CASE id % 3 WHEN 0 THEN 'a/b =%' WHEN 1 THEN 'x' END AS region"
    )


def visible(folder: Path) -> list[Path]:
    """All files in the folder, hidden ones too: a write leaves nothing but data."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def asked(text: str) -> list[tuple[Any, ...]]:
    """The rows of a query, by DuckDB."""
    with duckdb.connect() as connection:
        return connection.execute(text).fetchall()


def found(folder: Path) -> list[tuple[Any, ...]]:
    """The rows of the folder, by DuckDB."""
    text = f"SELECT id, month, region FROM read_parquet('{folder}/**/*.parquet', hive_partitioning = true) ORDER BY id"
    return asked(text)


def expected(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The same rows, by Spark."""
    return [tuple(row) for row in frame.select("id", "month", "region").orderBy("id").collect()]


def test_rows_are_in_named_directories_and_analyzed_incrementally(
    spark: SparkSession, ms: Session, save: Save, folder: Path
) -> None:
    """The second write finds the directories; ANALYZE reads its files alone, and a condition prunes both."""
    frame = rows(spark, 0, 12)
    save(frame, partitionBy="month, region", analyze="true")
    assert found(folder) == expected(frame)
    first = len(visible(folder))
    save(rows(spark, 12, 18).selectExpr("id", "month AS MONTH", "region"), analyze="true")
    assert found(folder) == expected(rows(spark, 0, 18))
    assert spark.read.parquet(str(folder)).where("month = 2 AND region IS NULL").count() == 3
    scan = ms.tables.scan("dfs.shop.sales", "month = 2 AND id >= 12")
    assert scan.to_arrow().num_rows == 3
    assert 0 < len(scan.paths) <= len(visible(folder)) - first
    assert ms.analyze("dfs.shop.sales").status == "up to date"
    assert all(path.suffix == ".parquet" for path in visible(folder))


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({}, [1, 3]),
        pytest.param({"partitionOverwriteMode": "dynamic"}, [1, 3, 100, 102, 104], marks=pytest.mark.exhaustive),
    ],
)
def test_overwriting_replaces_all_files_or_those_of_the_new_partitions(
    spark: SparkSession, ms: Session, save: Save, folder: Path, options: dict[str, str], left: list[int]
) -> None:
    """A directory month=02 is the partition of the value 2."""
    save(rows(spark, 100, 106).drop("region"), partitionBy="month", analyze="true")
    (folder / "month=2").rename(folder / "month=02")
    save(rows(spark, 1, 5).where("month = 2").drop("region"), "overwrite", analyze="true", **options)
    text = f"SELECT id FROM read_parquet('{folder}/**/*.parquet') ORDER BY id"
    assert [row[0] for row in asked(text)] == left
    scanned: list[Any] = ms.tables.scan("dfs.shop.sales").to_arrow()["id"].to_pylist()
    assert sorted(scanned) == left
    assert ms.analyze("dfs.shop.sales").status == "up to date"


def test_partitions_of_texts_are_known_by_their_texts(spark: SparkSession, save: Save, folder: Path) -> None:
    """A text 6 replaces neither 06 nor --6, as in Spark; NULL replaces NULL."""
    texts = ["06", "6", "--6", None]
    frame = spark.createDataFrame(list(enumerate(texts)), "id BIGINT, code STRING")
    save(frame, partitionBy="code")
    new = frame.where("code = '6' OR code IS NULL").selectExpr("id + 10 AS id", "code")
    save(new, "overwrite", partitionOverwriteMode="dynamic")
    assert sorted(asked(f"SELECT id FROM read_parquet('{folder}/**/*.parquet')")) == [(0,), (2,), (11,), (13,)]


@pytest.mark.parametrize(
    ("columns", "mode", "into", "options", "said"),
    [
        ("id, 1 AS mont", "append", "dfs.shop.sales", {}, "no column mont; did you mean month"),
        ("'x' AS id, 1 AS month", "append", "dfs.shop.sales", {}, "column id is bigint, and the DataFrame gives"),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in (
                ("id", "append", "dfs.shop.sales", {}, "need a value of month"),
                ("1 AS month", "overwrite", "dfs.shop.sales", {}, "every column"),
                ("id, 1 AS month", "append", "dfs.shop.sales", {"partitionBy": "id"}, "directories of \\(month\\)"),
                ("id", "append", "dfs.closed.sales", {}, "writable = true"),
                ("id", "append", "dfs.shop.sales", {"branch": "x"}, "the option branch is not for"),
                ("id, 1 AS month", "append", "dfs.shop.sales", {"analyze": "yes"}, "true or false"),
                ("id, 1.5D AS month", "overwrite", "dfs.shop.sales", {}, "its type is double"),
                ("CAST(id AS SMALLINT) AS id, 1 AS month", "overwrite", "dfs.shop.sales", {}, "cast it to int"),
            )
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_a_task_runs(
    spark: SparkSession,
    save: Save,
    folder: Path,
    columns: str,
    mode: str,
    into: str,
    options: dict[str, str],
    said: str,
) -> None:
    """The error names what is wrong; the folder is as before."""
    save(rows(spark, 0, 4, 1).select("id", "month"), partitionBy="month")
    before = visible(folder)
    with pytest.raises(AnalysisException, match=said):
        save(spark.range(2).selectExpr(*columns.split(", ")), mode, into, **options)
    assert visible(folder) == before


def sink(ms: Session, spark: SparkSession, overwrites: str | None = None) -> FolderSink:
    """A writer of a column ``id``, as Spark has it."""
    columns = spark.range(1).schema
    return FolderSink(ms.settings, "dfs.shop.sales", columns, overwrites=overwrites, partition_by=None, analyzes=False)


def batch(first: int) -> pa.RecordBatch:
    """One row."""
    return pa.record_batch({"id": [first]})


def ids(folder: Path) -> list[int]:
    """The rows that a reader of the folder sees, by Spark's rule for hidden names."""
    shown = [path for path in visible(folder) if not any(part[0] in "_." for part in path.relative_to(folder).parts)]
    return sorted(row[0] for path in shown for row in asked(f"SELECT id FROM '{path}'"))


def test_files_of_other_attempts_are_never_seen(spark: SparkSession, ms: Session, folder: Path) -> None:
    """Two attempts of a task have written, and the commit has one; a killed driver leaves hidden files only."""
    killed = sink(ms, spark)
    killed.write(iter([batch(7)]))
    writer = sink(ms, spark)
    kept, _lost = writer.write(iter([batch(1)])), writer.write(iter([batch(1)]))
    assert ids(folder) == []
    writer.commit([kept])
    assert ids(folder) == [1]
    assert ms.analyze("dfs.shop.sales").rows == 1
    killed.abort([None])
    assert [path.suffix for path in folder.iterdir()] == [".parquet"]


def test_a_failing_move_leaves_the_old_files(spark: SparkSession, ms: Session, folder: Path) -> None:
    """An overwrite whose second file is lost deletes nothing, and takes its first file back."""
    first = sink(ms, spark)
    first.commit([first.write(iter([batch(1)]))])
    writer = sink(ms, spark, "static")
    messages = [writer.write(iter([batch(each)])) for each in (2, 3)]
    Path(messages[1].files[0].file_path).unlink()
    with pytest.raises(StorageError, match="the table is as before"):
        writer.commit(list(messages))
    writer.abort(list(messages))
    assert ids(folder) == [1]
    assert len(visible(folder)) == 1


@pytest.mark.exhaustive
def test_a_folder_on_an_object_store(spark: SparkSession, s3_server: S3Server, tmp_path: Path) -> None:
    """Files are moved within the store; an overwrite leaves the new objects alone, and no hidden one."""
    store = s3_server.create("folder-sink")
    keys = {f'"{key}"': value for key, value in s3_server.hadoop(s3_server.endpoint).items()}
    workspace = {"location": "/", "writable": True}
    plugin = {"type": "file", "connection": "s3a://folder-sink", "workspaces.lake": workspace, "config": keys}
    base = {"iceberg.location.base_path": str(tmp_path / "m"), "storage.s3": plugin}
    register_source(spark)
    with connect(Settings.from_mapping({"drill.metastore": base}, environ={})) as ms:
        for mode, first in (("append", 0), ("overwrite", 12)):
            writer = rows(spark, first, first + 6).drop("region").write.format("metastore").mode(mode)
            writer.options(**{SETTINGS: settings_option(ms.settings), "partitionBy": "month", "analyze": "true"})
            writer.save("s3.lake.sales")
        scanned: list[Any] = ms.tables.scan("s3.lake.sales", "month = 2").to_arrow()["id"].to_pylist()
        assert sorted(scanned) == [13, 15, 17]
        assert ms.analyze("s3.lake.sales").status == "up to date"
    left = [entry["path"] for page in obstore.list(store) for entry in page]
    assert {path.split("/")[1] for path in left} == {"month=1", "month=2"}


def test_an_overwrite_without_rows_keeps_the_columns(spark: SparkSession, ms: Session, folder: Path) -> None:
    """One file without rows is left, as Spark has it."""
    first = sink(ms, spark)
    first.commit([first.write(iter([batch(1)]))])
    sink(ms, spark, "static").commit([])
    assert ids(folder) == []
    assert spark.read.parquet(str(folder)).columns == ["id"]
