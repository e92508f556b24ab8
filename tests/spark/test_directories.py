"""Columns of directories are those that Spark finds in them, whatever their names, in scans, in SQL and in Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from metastore.config.settings import Settings
from metastore.session import Session, connect
from metastore.spark import read_table

pytestmark = pytest.mark.spark

LAYOUTS: Mapping[str, tuple[Mapping[str, Mapping[str, Any]], Sequence[str]]] = {
    "named like a level": (
        {"dir0=a/x": {"id": [1]}, "dir0=b/x": {"id": [2]}},
        ["dir0 = 'a'", "dir0 != 'a'", "dir0 LIKE 'b%'", "length(dir0) = 1", "id = 2"],
    ),
    "named like another level": (
        {"k=1/dir0=5/x": {"id": [1]}, "k=2/dir0=6/x": {"id": [2]}},
        ["dir0 = 5", "dir0 > 5", "k = 1"],
    ),
    "a column of the files like a level": (
        {"k=a/x": {"id": [1], "dir0": ["old-a"]}, "k=b/x": {"id": [2], "dir0": ["old-b"]}},
        ["dir0 = 'old-a'", "dir0 = 'k=a'", "dir0 LIKE 'old%'", "k = 'b'"],
    ),
    "a column of the files like a directory's": (
        {"k=a/x": {"id": [1], "k": ["old-a"]}, "k=b/x": {"id": [2], "k": ["old-b"]}},
        ["k = 'old-a'", "k = 'a'", "k != 'a'"],
    ),
    "a column of the files like Spark's own": (
        {"k=1/x": {"id": [1], "_metadata": ["a"]}, "k=2/x": {"id": [2], "_metadata": ["b"]}},
        ["_metadata = 'a'", "k = 2"],
    ),
    "names with escapes": (
        {"rate%25=5/größe%2Fcm=1/x": {"id": [1]}, "rate%25=6/größe%2Fcm=2/x": {"id": [2]}},
        ["`rate%` = 5", "`rate%` > 5", "`größe/cm` = 1", "abs(`rate%`) = 6"],
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table for each layout."""
    base = tmp_path_factory.mktemp("lake")
    for number, (files, _) in enumerate(LAYOUTS.values()):
        for name, columns in files.items():
            path = base / f"t{number}" / f"{name}.parquet"
            path.parent.mkdir(parents=True)
            pq.write_table(pa.table(dict(columns)), path)
    return base


@pytest.fixture(scope="module")
def ms(folder: Path) -> Iterator[Session]:
    """A session that knows the tables."""
    known = {
        "drill.metastore.iceberg.location.base_path": f"{folder}/metastore",
        "drill.metastore.storage.dfs.workspaces.tmp.location": str(folder),
    }
    with connect(Settings.from_mapping(known, environ={})) as opened:
        for number in range(len(LAYOUTS)):
            opened.analyze(f"dfs.tmp.t{number}")
        yield opened


@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_those_of_spark(spark: SparkSession, ms: Session, folder: Path, layout: str) -> None:
    """Every column with its value, and every question that names one of them, for whoever asks."""
    number = list(LAYOUTS).index(layout)
    name = f"dfs.tmp.t{number}"
    unpruned = spark.read.parquet(f"{folder}/t{number}")
    for question in ("true", *LAYOUTS[layout][1]):
        expected = sorted(unpruned.where(question).collect(), key=lambda row: row.id)
        names = sorted(unpruned.columns)
        rows = sorted(ms.tables.scan(name, question).to_arrow().to_pylist(), key=lambda row: row["id"])
        assert [sorted(row.items()) for row in rows] == [[(n, row[n]) for n in names] for row in expected], question
        assert ms.tables.scan(name, question).count() == len(expected), question
        for row_id in (False, True):
            frame = read_table(spark, ms, name, question, names, row_id=row_id).select(*(f"`{n}`" for n in names))
            assert sorted(map(tuple, frame.collect())) == sorted(tuple(row[n] for n in names) for row in expected)
        in_duckdb = question.replace("`", '"')
        assert [row["id"] for row in ms.sql(f"SELECT id FROM {name} WHERE {in_duckdb} ORDER BY id").to_pylist()] == [
            row.id for row in expected
        ]


def test_levels_are_there_where_spark_tells_no_files(spark: SparkSession, ms: Session) -> None:
    """Its Parquet reader of version 2 knows no column of a row's file."""
    setting = "spark.sql.sources.useV1SourceList"
    before = str(spark.conf.get(setting))
    spark.conf.set(setting, "")
    try:
        rows = read_table(spark, ms, "dfs.tmp.t1", "k = 1", ["dir1", "id", "dir0"]).collect()
        assert [tuple(row) for row in rows] == [("dir0=5", 1, 5)]
    finally:
        spark.conf.set(setting, before)
