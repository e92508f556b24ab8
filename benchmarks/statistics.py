"""Question: the time of COMPUTE STATISTICS, and of ANALYZE over few large files.

A table of Parquet files with four columns: numbers that are all different, doubles, a few thousand integers, and a few
hundred texts. Ours finds exact bounds and counts, distinct values, widths and histograms of every column; beside it
stands Spark's ``ANALYZE TABLE … FOR ALL COLUMNS``, which finds bounds, counts, distinct values and widths, on as many
cores in the same process. Engines are warm: each contender runs once before its times count.

Then bounds from data: ANALYZE of files whose times are INT96, without bounds in their footers, beside Spark's ``min``,
``max`` and ``count`` of that column.

Then a table of twelve files without statistics, as in Drill's own documentation: ANALYZE of its footers once a session
is open, and again when nothing has changed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.analyze import spark_session
from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, beside, measure
from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.engines.engine import Engine, LocalEngine
from metastore.ground.epoch import EPOCH_UTC
from metastore.model.statistics import ColumnStatistics, Value
from metastore.model.vocabulary import MetadataType
from metastore.session import Session
from metastore.spark.engine import SparkEngine

QUESTION: Final = "COMPUTE STATISTICS"
ALL_COLUMNS: Final = "distinct values and bounds of four columns"
BOUNDS: Final = "bounds of INT96 times, from data"
FEW_FILES: Final = "twelve large files, footers"
UNCHANGED: Final = "twelve large files, nothing changed"

ON_SPARK: Final = f"{OURS} on Spark, two cores"
SPARKS: Final = "Spark ANALYZE TABLE FOR ALL COLUMNS"
AGGREGATE: Final = "Spark min, max and count"

ROWS: Final = 20_000_000
_TIMES: Final = 3
_MARGIN: Final = 26 * 3600 * 1_000_000
"""Microseconds by which bounds of INT96 are wider than the values: engines read them in different time zones."""
_FILES: Final = 10
_FEW_FILES: Final = 12
_GROUP: Final = 1 << 20
_PROMISED: Final = 5
_FULL_SECONDS, _UNCHANGED_SECONDS = 2.0, 0.3


def run(folder: str, rows: int, seed: int, pace: Pace, say: Callable[[str], None]) -> list[Series]:
    """Measure a table of ``rows`` rows, and one of 0.6 times as many; both are built in ``folder`` and stay there."""
    say(f"building {rows:,} rows")
    large = _written(os.path.join(folder, "large"), rows, _FILES, seed)
    few = _written(os.path.join(folder, "few"), rows * 3 // 5, _FEW_FILES, seed + 1)
    with spark_session() as spark, LocalEngine() as local:
        spark.sql("DROP TABLE IF EXISTS described")
        spark.sql(f"CREATE TABLE described USING parquet LOCATION '{large}'")
        ours = Target(local, large, os.path.join(folder, "ours"), statistics=True)
        on_spark = Target(SparkEngine(spark), large, os.path.join(folder, "on_spark"), statistics=True)
        say("COMPUTE STATISTICS")
        contenders = [
            Contender(OURS, Target.analyze, ours.emptied, Target.seen),
            Contender(ON_SPARK, Target.analyze, on_spark.emptied, Target.seen),
            Contender(SPARKS, lambda _: _sparks(spark), answer=lambda _: _seen_by_spark(spark)),
        ]
        steady = pace.beside_spark
        series = measure(QUESTION, ALL_COLUMNS, rows, contenders, steady, items=rows)
        spark.sql("DROP TABLE described")
        say("bounds from data")
        times = _times_written(os.path.join(folder, "times"), rows // 2, seed + 2)
        timed = Target(local, times, os.path.join(folder, "timed"), statistics=False, bounds=("at",))
        both = [
            Contender(OURS, Target.analyze, timed.emptied, Target.times),
            Contender(AGGREGATE, lambda _: _times_by_spark(spark, times), answer=lambda found: found),
        ]
        series += measure(QUESTION, BOUNDS, rows, both, steady, items=rows // 2)
        timed.close()
        plain = Target(local, few, os.path.join(folder, "plain"), statistics=False)
        say("ANALYZE of twelve files")
        again = [Contender(OURS, Target.analyze, plain.emptied)]
        series += measure(QUESTION, FEW_FILES, rows, again, pace, items=_FEW_FILES)
        series += measure(QUESTION, UNCHANGED, rows, [Contender(OURS, Target.analyze, lambda: plain)], pace)
        plain.close()
        for target in (ours, on_spark):
            target.close()
    return series


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was promised: five times Spark's own statistics, three times its bounds, and footers in no time."""
    return [
        beside(series, QUESTION, ROWS, (ALL_COLUMNS, OURS), (ALL_COLUMNS, SPARKS), _PROMISED),
        beside(series, QUESTION, ROWS, (ALL_COLUMNS, ON_SPARK), (ALL_COLUMNS, SPARKS), _PROMISED),
        beside(series, QUESTION, ROWS, (BOUNDS, OURS), (BOUNDS, AGGREGATE), _TIMES),
        _within(series, FEW_FILES, _FULL_SECONDS),
        _within(series, UNCHANGED, _UNCHANGED_SECONDS),
    ]


