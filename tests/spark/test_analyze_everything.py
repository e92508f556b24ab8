"""ANALYZE of every format and of databases on Spark: the local engine's units, and figures that Spark confirms."""

from __future__ import annotations

import traceback
from datetime import timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from metastore import MetadataType, Session
from metastore.config import Settings
from metastore.engines.engine import LocalEngine
from metastore.errors import EngineError
from metastore.model.sketches.description import descriptions_in
from metastore.model.statistics import ColumnStatistics
from metastore.model.statistics_json import read_column_holders
from metastore.session import connect
from metastore.spark import SparkEngine

pytestmark = pytest.mark.spark

COLUMNS = {
    "i64": "id * 3000000000000 - 5",
    "f64": "cast(id as double) / 7",
    "s": "concat('日本 ', id % 26)",
    "flag": "id % 3 = 0",
    "day": "date_add(date '1969-06-01', cast(id * 11 as int))",
    "local": "cast(timestamp_micros(id * 234567890123 + 1) as timestamp_ntz)",
    "some": "if(id % 4 = 0, null, id)",
}
TYPED = COLUMNS | {
    "i32": "cast(id * -70001 as int)",
    "d9": "cast(id * 1.25 - 7 as decimal(9, 2))",
    "moment": "timestamp_micros(id * 1234567890123 - 77)",
    "bin": "cast(concat('x', id) as binary)",
}
OTHERWISE = {("local", "json"), ("day", "json"), ("local", "orc"), ("moment", "parquet")}
"""What others do not see as Spark wrote it: moments and days are texts in JSON, local moments are numbers in ORC, and
INT96, Spark's moments in Parquet, has no bounds."""

ROWS = 3_000


def settings(folder: Path, **storage: Any) -> Settings:
    """A metastore in ``folder``."""
    location = {"base_path": str(folder), "relative_path": "metastore"}
    return Settings.from_mapping({"drill.metastore.iceberg.location": location, "drill.metastore.storage": storage})


def units_of(session: Session) -> list[dict[str, Any]]:
    """All units in a fixed order."""
    rows = session.tables.read().metadata_types(MetadataType.ALL).to_arrow().to_pylist(maps_as_pydicts="strict")
    return sorted(rows, key=lambda row: (row["metadataType"], row["metadataKey"], str(row["metadataIdentifier"])))


@pytest.mark.exhaustive
@pytest.mark.parametrize("format_", ["parquet", "orc", "csv", "json"])
def test_every_format_on_spark(tmp_path: Path, spark: SparkSession, engine: SparkEngine, format_: str) -> None:
    """Unit by unit as the local engine has them; bounds, counts and distinct values are Spark's own."""
    columns = TYPED if format_ in ("parquet", "orc") else COLUMNS
    frame = spark.range(0, ROWS, 1, 2).select(*(f.expr(text).alias(name) for name, text in columns.items()))
    location = tmp_path / "data"
    writer = frame.write.option("header", True).option("timestampNTZFormat", "yyyy-MM-dd HH:mm:ss.SSSSSS")
    writer.format(format_).save(str(location))
    found = []
    for name, runner in (("spark", engine), ("local", LocalEngine(1))):
        with connect(settings(tmp_path / name), runner) as session:
            result = session.analyze(location, statistics=True)
            assert (result.rows, result.engine) == (ROWS, runner.name)
            found.append(units_of(session))
    assert found[0] == found[1]
    [table] = [unit for unit in found[0] if unit["metadataType"] == "TABLE"]
    known = table["columnsStatistics"]
    for name in columns:
        if (name, format_) in OTHERWISE:
            continue
        plain = f.unix_micros(name) if name == "moment" else f.col(name)
        low, high = (f.min(plain), f.max(plain)) if name != "bin" else (f.lit(None), f.lit(None))
        [row] = frame.agg(low, high, f.count(name), f.count_distinct(name)).collect()
        told = ColumnStatistics.from_json(known[f"`{name}`"])
        assert (name, told.non_nulls) == (name, row[2])
        if (name, format_) == ("moment", "orc"):
            bounds: list[Any] = [told.min, told.max]
            low_told, high_told = (bound.replace(tzinfo=timezone.utc).timestamp() * 1_000_000 for bound in bounds)
            assert low_told < row[0] <= row[1] < high_told
            assert (told.min_exact, told.max_exact) == (False, False)
        elif name == "moment":
            assert [round(bound.timestamp() * 1_000_000) for bound in (told.min, told.max)] == list(row[:2])  # type: ignore[union-attr]
        elif name != "bin":
            assert (name, told.min, told.max) == (name, row[0], row[1])
        distinct = read_column_holders(known[f"`{name}`"])
        assert abs(distinct["approx_count_distinct"] - row[3]) <= 4 * 0.032 * row[3]


