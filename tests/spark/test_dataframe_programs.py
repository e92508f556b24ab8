"""Random programs over DataFrames: writes, merges and reads by every door have the rows of plain Spark.

``PROGRAMS=200 PROGRAMS_SEED=1000`` runs more of them, and others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from random import Random
from typing import Final

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from support.dataframe_programs import (
    DDL,
    PARTITIONINGS,
    TYPES,
    clauses,
    condition,
    rows,
    rows_of_merge,
    texts,
    with_own_ids,
)

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session
from metastore.spark import connect, merge, read_table, register, register_source
from metastore.spark.source_options import SETTINGS, settings_option

pytestmark = pytest.mark.spark

SEED: Final = int(os.environ.get("PROGRAMS_SEED", "1"))
PROGRAMS: Final = int(os.environ.get("PROGRAMS", "1"))
COLUMNS: Final = (
    "id BIGINT, s VARCHAR, f FLOAT, d DOUBLE, dec DECIMAL(9, 2), day DATE, tz TIMESTAMPTZ, ntz TIMESTAMP, yes BOOLEAN, "
    "x VARBINARY, st STRUCT(a INTEGER, b VARCHAR), l ARRAY(DOUBLE), m MAP(VARCHAR, INTEGER)"
)
ONS: Final = ("target.id = source.id", "target.id <=> source.id", "target.id = source.id AND target.yes")
KINDS: Final = ("append", "append", "static", "dynamic", "replace", "replace", "merge", "merge")
DYNAMIC: Final = "SELECT * FROM {old} o WHERE NOT EXISTS (SELECT 1 FROM {new} n WHERE n.key <=> o.key)"
INEXACT: Final = "Arrow, which cannot express"
"""What the option ``where`` says of a condition that only an engine can judge."""


@pytest.fixture(scope="module")
def ms(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session on Spark, in UTC, with the empty schema ``lake.db``."""
    folder = tmp_path_factory.mktemp("programs")
    lake = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/wh"}
    given = {"iceberg.location.base_path": f"{folder}/md", "catalogs.lake": lake}
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    register_source(spark)
    with connect(spark, Settings.from_mapping({"drill.metastore": given}, environ={})) as opened:
        opened.sql("CREATE SCHEMA lake.db")
        yield opened
    spark.conf.set("spark.sql.session.timeZone", str(zone))


