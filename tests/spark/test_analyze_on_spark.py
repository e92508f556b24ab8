"""ANALYZE on executors: the same units as on the local engine, and statistics that Spark's own SQL confirms."""

from __future__ import annotations

import json
import os
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from metastore import MetadataType, Session
from metastore.analyze.run import analyze
from metastore.analyze.tasks.chunks import Limits
from metastore.components.metastore import Metastore
from metastore.config import Settings, load_text
from metastore.engines.engine import Engine, LocalEngine
from metastore.errors import FormatError
from metastore.model.identity import TableInfo
from metastore.model.statistics import ColumnStatistics, parse_many
from metastore.model.statistics_json import micros
from metastore.session import connect
from metastore.sources.source_table import SourceTable
from metastore.spark import SparkEngine
from metastore.spark import connect as connect_spark

pytestmark = pytest.mark.spark

EXPRESSIONS = {
    "b": "id % 3 = 0",
    "i8": "cast(id % 100 - 50 as tinyint)",
    "i16": "cast(id * 7 - 300 as smallint)",
    "i32": "cast(id * -70001 as int)",
    "i64": "id * 3000000000000 - 5",
    "f32": "cast(id * 0.25 - 3 as float)",
    "f64": "cast(id as double) / 7",
    "nan": "if(id % 5 = 1, double('NaN'), cast(id as double))",
    "d9": "cast(id * 1.25 - 7 as decimal(9, 2))",
    "d18": "cast(id * 1234567.1234 as decimal(18, 4))",
    "d38": "cast(id * -12345678901234567890.0123456789 as decimal(38, 10))",
    "s": "concat('日本 ', chr(cast(65 + id % 26 as int)), id)",
    "bin": "cast(concat('x', id) as binary)",
    "day": "date_add(date '1969-06-01', cast(id * 11 as int))",
    "moment": "timestamp_micros(id * 1234567890123 - 77)",
    "local": "cast(timestamp_micros(id * 234567890123 + 1) as timestamp_ntz)",
    "some": "if(id % 4 = 0, null, id)",
    "none": "cast(null as int)",
    "a.dotted": "id + 1",
}
"""A column of each type that Spark writes to Parquet, with nulls, NaN, and a name that looks like a path."""

BOUNDED = set(EXPRESSIONS) - {"nan", "none"}


def everything(spark: SparkSession) -> DataFrame:
    """Sixty rows of every type, with a struct whose members are null where it is, a list and a map."""
    flat = {name: f.expr(expression) for name, expression in EXPRESSIONS.items()}
    frame = spark.range(0, 60, 1, 3).select("id", *(column.alias(name) for name, column in flat.items()))
    struct = "if(id % 6 = 0, null, named_struct('x', id * 2, 'in', named_struct('y', concat('y', id))))"
    return frame.withColumns({"st": f.expr(struct), "l": f.array("id"), "m": f.create_map("s", "i32")})


HOUR = 3_600_000_000