def test_spark_reads_our_sketches(tmp_path: Path, spark: SparkSession) -> None:
    """And finds in them the values that it hashes itself."""
    spark.range(0, 20_000, 1, 2).write.parquet(str(tmp_path / "data"))
    with connect(settings(tmp_path), LocalEngine(1)) as session:
        session.analyze(tmp_path / "data", statistics=True)
        [table] = [unit for unit in units_of(session) if unit["metadataType"] == "TABLE"]
    found = descriptions_in(table["additionalMetadata"])["`id`"]
    assert found is not None
    ours = found.theta.to_bytes()
    frame = spark.range(20_000).agg(f.theta_sketch_agg("id").alias("own")).select("own", f.lit(ours).alias("ours"))
    [row] = frame.select(
        f.theta_sketch_estimate("ours"), f.theta_sketch_estimate(f.theta_union("own", "ours"))
    ).collect()
    assert abs(row[0] - found.theta.estimate) <= 1
    assert abs(row[1] - 20_000) < 4 * 0.032 * 20_000


def test_tables_of_databases_are_read_through_spark(tmp_path: Path, spark: SparkSession, engine: SparkEngine) -> None:
    """Derby's, whose driver comes with PySpark; a table that there is not is an error that names it."""
    url = f"jdbc:derby:{tmp_path}/shop"
    driver = {"driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}
    frame = spark.range(50).select(
        *(f.expr(TYPED[name]).alias(name) for name in ("i64", "f64", "day", "some", "d9", "local"))
    )
    frame.write.mode("overwrite").jdbc(f"{url};create=true", "sales", properties=driver)
    plugin = {"type": "jdbc", "connection": url, "properties": driver}
    with connect(settings(tmp_path, db=plugin), engine) as session:
        assert session.analyze("db.APP.sales").rows == 50
        [table] = [unit for unit in units_of(session) if unit["metadataType"] == "TABLE"]
        for name, text in table["columnsStatistics"].items():
            told = ColumnStatistics.from_json(text)
            [row] = frame.agg(f.min(name), f.max(name), f.count(name)).collect()
            assert (name, told.min, told.max, told.non_nulls) == (name, *row)
        assert session.analyze("db.APP.sales").status == "up to date"
        with pytest.raises(EngineError, match=r"APP\.nope"):
            session.analyze("db.APP.nope")


def test_a_password_in_the_url_of_a_database_is_shown_to_nobody(
    tmp_path: Path, spark: SparkSession, engine: SparkEngine
) -> None:
    """Not by the table's location, which is stored, and not by errors, though Spark and drivers repeat the URL."""
    driver = {"driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}
    url = f"jdbc:derby:{tmp_path}/shop;user=me;password=hunter2"
    spark.range(3).write.jdbc(f"{url};create=true", "sales", properties=driver)
    nowhere = {"type": "jdbc", "connection": "jdbc:nowhere://me:hunter2@host/db?password=hunter2"}
    plugins = {"db": {"type": "jdbc", "connection": url, "properties": driver}, "nowhere": nowhere}
    with connect(settings(tmp_path, **plugins), engine) as session:
        assert session.analyze("db.ME.sales").rows == 3
        assert session.analyze("db.ME.sales").status == "up to date"
        assert "hunter2" not in str(units_of(session))
        assert f"{tmp_path}/shop;user=me;password=********/ME/sales" in str(units_of(session))
        for table, reason in (
            ("db.ME.nope", "Table/View 'ME.NOPE' does not exist"),
            ("nowhere.a.b", "No suitable driver"),
        ):
            with pytest.raises(EngineError, match=reason) as caught:
                session.analyze(table)
            assert "hunter2" not in "".join(traceback.format_exception(caught.value))
