"""Question: what a scan costs that is planned by the metastore, beside Spark that lists and reads footers.

The table has 10,000 small Parquet files in 1,000 directories ``day=…``, analyzed. Planned is a question that one
percent of the files can answer, and Spark's way stands beside it: a fresh DataFrame over the table's root, which lists
directories and reads a footer as a job does that sees the table for the first time. ``to first task`` is everything up
to a plan whose tasks could start. Then the rows are read: of that question, and of everything, where pruning can only
cost.

Row ids are asked of a table of few large files, 20 million rows of four columns (long, double, int, text), written
nowhere: Spark reads it by its own reader, without ids; and by tasks, without and with them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.analyze import spark_session
from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, beside, measure
from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.session import Session, connect
from metastore.spark import read_table

QUESTION: Final = "scan"
PLAN: Final = "to first task, 1% of the files"
SELECTIVE: Final = "rows of 1% of the files"
EVERYTHING: Final = "all rows, nothing to prune"
ROW_IDS: Final = "20M rows, row ids"

IN_SPARK: Final = f"{OURS}, read_table"
IN_ARROW: Final = f"{OURS}, to_arrow"
WITH_IDS: Final = f"{OURS}, row ids"
BY_TASKS: Final = f"{OURS}, by tasks without ids"
SPARK: Final = "Spark"
ARROW: Final = "Arrow"

FILES: Final = 10_000
ROWS: Final = 20_000_000
FILES_OF_A_DAY: Final = 10
ROWS_OF_A_FILE: Final = 50
_LARGE_FILES: Final = 10
_ROW_GROUP: Final = 1 << 20


def run(folder: str, files: int, rows: int, seed: int, pace: Pace, say: Callable[[str], None]) -> list[Series]:
    """Measure a table of ``files`` files and one of ``rows`` rows, which are built in ``folder`` and stay there."""
    steady = pace.beside_spark
    say(f"building {files:,} Parquet files")
    days = write_many_files(os.path.join(folder, "many"), files)
    say(f"building {rows:,} rows")
    _many_rows(os.path.join(folder, "large"), rows, seed)
    with spark_session() as spark, connect(bench_settings(folder), LocalEngine()) as ms:
        for table in ("many", "large"):
            say(f"ANALYZE of {table}")
            ms.analyze(f"dfs.bench.{table}")
        return [
            *_of_files(spark, ms, os.path.join(folder, "many"), days, steady, say),
            *_of_rows(spark, ms, rows, steady, say),
        ]


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was promised: ten times faster to the first task, nothing lost where nothing prunes, ids at 1.3 times."""
    return [
        beside(series, QUESTION, FILES, (PLAN, IN_SPARK), (PLAN, SPARK), 10),
        beside(series, QUESTION, FILES, (SELECTIVE, IN_SPARK), (SELECTIVE, SPARK), 2),
        beside(series, QUESTION, FILES, (EVERYTHING, IN_SPARK), (EVERYTHING, SPARK), 1 / 1.05),
        beside(series, QUESTION, FILES, (EVERYTHING, IN_ARROW), (EVERYTHING, ARROW), 1 / 1.05),
        beside(series, QUESTION, ROWS, (ROW_IDS, WITH_IDS), (ROW_IDS, SPARK), 1 / 1.3),
    ]


