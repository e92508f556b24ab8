"""Question: the time of an ANALYZE after small changes, beside that of all files, in few and in many directories.

The 2,000 files of :mod:`benchmarks.analyze` lie in 20, in 200 and in 1,000 directories, which are the table's segments:
each is one Parquet file of units, and is written anew when one of its files has changed. "Size" is their number. Of the
files none changed, or one; or 1%, next to each other as where they are partitioned by time, or as far apart as can be.
Beside ANALYZE of all files stands the least that it takes in Python to read all footers.

A round has all of these cases, since each is compared with the first, and machines are faster in one minute than in
the next. All of it is measured in one process, too. All files are work for every core, a few are not: so the ratio
falls with more cores, and that of one process tells how much less there is to do. Each run is a new session's, as if
somebody had called the command in a process that is warm; but for one contender, whose session stays open, as that of a
job does.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from benchmarks.analyze import BARE, FULL, ON_SPARK, ONE_PROCESS, Data, Target, footers_of, spark_session
from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, beside, measure_together
from metastore.engines.engine import Engine, LocalEngine
from metastore.spark.engine import SparkEngine

QUESTION: Final = "ANALYZE again"
UNCHANGED: Final = "nothing changed"
ONE_FILE: Final = "one file changed"
TOGETHER: Final = "1% of the files changed, next to each other"
APART: Final = "1% of the files changed, far from each other"

STAYS_OPEN: Final = f"{OURS}, session stays open"

LAYOUTS: Final = (20, 200, 1_000)
"""Directories of a table."""


def run(
    folder: str, files: int, layouts: Sequence[int], seed: int, pace: Pace, say: Callable[[str], None]
) -> list[Series]:
    """Measure tables of ``files`` files in so many directories, one after the other, in ``folder``."""
    with spark_session() as spark, LocalEngine() as local, LocalEngine(1) as alone:
        engines: dict[str, Engine] = {
            OURS: local,
            STAYS_OPEN: local,
            ONE_PROCESS: alone,
            ON_SPARK: SparkEngine(spark),
        }
        return [
            one
            for directories in layouts
            for one in _layout(os.path.join(folder, str(directories)), files, directories, engines, seed, pace, say)
        ]


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was promised: ten times faster than all files when 1% changed."""
    return [
        beside(series, QUESTION, directories, (case, engine), (FULL, engine), 10)
        for directories in LAYOUTS
        for case in (UNCHANGED, ONE_FILE, TOGETHER, APART)
        for engine in (OURS, STAYS_OPEN, ONE_PROCESS)
    ]


def _layout(
    folder: str,
    files: int,
    directories: int,
    engines: dict[str, Engine],
    seed: int,
    pace: Pace,
    say: Callable[[str], None],
) -> list[Series]:
    say(f"building {files:,} Parquet files in {directories:,} directories")
    data = Data(os.path.join(folder, "data"), files, seed, directories)
    targets = {
        name: Target(engine, data, os.path.join(folder, name), stays_open=name == STAYS_OPEN)
        for name, engine in engines.items()
    }
    few = max(1, files // 100)
    changes: dict[str, Sequence[str]] = {
        UNCHANGED: (),
        ONE_FILE: data.paths[:1],
        TOGETHER: data.paths[:few],
        APART: data.paths[:: files // few],
    }
    say(f"{directories:,} directories: all files, and after changes")
    cases = {
        FULL: [
            *(Contender(name, Target.analyze, target.emptied, Target.seen) for name, target in targets.items()),
            Contender(BARE, lambda _: footers_of(data.paths), answer=lambda found: found),
        ]
    }
    for case, paths in changes.items():
        cases[case] = [
            Contender(name, Target.analyze, partial(target.changed, paths), Target.seen)
            for name, target in targets.items()
        ]
    series = measure_together(QUESTION, directories, cases, pace.beside_spark, items={FULL: files})
    for target in targets.values():
        target.close()
    shutil.rmtree(folder)
    return series
