"""Iceberg and Delta tables in Spark: the rows that PyIceberg and deltalake read, by tasks that read pruned files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from support import delete_files, delta_log

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect
from metastore.spark import read_table, select
from metastore.spark.source_options import SETTINGS, settings_option

pytestmark = pytest.mark.spark

NAN = float("nan")
MOMENT = datetime(2020, 3, 1, 11, 30, 0, 1, tzinfo=timezone.utc)
TABLES = ("lake.shop.t", "delta.w.t")


def rows(start: int) -> pa.Table:
    """Five rows of many types, with nulls and NaN."""
    return pa.table(
        {
            "id": pa.array(range(start, start + 5), pa.int64()),
            "i": pa.array([start, None, 1, 2, -3], pa.int32()),
            "d": [float(start), NAN, -0.0, 0.1, None],
            "dec": pa.array([Decimal("0.10"), Decimal("9.99"), None, None, Decimal("-1.50")], pa.decimal128(9, 2)),
            "s": ["a", "ä", None, "a b", "😀"],
            "day": [date(2020, 2, 29), None, date(1969, 12, 31), None, None],
            "utc": pa.array([MOMENT, None, None, None, None], pa.timestamp("us", "UTC")),
            "st": [{"a": start, "b": "z"}, None, {"a": None, "b": "y"}, None, None],
            "k": ["x", "x", "y/ü", "y/ü", None],
        }
    )


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A catalog, and a folder of Delta tables."""
    folder = tmp_path_factory.mktemp("others")
    storage = {
        "lake": {"type": "iceberg", "catalog": "prod"},
        "delta": {"type": "delta", "connection": "file:///", "workspaces.w.location": f"{folder}/delta"},
    }
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    return Settings.from_mapping(
        {
            "drill.metastore.iceberg.location": {"base_path": str(folder), "relative_path": "metastore"},
            "drill.metastore.catalogs.prod": catalog,
            "drill.metastore.storage": storage,
        },
        environ={},
    )


@pytest.fixture(scope="module")
def ms(settings: Settings) -> Iterator[Session]:
    """Both tables, analyzed; since then rows came and rows went by delete files and deletion vectors."""
    with connect(settings) as session:
        catalog = session.catalogs.open("prod")
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.t", rows(0).schema, properties={"format-version": "2"})
        with table.update_spec() as update:
            update.add_identity("k")
        place = Path(session.source("delta.w.t").location)
        for start in (0, 10, 20):
            table.append(rows(start))
            write_deltalake(str(place), rows(start), partition_by=["k"], mode="append")
            if start < 20:
                for name in TABLES:
                    session.analyze(name)
        with table.update_schema() as update:
            update.rename_column("i", "number")
        for task in list(table.scan("id > 5 and k = 'x'").plan_files()):
            delete_files.delete_positions(table, {task.file.file_path: [1]}, task.file.partition)
            table.refresh()
        for file in pa.table(DeltaTable(str(place)).get_add_actions()).to_pylist()[:4]:
            delta_log.delete_rows(place, file["path"], [0])
        yield session


def truth(ms: Session, name: str) -> pa.Table:
    """All rows, by the library that is not ours."""
    if name == "lake.shop.t":
        return ms.catalogs.open("prod").load_table("shop.t").scan().to_arrow()
    return pa.table(DeltaTable(ms.source(name).location).scan().read_all())


QUESTIONS = [
    "id > 12", "d > 0.05", "NOT d < 0.2", "d IS NULL OR dec >= 0.5", "s LIKE 'a_b'", "s IN ('ä', '😀')", "k = 'x'",
    "day < DATE '2020-03-01'", "st.a = 10 OR st.b = 'y'", "k IS NULL AND id < 15", "length(s) = 1", "abs(id) < 3",
]  # fmt: skip


@pytest.mark.parametrize(
    "name", [TABLES[0], *(pytest.param(each, marks=pytest.mark.exhaustive) for each in TABLES[1:])]
)
def test_answers_are_those_of_the_unpruned_table(spark: SparkSession, ms: Session, name: str) -> None:
    """For every kind of question; all asked in one job."""
    expected = []
    with duckdb.connect() as engine:
        # In a table of its own: before 2.0 DuckDB lets Arrow compare what it reads from there, which loses NaN.
        engine.from_arrow(truth(ms, name)).create("whole")
        for n, question in enumerate(QUESTIONS):
            found = engine.table("whole").filter(question).project("id").fetchall()
            expected += [(n, row) for (row,) in found]
    frames = [
        read_table(spark, ms, name, question, ["id"]).select(sql.lit(n).alias("n"), "id")
        for n, question in enumerate(QUESTIONS)
    ]
    found = [tuple(row) for row in reduce(DataFrame.unionAll, frames).collect()]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("name", TABLES)
def test_every_door_has_the_values_of_the_table(
    spark: SparkSession, ms: Session, settings: Settings, name: str
) -> None:
    """read_table, the data source with and without a condition, and select; columns as the table has them now."""
    whole = truth(ms, name)

    def values(found: pa.Table) -> list[str]:
        return sorted(map(repr, found.select(whole.column_names).to_pylist()))

    assert values(read_table(spark, ms, name).toArrow()) == values(whole)
    source = spark.read.format("metastore").option(SETTINGS, settings_option(settings))
    assert values(source.load(name).toArrow()) == values(whole)
    late = {row["id"] for row in whole.to_pylist() if row["id"] > 12}
    assert {row.id for row in source.option("where", "id > 12").load(name).collect()} == late
    assert {row.id for row in select(spark, ms, f"SELECT id FROM {name} WHERE id > 12").collect()} == late
    with pytest.raises(InvalidRequestError, match="no row ids"):
        read_table(spark, ms, name, row_id=True)


def test_what_spark_wrote_is_read(spark: SparkSession, ms: Session) -> None:
    """Parquet of Spark's, with moments as INT96, in a Delta table whose log counts it."""
    place = Path(ms.source("delta.w.spark").location)
    query = "SELECT id, TIMESTAMP '1500-01-01 00:00:00Z' + make_interval(id) AS at FROM range(3)"
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        spark.sql(query).coalesce(1).write.parquet(str(place))
    finally:
        spark.conf.set("spark.sql.parquet.outputTimestampType", str(before))
    [path] = place.glob("*.parquet")
    assert pq.read_schema(path).field("at").type == pa.timestamp("ns")
    columns: list[dict[str, Any]] = [
        {"name": name, "type": type_, "nullable": True, "metadata": {}}
        for name, type_ in (("id", "long"), ("at", "timestamp"))
    ]
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    added = delta_log.added(place, path.name, {"numRecords": 3})
    delta_log.commit(place, protocol, delta_log.table_of(columns), added)
    ms.analyze("delta.w.spark")
    expected = [datetime(1500 + n, 1, 1, tzinfo=timezone.utc) for n in range(3)]
    assert ms.tables.scan("delta.w.spark").to_arrow()["at"].to_pylist() == expected
