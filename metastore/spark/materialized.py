"""The engine on Spark that also runs the queries of materialized views: :class:`metastore.views.runner.QueryRunner`.

Place in the flow: a session on Spark has this engine, so that REFRESH finds who runs its queries without knowing Spark.
Sources are read by tasks through Arrow, as every scan on Spark is that must give exactly the metastore's types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame
from sqlglot import exp

from metastore.engine import Capabilities
from metastore.errors import EngineError, MetastoreError
from metastore.scan.rows import read_rows
from metastore.scan.scan import Scan
from metastore.spark.engine import SparkEngine
from metastore.spark.failures import reason_of
from metastore.spark.pinned_settings import pinned
from metastore.spark.spark_types import spark_schema
from metastore.spark.task_parts import split
from metastore.spark.views import run
from metastore.views.runner import Source, Written


class SparkQueryEngine(SparkEngine):
    """Runs tasks and queries on Spark."""

    capabilities = Capabilities(reads_databases=True, runs_queries=True)

    def write(self, query: exp.Query, sources: Mapping[str, tuple[Source, ...]], target: Written) -> None:
        """As :meth:`metastore.views.runner.QueryRunner.write`: as many files as Spark has partitions for."""
        # Other threads ask their own questions of the session meanwhile, under its owner's settings.
        with pinned(self.spark) as spark:
            tasks, engine = self.parallelism, SparkEngine(spark)
            frames = {
                name: reduce(DataFrame.union, [_frame(engine, part, tasks) for part in parts])
                for name, parts in sources.items()
            }
            rows = run(spark, query, frames)
            try:
                rows.write.mode("append").parquet(_uri(target.location))
            except MetastoreError:
                raise
            except Exception as error:
                raise EngineError(f"Spark cannot write {target.location}: {reason_of(error, spark)}") from error


def _frame(engine: SparkEngine, source: Source, tasks: int) -> DataFrame:
    if isinstance(source, Written):
        return engine.spark.read.parquet(_uri(source.location))
    assert isinstance(source, Scan)
    struct, types = spark_schema(source.chunk.output)
    return engine.rows(split(replace(source.chunk, types=types), tasks), read_rows, struct)


def _uri(location: str) -> str:
    """A location as Spark takes it, whatever its default file system is."""
    return f"file://{location}" if location.startswith("/") else location
