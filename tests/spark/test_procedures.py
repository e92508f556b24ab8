"""A distributed procedure called in SQL from a Spark job: its tasks run on that job's executors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from metastore.config import Settings
from metastore.procedures import Argument, CallContext, Plan, TableImportDistributedProcedure, columns
from metastore.spark import connect

FRAGMENT = columns(number=pa.int64(), process=pa.int64())

pytestmark = pytest.mark.spark


class Squares(TableImportDistributedProcedure[int]):
    """Squares the numbers below ``count``, each in a task."""

    def create_context(self, call: CallContext, arguments: Mapping[str, Any]) -> int:
        """How many."""
        assert call.engine(0).name == "spark"
        return int(arguments["count"])

    def begin(self, context: int) -> Plan:
        """One work item a number."""

        def task(number: int) -> Iterator[pa.RecordBatch]:
            row = {"number": number * number, "process": os.getpid()}
            yield pa.RecordBatch.from_pylist([row], schema=pa.schema([("number", pa.int64()), ("process", pa.int64())]))

        return Plan(range(context), task, FRAGMENT)

    def finish(self, context: int, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> dict[str, Any]:
        """Their sum, and in how many processes other than this one they were made."""
        rows = [row for batch in fragments for row in batch.to_pylist()]
        return {"sum": sum(row["number"] for row in rows), "away": sum(row["process"] != os.getpid() for row in rows)}

    def abort(self, context: int, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> None:
        """Nothing was written."""


def test_tasks_run_on_the_jobs_executors(spark: SparkSession, tmp_path: Path) -> None:
    """None of them in the driver; progress reaches the end, and the job's session goes on."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"{tmp_path}/lake"}
    given = {"drill.metastore": {"iceberg.location.base_path": str(tmp_path), "catalogs.lake": lake}}
    arguments = (Argument("schema"), Argument("table_name"), Argument("count", "INTEGER"))
    procedure = Squares("system", "squares", arguments, result=columns(sum=pa.int64(), away=pa.int64()))
    seen: list[tuple[int, int]] = []
    with connect(spark, Settings.from_mapping(given, environ={})) as session:
        session.procedures.register("lake", procedure)
        rows = session.sql("CALL lake.system.squares('db', 't', 5)", lambda done, total: seen.append((done, total)))
    assert rows.to_pylist() == [{"sum": 30, "away": 5}]
    assert seen[-1] == (5, 5)
    assert spark.range(3).count() == 3


def test_a_changelog_is_a_view_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Its rows are read by Spark's tasks, in Spark's types; a second call takes its place."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"{tmp_path}/lake"}
    given = {"drill.metastore": {"iceberg.location.base_path": str(tmp_path), "catalogs.lake": lake}}
    with connect(spark, Settings.from_mapping(given, environ={})) as session:
        for statement in (
            "CREATE SCHEMA lake.db",
            "CREATE TABLE lake.db.t (id BIGINT, at TIME, tags ARRAY(VARCHAR))",
            "INSERT INTO lake.db.t VALUES (1, TIME '10:00:00', ['a']), (2, NULL, NULL)",
            "UPDATE lake.db.t SET at = TIME '11:00:00' WHERE id = 1",
        ):
            session.sql(statement)
        call = "CALL lake.system.create_changelog_view(table => 'db.t', changelog_view => 'seen'{})"
        session.sql(call.format(""))
        query = (
            "SELECT id, at, tags, _change_type, _change_ordinal FROM seen ORDER BY _change_ordinal, id, _change_type"
        )
        inserted = [(1, "10:00:00.000000", ["a"], "INSERT", 0), (2, None, None, "INSERT", 0)]
        replaced = [(1, "10:00:00.000000", ["a"], "DELETE", 1), (1, "11:00:00.000000", ["a"], "INSERT", 1)]
        assert [tuple(row) for row in spark.sql(query).collect()] == inserted + replaced
        session.sql(call.format(", net_changes => true"))
        assert [tuple(row) for row in spark.sql(query).collect()] == [inserted[1], replaced[1]]
    spark.catalog.dropTempView("seen")