@pytest.fixture(scope="module", params=["TIMESTAMP_MICROS", "TIMESTAMP_MILLIS", "INT96"])
def table(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """The kind of its timestamps, and a table below year=…/part=… of several files and row groups."""
    location = tmp_path_factory.mktemp("data") / "all types"
    key = "spark.sql.parquet.outputTimestampType"
    spark.conf.set(key, request.param)
    places = {"year": f.expr("2013 + id % 2"), "part": f.expr("concat('p ', id % 3)")}
    everything(spark).withColumns(places).write.partitionBy(*places).parquet(str(location))
    spark.conf.unset(key)
    return request.param, location


def settings(folder: Path) -> Settings:
    """A metastore in ``folder``."""
    return load_text(f"drill.metastore.iceberg.location.base_path: {json.dumps(str(folder))}")


def analyzed(folder: Path, location: Path, engine: Engine) -> list[dict[str, Any]]:
    """All units of a fresh metastore after ANALYZE, in a fixed order."""
    with connect(settings(folder), engine) as session:
        assert session.analyze(location).status == "analyzed"
        return units_of(session)


def units_of(session: Session) -> list[dict[str, Any]]:
    """All units, with maps as dictionaries, in a fixed order."""
    rows = session.tables.read().metadata_types(MetadataType.ALL).to_arrow().to_pylist(maps_as_pydicts="strict")
    return sorted(rows, key=lambda row: (row["metadataType"], row["metadataKey"], str(row["metadataIdentifier"])))


def test_units_equal_those_of_the_local_engine(tmp_path: Path, engine: SparkEngine, table: tuple[str, Path]) -> None:
    """Unit by unit, whichever engine read the footers."""
    on_spark = analyzed(tmp_path / "spark", table[1], engine)
    here = analyzed(tmp_path / "local", table[1], LocalEngine(1))
    assert {unit["metadataType"] for unit in here} >= {"TABLE", "SEGMENT", "FILE", "ROW_GROUP"}
    assert on_spark == here


def test_increments_equal_those_of_the_local_engine(tmp_path: Path, engine: SparkEngine) -> None:
    """Executors read what is stored of the segments in which something changed, and make them anew."""
    location = tmp_path / "data"

    def write(name: str, *values: int | None) -> None:
        path = location / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": pa.array(values, pa.int64())}), path)

    for day in (1, 2, 3):
        for number in range(3):
            write(f"day={day}/{number}.parquet", day, number, None)
    here = LocalEngine(1)
    with connect(settings(tmp_path / "kept"), engine) as session:
        assert session.analyze(location).new == 9
        write("day=1/0.parquet", 70, 71)
        write("day=2/3.parquet", 5)
        (location / "day=2" / "0.parquet").unlink()
        result = session.analyze(location)
        assert (result.new, result.changed, result.removed, result.segments_written) == (1, 1, 1, 2)
        assert result.engine == "spark"
        # Who leads depends on what the metadata went through, and the next run reads the same of it.
        on_spark = [unit for unit in units_of(session) if unit["metadataType"] != "TABLE"]
        whole = statistics(units_of(session))
    fresh = analyzed(tmp_path / "fresh", location, here)
    assert on_spark == [unit for unit in fresh if unit["metadataType"] != "TABLE"]
    assert whole == statistics(fresh)


def statistics(units: list[dict[str, Any]]) -> dict[str, ColumnStatistics]:
    """Those of the table as a whole, by quoted column path."""
    (whole,) = [unit["columnsStatistics"] for unit in units if unit["metadataType"] == "TABLE"]
    found = zip(whole, parse_many(list(whole.values())), strict=True)
    return {path: parsed for path, parsed in found if parsed is not None}


def test_statistics_equal_those_of_spark_sql(
    tmp_path: Path, spark: SparkSession, engine: SparkEngine, table: tuple[str, Path]
) -> None:
    """Nulls and non-nulls of every column; bounds of every column that has some, save where Parquet keeps none."""
    kind, location = table
    ours = statistics(analyzed(tmp_path, location, engine))
    paths = {f"`{name}`": f"`{name}`" for name in EXPRESSIONS}
    paths |= {"`st`.`x`": "st.x", "`st`.`in`.`y`": "st.in.y"}
    data = spark.read.parquet(str(location))
    for path, column in paths.items():
        nulls, values, *expected = spark_says(
            data, column, bounds=path.strip("`") in BOUNDED or path.startswith("`st`")
        )
        found = ours[path]
        assert (path, found.nulls, found.non_nulls, found.rows) == (path, nulls, values, 60)
        if kind == "INT96" and path == "`moment`":
            # Parquet orders INT96 wrongly, so bounds are those of the data, as widely as zones may move them.
            low, high = (micros(value) for value in (found.min, found.max) if isinstance(value, datetime))
            assert expected[0] - 26 * HOUR <= low <= expected[0]
            assert expected[1] <= high <= expected[1] + 26 * HOUR
            assert (found.min_exact, found.max_exact) == (False, False)
        elif path == "`nan`":
            assert found.max is None or found.max == data.where("not isnan(nan)").agg(f.max("nan")).collect()[0][0]
        else:
            assert (path, plain(found.min), plain(found.max)) == (path, *expected)


def spark_says(data: DataFrame, column: str, *, bounds: bool) -> list[Any]:
    """Nulls, values, minimum and maximum by Spark; timestamps as microseconds, since collect() gives local time."""
    kind = data.select(column).dtypes[0][1]
    shown = f.unix_micros(column) if kind == "timestamp" else f.col(column)
    wanted = [f.min(shown), f.max(shown)] if bounds else [f.lit(None), f.lit(None)]
    row = data.agg(f.count_if(f.col(column).isNull()), f.count(column), *wanted).collect()[0]
    return [plain(value) for value in row]


def plain(value: Any) -> Any:
    """A bound in the form that Spark's answer has."""
    if isinstance(value, bytearray):
        return bytes(value)
    if getattr(value, "tzinfo", None) is not None:
        return round(Decimal(value.timestamp()) * 1_000_000)
    return value


def test_connect_puts_spark_to_work(tmp_path: Path, spark: SparkSession) -> None:
    """However small the work; and closing the metastore leaves the caller's session alone."""
    spark.range(100).write.parquet(str(tmp_path / "data"))
    context = spark.sparkContext
    context.setJobGroup("analyze", "the jobs of one ANALYZE")
    with connect_spark(spark, settings(tmp_path / "metastore")) as session:
        assert session.analyze(tmp_path / "data").rows == 100
    context._jsc.sc().listenerBus().waitUntilEmpty()
    assert len(context.statusTracker().getJobIdsForGroup("analyze")) >= 1
    context.setJobGroup("tests", "everything after")
    assert spark.range(3).count() == 3


@pytest.fixture
def with_a_corrupt_file(tmp_path: Path, spark: SparkSession) -> Path:
    """A table of good files and one that is none."""
    location = tmp_path / "data"
    spark.range(100).repartition(3).write.parquet(str(location))
    (location / "part-bad.parquet").write_bytes(b"PAR1 this is not Parquet")
    return location


def test_a_corrupt_file_is_named_and_nothing_is_written(
    tmp_path: Path, engine: SparkEngine, with_a_corrupt_file: Path
) -> None:
    """The error of the executor reaches the caller of ANALYZE as itself."""
    with connect(settings(tmp_path / "metastore"), engine) as session:
        with pytest.raises(FormatError, match=r"part-bad\.parquet"):
            session.analyze(with_a_corrupt_file)
        assert session.tables.metadata.version == 0


def test_large_tables_are_made_by_executors(tmp_path: Path, engine: SparkEngine) -> None:
    """They list, read, roll up and store; the units are those of the local engine, and no other file is left."""
    location, table = tmp_path / "data", TableInfo("dfs", "tmp", "t")
    for number in range(12):
        folder = location / f"day={number % 6}" / "part"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [number, None]}), folder / f"{number}.parquet")
    on_spark, here = (Metastore.open(settings(tmp_path / name)) for name in ("spark", "local"))
    source = SourceTable(table, str(location))
    results = []
    for touched in (None, location / "day=3" / "part" / "3.parquet"):
        if touched is not None:
            os.utime(touched, (1, 1))
        results.append(analyze(on_spark.tables, source, engine, limits=Limits(surveyed=(2, 0, 0))))
        analyze(here.tables, source, LocalEngine(1))
    found = [(result.new, result.changed, result.segments_written, result.engine) for result in results]
    assert found == [(12, 0, 6, "spark"), (0, 1, 1, "spark")]
    with Session(on_spark) as one, Session(here) as other:
        assert units_of(one) == units_of(other)
    stored = on_spark.tables.read().metadata_types(MetadataType.ALL).partitions()
    named = {path for group in stored.values() for path in group.files.paths}
    by_tasks = {path for path in named if len(Path(path).name.split("-")) == 6}
    assert len(by_tasks) == 6
    assert len(named) == 7