def _of_files(
    spark: SparkSession, ms: Session, root: str, days: int, pace: Pace, say: Callable[[str], None]
) -> list[Series]:
    table, files = "dfs.bench.many", days * FILES_OF_A_DAY
    few = f"day < {max(1, days // 100)}"

    def unpruned(where: str | None) -> DataFrame:
        frame = spark.read.parquet(root)
        return frame if where is None else frame.where(where)

    def in_spark(where: str | None, _: None) -> int:
        return _counted(read_table(spark, ms, table, where))

    def by_spark(where: str | None, _: None) -> int:
        return _counted(unpruned(where))

    def in_arrow(where: str | None, _: None) -> int:
        return ms.tables.scan(table, where).to_arrow().num_rows

    say("planning")
    series = measure(
        QUESTION,
        PLAN,
        files,
        [
            Contender(IN_SPARK, lambda _: _tasks(read_table(spark, ms, table, few))),
            Contender(SPARK, lambda _: _tasks(unpruned(few))),
        ],
        pace,
    )
    for case, where in ((SELECTIVE, few), (EVERYTHING, None)):
        say(case)
        contenders = [
            Contender(IN_SPARK, partial(in_spark, where), answer=int),
            Contender(SPARK, partial(by_spark, where), answer=int),
            Contender(IN_ARROW, partial(in_arrow, where), answer=int),
        ]
        if where is None:
            contenders.append(Contender(ARROW, lambda _: _by_arrow(root), answer=int))
        series += measure(QUESTION, case, files, contenders, pace)
    return series


def _of_rows(spark: SparkSession, ms: Session, rows: int, pace: Pace, say: Callable[[str], None]) -> list[Series]:
    table = "dfs.bench.large"
    frames = {
        SPARK: read_table(spark, ms, table),
        BY_TASKS: read_table(spark, ms, table, exclude=_one_id(ms, table)),
        WITH_IDS: read_table(spark, ms, table, row_id=True),
    }
    say("row ids")
    contenders = [Contender(name, partial(_drained, frame)) for name, frame in frames.items()]
    return measure(QUESTION, ROW_IDS, rows, contenders, pace, items=rows)


def _one_id(ms: Session, table: str) -> list[bytes]:
    """The id of one row: whoever leaves it out is read by tasks."""
    first = next(ms.tables.scan(table, columns=[], row_id=True).to_batches())
    return [first.column(0)[0].as_py()]


def _tasks(frame: DataFrame) -> int:
    """The number of tasks; Spark lists and plans to say it, and starts none of them."""
    return int(frame._jdf.queryExecution().toRdd().getNumPartitions())  # noqa: SLF001 - no other way asks for a plan


def _counted(frame: DataFrame) -> int:
    return int(frame.selectExpr("count(n)", "sum(half)").collect()[0][0])


def _drained(frame: DataFrame, _: None) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _by_arrow(root: str) -> int:
    """All rows with what their directories say, as who knows no metadata would list and read them."""
    return int(ds.dataset(root, format="parquet", partitioning="hive").to_table().num_rows)


def write_many_files(root: str, files: int) -> int:
    """Write ``files`` small Parquet files into directories ``day=…`` of ten below ``root``; returns their number."""
    days = max(1, files // FILES_OF_A_DAY)
    for day in range(days):
        folder = os.path.join(root, f"day={day}")
        os.makedirs(folder)
        for part in range(FILES_OF_A_DAY):
            start = (day * FILES_OF_A_DAY + part) * ROWS_OF_A_FILE
            rows: dict[str, Any] = {
                "n": np.arange(start, start + ROWS_OF_A_FILE),
                "half": np.arange(ROWS_OF_A_FILE) / 2,
            }
            pq.write_table(pa.table(rows), os.path.join(folder, f"{part}.parquet"))
    return days


def _many_rows(root: str, rows: int, seed: int) -> None:
    os.makedirs(root)
    chance = np.random.default_rng(seed)
    each = max(1, rows // _LARGE_FILES)
    for number in range(_LARGE_FILES):
        columns: dict[str, Any] = {
            "id": np.arange(number * each, (number + 1) * each),
            "price": chance.random(each),
            "code": chance.integers(1_000, size=each, dtype=np.int32),
            "note": pa.array(chance.integers(10**6, size=each)).cast(pa.string()),
        }
        pq.write_table(pa.table(columns), os.path.join(root, f"{number}.parquet"), row_group_size=_ROW_GROUP)


def bench_settings(folder: str) -> Settings:
    """Returns settings whose tables ``dfs.bench.…`` are in ``folder``."""
    return Settings.from_mapping(
        {
            "drill.metastore.iceberg.location.base_path": f"{folder}/metastore",
            "drill.metastore.storage.dfs.workspaces.bench.location": folder,
        }
    )
