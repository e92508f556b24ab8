"""Spark's door has the columns of the scan, of tables of every kind; directories have the types that Spark infers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.tables_of_kinds import make_tables, settings_of_kinds

from metastore.errors import InvalidRequestError
from metastore.session import connect
from metastore.spark import read_table, select
from metastore.spark.spark_types import spark_schema

pytestmark = pytest.mark.spark

DIRECTORIES: Sequence[Sequence[str]] = (
    ("1", "2"),
    ("01", "2"),
    ("1", "3000000000"),
    ("1", "1.5"),
    ("1.5", "2.25"),
    ("1e-3", "2.5"),
    (".5", "1"),
    (".5", "1."),
    ("1.", "1e3"),
    ("1.5d", "2"),
    ("2024-01", "2024-02"),
    ("NaN", "1.0"),
    ("2024-01-05", "2024-1-6"),
    ("2024-01-05", "x"),
    ("2024-01-05", "1"),
    ("true", "false"),
    ("1", "__HIVE_DEFAULT_PARTITION__"),
    ("a", "__HIVE_DEFAULT_PARTITION__"),
    ("12345678901234567890", "1"),
    ("2024-02-30", "2024-01-01"),
    ("x y", "z"),
    ("+5", "7"),
)
"""Values of two directories, as they stand in their names."""


def test_spark_reads_the_columns_of_the_scan(spark: SparkSession, tmp_path: Path) -> None:
    """By name, order and type, of tables with rows and without, in read_table and in select."""
    wrong = []
    with connect(settings_of_kinds(tmp_path)) as session:
        for table, options in make_tables(session, tmp_path).items():
            session.analyze(table, **options)
            struct, _ = spark_schema(session.tables.scan(table).schema)
            expected = [(field.name, field.dataType) for field in struct]
            for frame in (read_table(spark, session, table), select(spark, session, f"SELECT * FROM {table}")):
                found = [(field.name, field.dataType) for field in frame.schema]
                if found != expected or frame.count() != session.tables.scan(table).count():
                    wrong.append((table, found, expected))
    assert wrong == []


def test_values_of_directories_have_the_types_that_spark_infers(spark: SparkSession, tmp_path: Path) -> None:
    """And the same values, over a table of texts."""
    wrong = []
    with connect(settings_of_kinds(tmp_path)) as session:
        for number, values in enumerate(DIRECTORIES):
            place = tmp_path / "lake" / f"d{number}"
            for row, value in enumerate(values):
                (place / f"k={value}").mkdir(parents=True)
                pq.write_table(pa.table({"id": [row]}), place / f"k={value}" / "1.parquet")
            session.analyze(f"dfs.w.d{number}")
            plain = spark.read.parquet(str(place)).select("id", "k").orderBy("id")
            scan = session.tables.scan(f"dfs.w.d{number}", columns=["id", "k"])
            ours = sorted(scan.to_arrow().to_pylist(), key=lambda row: row["id"])
            theirs = [row.asDict() for row in plain.collect()]
            expected = plain.schema["k"].dataType.simpleString()
            found = spark_schema(scan.schema)[0]["k"].dataType.simpleString()
            if found != expected or repr(ours) != repr(theirs):
                wrong.append((values, found, expected, ours, theirs))
    assert wrong == []


def test_fields_that_files_spell_in_several_ways_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """In structs, lists and maps, with conditions: judged by Spark's own reader under the table's schema."""
    place = tmp_path / "lake" / "spelled"
    place.mkdir(parents=True)
    first = {"s": [{"A": 1, "In": {"x": "p"}}, None], "l": [[{"V": 1}], []]}
    second = {"S": [{"in": {"X": "q", "y": 2}, "a": 3}, {"in": None, "a": 4}], "L": [None, [{"w": 5, "v": 6}]]}
    files: list[dict[str, Any]] = [first, second]
    for number, columns in enumerate(files):
        pq.write_table(pa.table(columns), place / f"{number}.parquet")
    conditions = ("true", "s.a = 3", "S.A < 2", "s.in.x = 'q'", "s.IN.Y IS NULL", "size(l) = 0", "l IS NULL")
    with connect(settings_of_kinds(tmp_path)) as session:
        session.analyze("dfs.w.spelled")
        struct, _ = spark_schema(session.tables.scan("dfs.w.spelled").schema)
        plain = spark.read.schema(struct).parquet(str(place))
        for condition in conditions:
            expected = sorted(map(repr, plain.where(condition).collect()))
            for frame in (
                read_table(spark, session, "dfs.w.spelled", condition),
                select(spark, session, f"SELECT * FROM dfs.w.spelled WHERE {condition}"),
            ):
                assert sorted(map(repr, frame.collect())) == expected, condition
        assert len(session.prune("dfs.w.spelled", "s.a = 3").files) == 1


def test_what_files_say_is_there_for_tables_of_every_kind(spark: SparkSession, tmp_path: Path) -> None:
    """In read_table, in select, and through a view; what a kind cannot have is refused with the next step."""
    with connect(settings_of_kinds(tmp_path)) as session:
        make_tables(session, tmp_path)
        for table in ("lake.db.full", "delta.w.full", "dfs.w.parted_full", "dfs.w.orc_full"):
            session.analyze(table)
            paths: list[Any] = session.tables.scan(table, columns=["$path"]).to_arrow()["$path"].to_pylist()
            session.views.define("dfs.w.named", f"SELECT `$path` AS p FROM {table} WHERE suffix <> 'x'", replace=True)
            for frame in (
                read_table(spark, session, table, "filename LIKE '%'", ["$path"]),
                select(spark, session, f"SELECT `$path` FROM {table} WHERE filename IS NOT NULL"),
                select(spark, session, "SELECT p FROM dfs.w.named"),
            ):
                assert sorted(row[0] for row in frame.collect()) == sorted(paths), table
            assert read_table(spark, session, table, "filename = 'none'", ["$path"]).count() == 0
            if table.startswith("dfs"):
                continue
            untold = () if table.startswith("delta") else ("$file_modified_time",)
            for name in ("$partition", "$row_id", *untold):
                with pytest.raises(InvalidRequestError, match="there is no column|have no row ids"):
                    select(spark, session, f"SELECT `{name}` FROM {table}").collect()
