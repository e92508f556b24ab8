"""Question: the time of ANALYZE over many small Parquet files.

The table has 2,000 files of about 47 KB in 20 Hive-style directories, each file with two row groups and ten columns.
The whole of an ANALYZE is timed: listing, footers, statistics of row groups, files, segments and table, and the commit
into an empty metastore. Beside it stand the least that anyone can do in Python, reading all footers and taking their
minimum, maximum and null count in one process, with the paths given; and what a Spark user without a metastore would
write, an aggregate for each file. Engines are warm: Spark runs, helper processes have been started.

ANALYZE of files that it knows already is another question: :mod:`benchmarks.increments`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, beside, measure
from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.engines.engine import Engine, LocalEngine
from metastore.model.statistics import ColumnStatistics
from metastore.model.vocabulary import MetadataType
from metastore.session import Session
from metastore.spark.engine import SparkEngine
from metastore.spark.session import active_session, start_session

QUESTION: Final = "ANALYZE"
FULL: Final = "all files, into an empty metastore"

ONE_PROCESS: Final = f"{OURS}, one process"
ON_SPARK: Final = f"{OURS} on Spark, two cores"
BARE: Final = "pyarrow, bare footers, one process"
AGGREGATE: Final = "Spark SQL aggregate"
TUNED: Final = "Spark SQL aggregate, few large tasks"

FILES: Final = 2_000
DIRECTORIES: Final = 20
_FIRST_DAY: Final = np.datetime64("2024-01-01")
_ROWS: Final = 740
_SPARK: Final = {"spark.master": "local[2]"}
_TUNING: Final = {"spark.sql.files.openCostInBytes": "65536", "spark.sql.shuffle.partitions": "2"}


def run(folder: str, files: int, seed: int, pace: Pace, say: Callable[[str], None]) -> list[Series]:
    """Measure a table of ``files`` files, which is built in ``folder`` and stays there."""
    steady = pace.beside_spark
    say(f"building {files:,} Parquet files")
    data = Data(os.path.join(folder, "data"), files, seed)
    with spark_session() as spark, LocalEngine() as local, LocalEngine(1) as alone:
        engines: dict[str, Engine] = {OURS: local, ONE_PROCESS: alone, ON_SPARK: SparkEngine(spark)}
        targets = {
            name: Target(engine, data, os.path.join(folder, str(number)))
            for number, (name, engine) in enumerate(engines.items())
        }
        full = [
            *(Contender(name, Target.analyze, target.emptied, Target.seen) for name, target in targets.items()),
            Contender(BARE, lambda _: footers_of(data.paths), answer=lambda found: found),
            Contender(AGGREGATE, lambda _: _aggregate(spark, data.root), answer=_seen_by_spark),
            Contender(TUNED, lambda _: _tuned(spark, data.root), answer=_seen_by_spark),
        ]
        say("ANALYZE of all files")
        return measure(QUESTION, FULL, files, full, steady, items=files)


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was promised: near bare footers, far ahead of an aggregate."""
    return [
        beside(series, QUESTION, FILES, (FULL, OURS), (FULL, BARE), 0.8),
        beside(series, QUESTION, FILES, (FULL, ON_SPARK), (FULL, BARE), 0.6),
        beside(series, QUESTION, FILES, (FULL, OURS), (FULL, AGGREGATE), 5),
        beside(series, QUESTION, FILES, (FULL, ON_SPARK), (FULL, AGGREGATE), 5),
        beside(series, QUESTION, FILES, (FULL, ON_SPARK), (FULL, TUNED), 5),
    ]


