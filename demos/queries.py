"""One query in Spark, run in two ways: over the whole table, and over the files that pruning kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any, Final

from metastore.scan.pruning.result import PruneResult
from metastore.session import Session
from metastore.spark import read_files, spark_session

ROUNDS: Final = 5


@dataclass(frozen=True)
class AskedQuery:
    """Spark's result, its numbers of opened files and read rows, and the median time of some runs in seconds."""

    answer: Sequence[tuple[Any, ...]]
    files: int
    rows: int
    seconds: float


def over_everything(location: str, where: str) -> AskedQuery:
    """Run Spark alone: it lists the table, and prunes by directory names and footers by itself."""
    return _measured(lambda: spark_session().read.parquet(location).where(where))


def over_pruned(session: Session, table: str, where: str) -> AskedQuery:
    """Choose the files with the metastore, then read them with Spark; the time includes both."""
    location = session.source(table).location

    def frame() -> Any:
        result: PruneResult = session.prune(table, where)
        return read_files(spark_session(), location, None, [file.path for file in result.files]).where(where)

    return _measured(frame)


def _measured(frame: Callable[[], Any]) -> AskedQuery:
    asked = frame()
    rows = asked.collect()  # compiles the query and warms the caches, in both ways
    times = []
    for _ in range(ROUNDS):
        began = perf_counter()
        frame().collect()
        times.append(perf_counter() - began)
    files, read = _scanned(asked)
    return AskedQuery(
        sorted(tuple(row[name] for name in sorted(asked.columns)) for row in rows), files, read, median(times)
    )


def _scanned(frame: Any) -> tuple[int, int]:
    """Returns the numbers of read files and rows for ``frame``, which was collected, from Spark's counters."""
    scan = frame._jdf.queryExecution().executedPlan().collectLeaves().head()  # noqa: SLF001 - PySpark shows no counters
    metrics = scan.metrics()
    return metrics.apply("numFiles").value(), metrics.apply("numOutputRows").value()
