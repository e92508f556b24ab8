"""Question: the time of rewriting many small files into few.

The files are those that ANALYZE is measured on, about 47 KB each, added to an Iceberg table as they stand; a rewrite
makes four of them. The whole call is timed: planning, reading, writing, the commit. Beside it stands what a Spark user
without procedures would write, a read of the same files, coalesced, and a write, which commits nothing. Engines are
warm. Before each rewrite the table is rolled back, so that all rewrite the same files.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.analyze import Data, spark_session
from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, beside, measure
from metastore.config.settings import Settings
from metastore.engines.engine import Engine, LocalEngine
from metastore.session import Session, connect
from metastore.spark.engine import SparkEngine

QUESTION: Final = "rewrite of data files"
CASE: Final = "small files into four; items are bytes"
ONE_CORE: Final = f"{OURS}, one process"
TWO_CORES: Final = f"{OURS}, two processes"
ON_SPARK: Final = f"{OURS} on Spark, two cores"
COALESCE: Final = "Spark, read, coalesce and write"

FILES: Final = 2_000
_OUTPUT: Final = 4
_ROUNDS_AT_MOST: Final = 3


def run(folder: str, files: int, seed: int, pace: Pace, say: Callable[[str], None]) -> list[Series]:
    """Measure ``files`` files, which are built in ``folder`` and stay there."""
    steady = replace(pace, rounds=min(pace.rounds, _ROUNDS_AT_MOST), patience=math.inf)
    say(f"building {files:,} Parquet files")
    data = Data(os.path.join(folder, "data"), files, seed)
    size = sum(map(os.path.getsize, data.paths))
    with spark_session() as spark, LocalEngine(1) as one, LocalEngine(2) as two:
        engines: dict[str, Engine] = {ONE_CORE: one, TWO_CORES: two, ON_SPARK: SparkEngine(spark)}
        say("adding them to tables")
        lakes = {
            name: Lake.made(os.path.join(folder, f"lake-{number}"), engine, data.paths, size)
            for number, (name, engine) in enumerate(engines.items())
        }
        out = os.path.join(folder, "out")
        contenders = [
            *(Contender(name, Lake.rewrite, lake.rolled_back, Lake.seen) for name, lake in lakes.items()),
            Contender(COALESCE, lambda _: _coalesce(spark, data.paths, out), partial(_removed, out), _seen),
        ]
        say("rewriting")
        try:
            return measure(QUESTION, CASE, files, contenders, steady, items=size)
        finally:
            for lake in lakes.values():
                lake.session.close()


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was promised: near what Spark takes for the same bytes without a table, and faster on two cores than one."""
    return [
        beside(series, QUESTION, FILES, (CASE, ON_SPARK), (CASE, COALESCE), 0.8),
        beside(series, QUESTION, FILES, (CASE, TWO_CORES), (CASE, COALESCE), 0.8),
        beside(series, QUESTION, FILES, (CASE, TWO_CORES), (CASE, ONE_CORE), 1.4),
    ]


@dataclass(frozen=True)
class Lake:
    """A session with a catalog of one table, which holds the small files in snapshot ``small``."""

    session: Session
    small: int
    target_bytes: int

    @classmethod
    def made(cls, folder: str, engine: Engine, paths: Sequence[str], size: int) -> Lake:
        """In ``folder``, over the files at ``paths``."""
        os.makedirs(folder)
        uri = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/lake"}
        location = {"base_path": folder, "relative_path": "metastore"}
        session = connect(
            Settings.from_mapping({"drill.metastore.iceberg.location": location, "drill.metastore.catalogs.lake": uri}),
            engine,
        )
        catalog = session.catalogs.open("lake")
        catalog.create_namespace("default")
        table = catalog.create_table("default.t", pq.read_schema(paths[0]))
        table.add_files(list(paths), check_duplicate_files=False)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        return cls(session, snapshot.snapshot_id, -(-size // _OUTPUT))

    def rolled_back(self) -> Lake:
        """With the small files again."""
        table = self.session.catalogs.open("lake").load_table("default.t")
        with table.manage_snapshots() as snapshots:
            snapshots.set_current_snapshot(self.small)
        return self

    def rewrite(self) -> Lake:
        """The whole call."""
        options = {"target-file-size-bytes": str(self.target_bytes)}
        self.session.procedures.call(
            "lake.system.rewrite_data_files", schema="default", table_name="t", options=options
        )
        return self

    def seen(self) -> object:
        """What the new files hold."""
        table = self.session.catalogs.open("lake").load_table("default.t")
        return _content([task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()])


def _coalesce(spark: SparkSession, paths: Sequence[str], out: str) -> str:
    spark.read.parquet(*paths).coalesce(_OUTPUT).write.option("compression", "zstd").parquet(out)
    return out


def _removed(out: str) -> None:
    shutil.rmtree(out, ignore_errors=True)


def _seen(out: str) -> object:
    return _content([os.path.join(out, name) for name in os.listdir(out) if name.endswith(".parquet")])


def _content(paths: Sequence[str]) -> object:
    """How many rows there are, and the sum of a column; Spark makes fewer files where it read in fewer parts."""
    columns = [pq.read_table(path, columns=["id"], partitioning=None).column("id") for path in paths]
    total = sum(int(pc.sum(pc.bit_wise_and(column, (1 << 31) - 1)).as_py()) for column in columns)
    return sum(map(len, columns)), total