class Data:
    """The Parquet files, written when this is made. Equal seeds make equal files."""

    def __init__(self, root: str, files: int, seed: int, directories: int = DIRECTORIES) -> None:
        self.root = root
        self._seed = seed
        each = max(1, files // directories)
        days = [_FIRST_DAY + np.timedelta64(number // each, "D") for number in range(files)]
        self.paths = [
            os.path.join(root, f"day={day}", f"part-{number % each:05d}.parquet") for number, day in enumerate(days)
        ]
        for directory in dict.fromkeys(map(os.path.dirname, self.paths)):
            os.makedirs(directory)
        self.write(self.paths, 0)

    def write(self, paths: Sequence[str], edition: int) -> None:
        """Write these files; each edition has contents of its own."""
        chance = np.random.default_rng((self._seed, edition))
        for path in paths:
            pq.write_table(_rows(chance), path, row_group_size=_ROWS // 2)


@dataclass(frozen=True)
class Seen:
    """What a way of measuring found of one column, ``id``: in how many files, and its bounds over all of them."""

    files: int
    lowest: int
    highest: int


@dataclass
class Target:
    """A metastore of its own that is to hold the metadata of ``data``, and the session that fills it.

    Targets that share their data write its editions in the same order, so that after as many changes all see the same.
    With ``stays_open`` the session that filled an empty metastore goes on to be used.
    """

    engine: Engine
    data: Data
    folder: str
    stays_open: bool = False
    edition: int = 0
    _session: Session | None = None

    def emptied(self) -> Target:
        """An empty metastore."""
        self.close()
        self._settings  # noqa: B018 - read now, and once
        shutil.rmtree(self.folder, ignore_errors=True)
        return self

    def changed(self, paths: Sequence[str]) -> Target:
        """A metastore that knew all files until those at ``paths`` were written anew."""
        self.analyze()
        self.edition += 1
        self.data.write(paths, self.edition)
        return self

    def analyze(self) -> Target:
        """The whole of an ANALYZE by a new session; the engine stays. Reading the configuration is not timed."""
        self._session = self._session or Session(self._open(), self.engine)
        self._session.analyze(self.data.root)
        if not self.stays_open:
            self.close()
        return self

    def close(self) -> None:
        """Close the session, if one is open."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def seen(self) -> Seen:
        """What the metastore says now."""
        with self._open() as metastore:
            units = metastore.tables.read().metadata_types(MetadataType.FILE).columns("columnsStatistics").execute()
        found = [ColumnStatistics.from_json((unit.columns_statistics or {})["`id`"]) for unit in units]
        lows = [one.min for one in found if isinstance(one.min, int)]
        highs = [one.max for one in found if isinstance(one.max, int)]
        return Seen(len(found), min(lows), max(highs))

    def _open(self) -> Metastore:
        return Metastore.open(self._settings)

    @cached_property
    def _settings(self) -> Settings:
        location = {"base_path": self.folder, "relative_path": "metastore"}
        return Settings.from_mapping({"drill": {"metastore": {"iceberg": {"location": location}}}})


def _rows(chance: np.random.Generator) -> pa.Table:
    start = int(chance.integers(10**12))
    names = np.array(["north", "south", "east", "west", "centre"])
    columns: dict[str, Any] = {
        "id": np.arange(start, start + _ROWS),
        "customer": chance.integers(10**9, size=_ROWS),
        "product": chance.integers(10**5, size=_ROWS, dtype=np.int32),
        "quantity": pa.array(chance.integers(100, size=_ROWS, dtype=np.int32), mask=chance.random(_ROWS) < 0.1),
        "price": chance.random(_ROWS) * 1_000,
        "discount": pa.array(chance.random(_ROWS), mask=chance.random(_ROWS) < 0.5),
        "region": names[chance.integers(len(names), size=_ROWS)],
        "note": [f"order {number:x}" for number in chance.integers(10**12, size=_ROWS)],
        "ordered": _FIRST_DAY + chance.integers(366, size=_ROWS).astype("timedelta64[D]"),
        "shipped": _FIRST_DAY.astype("datetime64[us]")
        + chance.integers(31_622_400, size=_ROWS).astype("timedelta64[s]"),
    }
    return pa.table(columns)


def footers_of(paths: Sequence[str]) -> Seen:
    """All footers with the statistics of all their column chunks, as plainly as it can be written."""
    kept: list[tuple[Any, Any, int | None]] = []
    bounds: list[tuple[Any, Any]] = []
    for path in paths:
        footer = pq.read_metadata(path)
        for group in range(footer.num_row_groups):
            row_group = footer.row_group(group)
            for column in range(row_group.num_columns):
                statistics = row_group.column(column).statistics
                assert statistics is not None
                kept.append((statistics.min, statistics.max, statistics.null_count))
            bounds.append(kept[-row_group.num_columns][:2])
    return Seen(len(paths), min(low for low, _ in bounds), max(high for _, high in bounds))


def _aggregate(spark: SparkSession, root: str) -> pa.Table:
    frame = spark.read.parquet(root)
    measures = [
        part
        for name in frame.columns
        for part in (f.min(name).alias(f"min_{name}"), f.max(name).alias(f"max_{name}"), f.count(name))
    ]
    return frame.groupBy("_metadata.file_path").agg(f.count(f.lit(1)), *measures).toArrow()


def _tuned(spark: SparkSession, root: str) -> pa.Table:
    before = {name: spark.conf.get(name, None) for name in _TUNING}
    try:
        for name, value in _TUNING.items():
            spark.conf.set(name, value)
        return _aggregate(spark, root)
    finally:
        for name, earlier in before.items():
            spark.conf.unset(name) if earlier is None else spark.conf.set(name, earlier)


def _seen_by_spark(found: pa.Table) -> Seen:
    return Seen(found.num_rows, pc.min(found.column("min_id")).as_py(), pc.max(found.column("max_id")).as_py())


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """The session of this process, or one on two cores that ends with the benchmark."""
    running = active_session()
    if running is not None:
        yield running
        return
    spark = start_session(_SPARK)
    try:
        yield spark
    finally:
        spark.stop()