class Program:
    """A table, and the rows that plain Spark has for each of its branches."""

    def __init__(self, spark: SparkSession, ms: Session, seed: int) -> None:
        self.spark, self.ms, self.random = spark, ms, Random(seed)
        self.settings = {SETTINGS: settings_option(ms.settings)}
        self.name = f"db.t{seed}"
        self.partitions = self.random.choice(list(PARTITIONINGS))
        version, mode = self.random.choice([1, 2, 3]), self.random.choice(["copy-on-write", "merge-on-read"])
        clause = f"PARTITIONED BY ({self.partitions})" if self.partitions else ""
        modes = ", ".join(f"'write.{kind}.mode' = '{mode}'" for kind in ("delete", "update", "merge"))
        ms.sql(
            f"CREATE TABLE lake.{self.name} ({COLUMNS}) {clause} TBLPROPERTIES ('format-version' = {version}, {modes})"
        )
        self.branches: dict[str, pa.Table] = {"main": TYPES.empty_table()}
        self.log = [f"{clause} version {version} {mode}"]

    def frame(self, table: pa.Table) -> DataFrame:
        """The rows in Spark, without the metastore."""
        return self.spark.createDataFrame(table, DDL)

    def arrow(self, frame: DataFrame) -> pa.Table:
        """The rows of a DataFrame in the order of the table's columns."""
        return frame.select(*TYPES.names).toArrow().cast(TYPES)

    def new_rows(self, where: str) -> DataFrame:
        """Rows, mostly those that meet ``where``, with their columns in any order, in one to three tasks."""
        given = self.frame(rows(self.random))
        if where and self.random.random() < 0.7:
            given = self.frame(self.arrow(given.where(where)))
        names = self.random.sample(TYPES.names, k=len(TYPES.names))
        return given.select(*names).repartition(self.random.randint(1, 3))

    def step(self) -> None:
        """One change of a branch, by our door and by plain Spark; then all rows are compared."""
        branch = self.random.choice([*self.branches, "main", f"b{len(self.branches)}"])
        before = self.frame(self.branches.get(branch, self.branches["main"]))
        kind = self.random.choice(KINDS)
        if kind == "merge":
            self.merge(branch, before)
            return
        where = condition(self.random) if kind == "replace" else ""
        new, key = self.new_rows(where), PARTITIONINGS[self.partitions]
        self.log.append(f"{kind} {branch} {where!r}")
        options = {} if branch == "main" else {"branch": branch}
        match kind:
            case "append":
                after = before.unionByName(new)
            case "static":
                after = new
            case "replace":
                after = before.where(f"NOT coalesce({where}, FALSE)").unionByName(new)
                options["replaceWhere"] = where
            case _:
                if not key:
                    return
                keyed = new.selectExpr(f"{key} AS key")
                kept = self.spark.sql(DYNAMIC, old=before.selectExpr("*", f"{key} AS key"), new=keyed).drop("key")
                after = kept.unionByName(new)
                options["partitionOverwriteMode"] = "dynamic"
        expected = self.arrow(after)
        writer = new.write.format("metastore").mode("append" if kind == "append" else "overwrite")
        try:
            writer.options(**self.settings, **options).save(f"lake.{self.name}")
        except AnalysisException as error:
            if "do not meet replaceWhere" not in str(error):
                raise
            self.log.append("refused")
        is_refused = self.log[-1] == "refused"
        assert is_refused == bool(kind == "replace" and new.where(f"NOT coalesce({where}, FALSE)").count())
        if is_refused:
            return
        self.compare(branch, expected)

    def merge(self, branch: str, before: DataFrame) -> None:
        """One MERGE, whose source has each id once."""
        source = self.frame(with_own_ids(self.random, rows(self.random)))
        on, given = self.random.choice(ONS), clauses(self.random)
        self.log.append(f"merge {branch} ON {on} " + " ".join(clause.text for clause in given))
        expected = self.arrow(rows_of_merge(before, source, on, given))
        merge(self.ms, source, f"lake.{self.name}", on, *(clause.text for clause in given), branch=branch)
        self.compare(branch, expected)

    def compare(self, branch: str, expected: pa.Table) -> None:
        """All rows of the branch, and those of a condition by one of the doors to ``main``."""
        refs = self.ms.catalogs.open("lake").load_table(self.name).metadata.refs
        if branch not in refs and branch != "main":
            assert texts(expected) == texts(self.branches["main"]), self.log  # nothing changed, so there is no branch
            return
        self.branches[branch] = expected
        schema, _, table = self.name.partition(".")
        found = self.ms.sql(
            f'SELECT * FROM lake.{schema}."{table}@{branch}"' if branch in refs else self.select("TRUE")
        )
        assert texts(found) == texts(expected), self.log
        where = condition(self.random)
        names = self.random.sample(TYPES.names, k=self.random.randint(1, len(TYPES.names)))
        door = self.random.choice(list(DOORS))
        self.log.append(f"{door}: {where} {names}")
        right = self.frame(self.branches["main"]).where(where).select(*names).toArrow()
        try:
            answer = DOORS[door](self, where).select(*names).toArrow()
        except (AnalysisException, InvalidRequestError) as error:
            if INEXACT not in str(error):
                raise
            return
        assert texts(answer) == texts(right), self.log

    def select(self, where: str) -> str:
        """A query of the table."""
        return f"SELECT * FROM lake.{self.name} WHERE {where}"

    def load(self, **options: str) -> DataFrame:
        """The table by its data source."""
        return self.spark.read.format("metastore").options(**self.settings, **options).load(f"lake.{self.name}")

    def view(self) -> str:
        """A view of the table by its name."""
        return register(self.spark, self.ms, f"lake.{self.name}")[0]


DOORS: Final[dict[str, Callable[[Program, str], DataFrame]]] = {
    "read_table": lambda own, where: read_table(own.spark, own.ms, f"lake.{own.name}", where),
    "read_table, where": lambda own, where: read_table(own.spark, own.ms, f"lake.{own.name}").where(where),
    "load, where": lambda own, where: own.load().where(where),
    "option where": lambda own, where: own.load(where=where),
    "register": lambda own, where: own.spark.sql(f"SELECT * FROM {own.view()} WHERE {where}"),
    "engine": lambda own, where: own.frame(own.ms.sql(own.select(where), engine="spark").cast(TYPES)),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(SEED, SEED + PROGRAMS))
def test_a_table_has_the_rows_of_plain_spark(spark: SparkSession, ms: Session, seed: int) -> None:
    """After each of four steps; a failure shows the program."""
    program = Program(spark, ms, seed)
    try:
        for _ in range(4):
            program.step()
    except Exception as error:
        raise AssertionError("\n".join(map(str, program.log))) from error
