"""Question: what ``read_table`` costs beside Spark's own reader, which gets the files that pruning leaves.

``python -m benchmarks.pruned_reads --files 10000 --rounds 7`` builds small Parquet files in directories of ten,
analyzes them, and counts the rows of one file, of a tenth of the directories, and of all. Spark gets the one path, the
directories, or the root. It prints medians of CPU, of this process and all below it, and of the clock.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame, SparkSession

from benchmarks.analyze import spark_session
from benchmarks.journeys import cpu_of_all
from benchmarks.scan import FILES_OF_A_DAY, ROWS_OF_A_FILE, bench_settings, write_many_files
from metastore.engines.engine import LocalEngine
from metastore.session import Session, connect
from metastore.spark import read_table

_WARM_UP = 5


def medians(spark: SparkSession, ms: Session, root: str, days: int, rounds: int) -> Iterator[tuple[str, list[float]]]:
    """Yields for each case the medians of CPU and of clock, of ours and of Spark, in seconds."""
    of_a_day = FILES_OF_A_DAY * ROWS_OF_A_FILE
    cases: dict[str, tuple[str | None, Sequence[str]]] = {
        "one file": (f"day = 1 AND n = {of_a_day}", [f"{root}/day=1/0.parquet"]),
        "a tenth": (f"day < {max(1, days // 10)}", [f"{root}/day={day}" for day in range(max(1, days // 10))]),
        "all": (None, [root]),
    }
    for name, (where, paths) in cases.items():

        def by_spark(where: str | None = where, paths: Sequence[str] = paths) -> DataFrame:
            frame = spark.read.option("basePath", root).parquet(*paths)
            return frame if where is None else frame.where(where)

        def ours(where: str | None = where) -> DataFrame:
            return read_table(spark, ms, "dfs.bench.many", where)

        times: list[list[float]] = [[], [], [], []]
        for number in range(_WARM_UP + rounds):
            counts = []
            for place, make in enumerate((ours, by_spark)):
                cpu, clock = cpu_of_all(), time.perf_counter()
                counts.append(make().selectExpr("count(n)", "sum(half)").collect()[0][0])
                if number >= _WARM_UP:
                    times[place].append(cpu_of_all() - cpu)
                    times[2 + place].append(time.perf_counter() - clock)
            assert counts[0] == counts[1], (name, counts)
        yield name, [statistics.median(each) for each in times]


def main() -> None:
    """Build, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.join(folder, "many")
        days = write_many_files(root, given.files)
        with spark_session() as spark, connect(bench_settings(folder), LocalEngine()) as ms:
            ms.analyze("dfs.bench.many")
            print(f"Spark {spark.version}, {given.files:,} files, medians of {given.rounds}, seconds")
            print("case: CPU of read_table, of Spark; clock of read_table, of Spark")
            for name, times in medians(spark, ms, root, days, given.rounds):
                print(f"{name}: " + ", ".join(f"{each:.2f}" for each in times), flush=True)


if __name__ == "__main__":
    main()
