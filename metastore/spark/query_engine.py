"""The engine on Spark that also runs the queries of materialized views.

It is a :class:`metastore.sql.views.runner.QueryRunner` and a :class:`metastore.sql.target.QueryEngine`. Place in the
flow: a session on Spark has this engine, so REFRESH and statements run their queries on Spark without importing it.
For REFRESH, tasks read the sources through Arrow, as in every scan on Spark that must return exactly the metastore's
types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from metastore.engines.engine import Capabilities, Chunk
from metastore.errors import EngineError, MetastoreError
from metastore.scan.rows import read_rows
from metastore.scan.scan import Scan
from metastore.scan.task_parts import split
from metastore.session import Session
from metastore.spark.engine import SparkEngine
from metastore.spark.failures import reason_of
from metastore.spark.locations import spark_location
from metastore.spark.pinned_settings import pin_settings
from metastore.spark.query import select
from metastore.spark.spark_rows import SparkRows, frame_of_tasks, merged_rows
from metastore.spark.spark_types import spark_schema
from metastore.spark.views import run
from metastore.sql.target import QueriedRows, ReadRows, StatementTarget
from metastore.sql.views.runner import Source, WrittenFolder


class SparkQueryEngine(SparkEngine):
    """Runs tasks and queries on Spark."""

    capabilities = Capabilities(reads_databases=True, runs_queries=True, makes_views=True, runs_statements=True)

    def write(self, query: exp.Query, sources: Mapping[str, tuple[Source, ...]], target: WrittenFolder) -> None:
        """As :meth:`metastore.sql.views.runner.QueryRunner.write`; writes one file for each of Spark's partitions."""
        # Other threads use the session meanwhile, under its owner's settings.
        with pin_settings(self.spark) as spark:
            tasks, engine = self.parallelism, SparkEngine(spark)
            frames = {
                name: reduce(DataFrame.union, [_frame(engine, part, tasks) for part in parts])
                for name, parts in sources.items()
            }
            rows = run(spark, query, frames)
            try:
                rows.write.mode("append").parquet(_uri(spark, target.location))
            except MetastoreError:
                raise
            except Exception as error:
                raise EngineError(f"Spark cannot write {target.location}: {reason_of(error, spark)}") from error

    def query_rows(self, session: StatementTarget, text: str) -> SparkRows:
        """As :meth:`metastore.sql.target.QueryEngine.query_rows`."""
        return SparkRows(self, select(self.spark, cast("Session", session), text))

    def merge_rows(self, table: ReadRows, source: QueriedRows, text: str) -> SparkRows:
        """As :meth:`metastore.sql.target.QueryEngine.merge_rows`."""
        return merged_rows(self, table, source, text)

    def make_view(
        self, name: str, chunks: Sequence[Chunk], task: Callable[[Chunk], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> None:
        """As ``ViewEngine.make_view``; each chunk is a task, and nothing runs before a query."""
        frame_of_tasks(self, chunks, task, schema).createOrReplaceTempView(name)


def _frame(engine: SparkEngine, source: Source, tasks: int) -> DataFrame:
    if isinstance(source, WrittenFolder):
        return engine.spark.read.parquet(_uri(engine.spark, source.location))
    assert isinstance(source, Scan)
    struct, types = spark_schema(source.chunk.output)
    return engine.rows(split(replace(source.chunk, types=types), tasks), read_rows, struct)


def _uri(spark: SparkSession, location: str) -> str:
    """Returns the location as a URI that does not depend on the default file system.

    Spark itself reports what it cannot open.
    """
    return f"file://{location}" if location.startswith("/") else spark_location(spark, location) or location
