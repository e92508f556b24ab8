"""The engine on Spark that also runs the queries of materialized views: :class:`metastore.views.runner.QueryRunner`.

Place in the flow: a session on Spark has this engine, so that REFRESH finds who runs its queries without knowing Spark.
Sources are read by tasks through Arrow, as every scan on Spark is that must give exactly the metastore's types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from threading import Lock
from typing import Final

from pyspark.sql import DataFrame
from sqlglot import exp

from metastore.errors import EngineError, MetastoreError
from metastore.scan.rows import read_rows
from metastore.scan.scan import Scan
from metastore.spark.engine import SparkEngine
from metastore.spark.read_table import split
from metastore.spark.spark_types import spark_schema
from metastore.spark.views import run
from metastore.views.runner import Source, Written

_SETTINGS: Final = {
    # The default, INT96, has no statistics that anybody trusts.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
}


_WRITING: Final = Lock()
"""Held while the settings of a session are other than its owner's: who came second would take them for the owner's,
and leave them behind; and would write in the owner's time zone when the first one is done."""


class SparkQueryEngine(SparkEngine):
    """Runs tasks and queries on Spark; of several threads that write, one after the other."""

    def write(self, query: exp.Query, sources: Mapping[str, tuple[Source, ...]], target: Written) -> None:
        """As :meth:`metastore.views.runner.QueryRunner.write`: as many files as Spark has partitions for."""
        frames = {name: reduce(DataFrame.union, map(self._frame, parts)) for name, parts in sources.items()}
        with self._settings_for_writing():
            rows = run(self.spark, query, frames)
            try:
                rows.write.mode("append").parquet(_uri(target.location))
            except MetastoreError:
                raise
            except Exception as error:
                said = str(error).partition("\n")[0]
                raise EngineError(f"Spark cannot write {target.location}: {said}") from error

    def _frame(self, source: Source) -> DataFrame:
        if isinstance(source, Written):
            return self.spark.read.parquet(_uri(source.location))
        assert isinstance(source, Scan)
        struct, types = spark_schema(source.chunk.output)
        return self.rows(split(replace(source.chunk, types=types), self.parallelism), read_rows, struct)

    @contextmanager
    def _settings_for_writing(self) -> Iterator[None]:
        with _WRITING:
            before = {key: self.spark.conf.get(key) for key in _SETTINGS}
            try:
                for key, value in _SETTINGS.items():
                    self.spark.conf.set(key, value)
                yield
            finally:
                for key, old in before.items():
                    if old is not None:
                        self.spark.conf.set(key, old)


def _uri(location: str) -> str:
    """A location as Spark takes it, whatever its default file system is."""
    return f"file://{location}" if location.startswith("/") else location
