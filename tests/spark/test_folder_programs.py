"""Random programs over folders of files: after each write, the rows are those of a folder that plain Spark writes.

``PROGRAMS=200 PROGRAMS_SEED=1000`` runs more of them, and others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from support.dataframe_programs import DDL, TYPES, condition, rows, texts

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session
from metastore.spark import connect, read_table, register, register_source
from metastore.spark.source_options import SETTINGS, settings_option

pytestmark = pytest.mark.spark

SEED: Final = int(os.environ.get("PROGRAMS_SEED", "100"))
PROGRAMS: Final = int(os.environ.get("PROGRAMS", "1"))
PARTITIONINGS: Final = ((), ("s",), ("day",), ("yes", "s"), ("id",), ("s", "day"))
KINDS: Final = ("append", "append", "static", "dynamic", "dynamic")


@pytest.fixture(scope="module")
def ms(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session on Spark, in UTC, with the writable workspace ``dfs.w``."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "lake").mkdir()
    given = {
        "iceberg.location.base_path": f"{folder}/md",
        "storage.dfs.workspaces.w": {"location": f"{folder}/lake", "writable": True},
    }
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    register_source(spark)
    with connect(spark, Settings.from_mapping({"drill.metastore": given}, environ={})) as opened:
        yield opened
    spark.conf.set("spark.sql.session.timeZone", str(zone))


class Program:
    """A folder that this package writes, and one that Spark writes."""

    def __init__(self, spark: SparkSession, ms: Session, seed: int, judge: Path) -> None:
        self.spark, self.ms, self.random, self.judge = spark, ms, Random(seed), str(judge)
        self.settings = {SETTINGS: settings_option(ms.settings)}
        self.name = f"dfs.w.t{seed}"
        self.folder = ms.source(self.name).location
        self.partitions = self.random.choice(PARTITIONINGS)
        self.is_analyzed = False
        self.log = [str(self.partitions)]

    def step(self, *, is_first: bool) -> None:
        """One write into both folders; then their rows are compared."""
        new = rows(self.random)
        while is_first and not new.num_rows:
            new = rows(self.random)
        names = self.random.sample(TYPES.names, k=len(TYPES.names))
        frame = self.spark.createDataFrame(new, DDL).select(*names).repartition(self.random.randint(1, 3))
        kind = self.random.choice(KINDS)
        analyze = self.random.random() < 0.5
        self.log.append(f"{kind} {new.num_rows} rows, analyze {analyze}")
        self.is_analyzed |= analyze
        mode = "append" if kind == "append" else "overwrite"
        options = {"partitionOverwriteMode": kind} if mode == "overwrite" else {}
        theirs = frame.write.mode(mode).options(**options)
        theirs.partitionBy(*self.partitions).parquet(self.judge)
        ours = frame.write.format("metastore").mode(mode).options(**self.settings, **options)
        if is_first or self.random.random() < 0.3:
            ours = ours.option("partitionBy", ",".join(self.partitions))
        ours.option("analyze", str(analyze)).save(self.name)
        self.compare()

    def rows_of(self, folder: str) -> DataFrame:
        """The rows of a folder as plain Spark reads them."""
        return self.spark.read.schema(DDL).parquet(folder)

    def compare(self) -> None:
        """All rows, and those of a condition by one of the doors."""
        right = self.rows_of(self.judge)
        assert texts(arrow(self.rows_of(self.folder))) == texts(arrow(right)), self.log
        if self.partitions and not right.count():
            self.is_analyzed = False  # a folder without files has no columns, here as in Spark
        if not self.is_analyzed:
            return
        where = condition(self.random)
        door = self.random.choice(("sql", "read_table", "register", "engine"))
        self.log.append(f"{door}: {where}")
        try:
            found = self.asked(door, where)
        except InvalidRequestError as error:
            if "when it was analyzed: id is int32" not in str(error):
                raise
            self.ms.analyze(self.name)
            found = self.asked(door, where)
        assert texts(found) == texts(arrow(right.where(where))), self.log

    def asked(self, door: str, where: str) -> pa.Table:
        """The rows that meet ``where`` by a door of this package."""
        match door:
            case "read_table":
                return arrow(read_table(self.spark, self.ms, self.name, where))
            case "register":
                self.ms.analyze(self.name)
                view = register(self.spark, self.ms, self.name)[0]
                return arrow(self.spark.sql(f"SELECT * FROM {view} WHERE {where}"))
            case "engine":
                return typed(self.ms.sql(f"SELECT * FROM {self.name} WHERE {where}", engine="spark"))
            case _:
                return arrow(
                    self.spark.createDataFrame(typed(self.ms.sql(f"SELECT * FROM {self.name}")), DDL).where(where)
                )


def typed(table: pa.Table) -> pa.Table:
    """The columns in the order of :data:`TYPES`, and of its types: directories of numbers may be narrower."""
    return table.select(TYPES.names).cast(TYPES)


def arrow(frame: DataFrame) -> pa.Table:
    """The rows of a DataFrame."""
    return typed(frame.toArrow())


@pytest.mark.parametrize("seed", range(SEED, SEED + PROGRAMS))
def test_a_folder_has_the_rows_of_plain_spark(spark: SparkSession, ms: Session, seed: int, tmp_path: Path) -> None:
    """After each of four writes; a failure shows the program."""
    program = Program(spark, ms, seed, tmp_path / "judge")
    try:
        for number in range(4):
            program.step(is_first=number == 0)
    except Exception as error:
        raise AssertionError("\n".join(map(str, program.log))) from error