def _within(series: Sequence[Series], case: str, seconds: float) -> Verdict:
    says = f"{case}: {OURS} within {seconds:g} s"
    found = [one.median for one in series if (one.question, one.case, one.size) == (QUESTION, case, ROWS)]
    return Verdict(QUESTION, says, found[0] if found else None, found[0] <= seconds if found else None)


@dataclass(frozen=True)
class Seen:
    """What a way of measuring found: bounds of the numbers, and whether they were seen to be all different."""

    lowest: int
    highest: int
    about_all_different: bool


@dataclass
class Target:
    """A metastore of its own for the table at ``root``, in a session that stays open."""

    engine: Engine
    root: str
    folder: str
    statistics: bool
    bounds: Sequence[str] | None = None

    @cached_property
    def _session(self) -> Session:
        location = {"base_path": self.folder, "relative_path": "metastore"}
        settings = Settings.from_mapping({"drill": {"metastore": {"iceberg": {"location": location}}}})
        return Session(Metastore.open(settings), self.engine)

    def emptied(self) -> Target:
        """An empty metastore and an open session."""
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._session  # noqa: B018 - opened now, before the clock runs
        return self

    def close(self) -> None:
        """Close the session; the next use opens another one."""
        if opened := self.__dict__.pop("_session", None):
            opened.close()

    def analyze(self) -> Target:
        """The whole of an ANALYZE."""
        self._session.analyze(self.root, statistics=self.statistics, bounds=self.bounds)
        return self

    def seen(self) -> Seen:
        """What the metastore says now."""
        [unit] = self._session.tables.read().metadata_types(MetadataType.TABLE).to_arrow().to_pylist()
        text = dict(unit["columnsStatistics"])["`id`"]
        known = ColumnStatistics.from_json(text)
        assert isinstance(known.min, int)
        assert isinstance(known.max, int)
        holders = {each["statisticsKind"]["name"]: each["statisticsValue"] for each in json.loads(text)["statistics"]}
        distinct = holders["approx_count_distinct"]
        return Seen(known.min, known.max, _about(distinct, known.max - known.min + 1))

    def times(self) -> tuple[int, int]:
        """The bounds of the times, in microseconds."""
        [unit] = self._session.tables.read().metadata_types(MetadataType.TABLE).to_arrow().to_pylist()
        known = ColumnStatistics.from_json(dict(unit["columnsStatistics"])["`at`"])
        return _micros(known.min), _micros(known.max)


def _micros(moment: Value | None) -> int:
    assert isinstance(moment, datetime)
    return (moment.replace(tzinfo=timezone.utc) - EPOCH_UTC) // timedelta(microseconds=1)


def _about(distinct: float, expected: int) -> bool:
    return abs(distinct - expected) < 0.2 * expected


def _written(folder: str, rows: int, files: int, seed: int) -> str:
    os.makedirs(folder)
    chance = np.random.default_rng(seed)
    each = max(1, rows // files)
    names = np.array([f"customer {number}" for number in range(500)])
    for number in range(files):
        columns: dict[str, Any] = {
            "id": chance.permutation(np.arange(number * each, (number + 1) * each)),
            "price": chance.random(each) * 1_000,
            "product": chance.integers(5_000, size=each, dtype=np.int32),
            "customer": pa.array(names[chance.integers(len(names), size=each)]),
        }
        pq.write_table(pa.table(columns), os.path.join(folder, f"part-{number:02d}.parquet"), row_group_size=_GROUP)
    return folder


def _times_written(folder: str, rows: int, seed: int) -> str:
    """Twenty files whose times are INT96, as Spark writes them, beside two other columns."""
    os.makedirs(folder)
    chance, each = np.random.default_rng(seed), max(1, rows // 20)
    for number in range(20):
        moments = pa.array(1_700_000_000_000_000 + chance.integers(0, 10**13, each), pa.int64()).cast(
            pa.timestamp("us")
        )
        columns: dict[str, Any] = {
            "at": moments,
            "product": chance.integers(5_000, size=each),
            "price": chance.random(each),
        }
        path = os.path.join(folder, f"part-{number:02d}.parquet")
        pq.write_table(pa.table(columns), path, row_group_size=_GROUP, use_deprecated_int96_timestamps=True)
    return folder


def _times_by_spark(spark: SparkSession, folder: str) -> tuple[int, int]:
    wanted = ("unix_micros(min(at))", "unix_micros(max(at))", "count(at)")
    [row] = spark.read.parquet(folder).selectExpr(*wanted).collect()
    return row[0] - _MARGIN, row[1] + _MARGIN


def _sparks(spark: SparkSession) -> None:
    spark.sql("ANALYZE TABLE described COMPUTE STATISTICS FOR ALL COLUMNS").collect()


def _seen_by_spark(spark: SparkSession) -> Seen:
    told = {row["info_name"]: row["info_value"] for row in spark.sql("DESCRIBE EXTENDED described id").collect()}
    lowest, highest = int(told["min"]), int(told["max"])
    return Seen(lowest, highest, _about(float(told["distinct_count"]), highest - lowest + 1))
