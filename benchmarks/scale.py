"""Question: what ANALYZE of a very large table takes in its driver, as files, columns and directories grow.

Real tables are hard links to a few dozen Parquet files, so that a million of them take no space; ANALYZE runs over them
on the local engine and on Spark. Larger tables are simulated (:mod:`benchmarks.peers.simulated_cluster`): listing,
reading and rolling up are invented, and all that the driver does is real. Each case has a process of its own, whose
memory at most is measured. Python's memory of the driver counts, not that of helpers, of the JVM and of Spark's tasks.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.many_files import settings_at
from benchmarks.measuring import OURS, Series, Verdict
from benchmarks.memory import peak
from benchmarks.peers.simulated_cluster import SimulatedCluster
from metastore.analyze.run import analyze
from metastore.analyze.tasks.chunks import Limits
from metastore.analyze.tasks.directories import DirectoryChunk
from metastore.components.metastore import Metastore
from metastore.engines.engine import Capabilities, Chunk, Engine, LocalEngine
from metastore.model.identity import TableInfo
from metastore.sources.source_table import SourceTable

QUESTION: Final = "scale"
FILES: Final = 10_000
_FILES_THOROUGH: Final = 1_000_000

TABLE: Final = TableInfo("dfs", "tmp", "t")
_BYTES_AT_MOST: Final = 1_000_000_000
_TEMPLATES: Final = 24
_LINKS: Final = 30_000
"""Hard links to one file; file systems allow some ten thousand."""

_LARGE: Final = Limits(surveyed=(1, 0, 0))


@dataclass(frozen=True)
class Layout:
    """A table: ``files`` in ``segments`` directories, each with ``columns`` columns and ``groups`` row groups."""

    files: int
    segments: int
    columns: int = 10
    groups: int = 1


SIMULATED: Final = (
    Layout(1_000_000, 1_000),
    Layout(1_000_000, 1_000, columns=100),
    Layout(1_000_000, 1_000, columns=1_000),
    Layout(1_000_000, 1_000, groups=8),
    Layout(10_000_000, 1_000),
    Layout(10_000_000, 10_000),
    Layout(10_000_000, 10_000, columns=100),
    Layout(100_000_000, 100_000),
)
"""Each differs from another in one number."""

GOAL: Final = Layout(10_000_000, 10_000)


def sizes(*, thorough: bool) -> tuple[int, Sequence[Layout]]:
    """The number of real files, and the simulated tables: by default those that take a minute together."""
    return (_FILES_THOROUGH, SIMULATED) if thorough else (FILES, SIMULATED[:4])


def run(
    folder: str,
    files: int,
    simulated: Sequence[Layout],
    say: Callable[[str], None],
    engines: Sequence[str] = ("local", "spark"),
) -> tuple[list[Series], list[Verdict]]:
    """Measure ``files`` real files, then ``simulated`` tables; what is built is in ``folder`` and stays there."""
    series: list[Series] = []
    verdicts: list[Verdict] = []
    real = Layout(files, max(1, files // 100))
    say(f"linking {files:,} files")
    _link(os.path.join(folder, "real"), real)
    for engine in engines:
        for case in ("all files", "unchanged"):
            say(f"{case}, {files:,} real files, {engine}")
            found = _apart(folder, f"real/{engine}", case, real)
            series.append(_series(f"{case}, real files", real, f"{OURS} on {engine}", found))
    for number, layout in enumerate(simulated):
        for case in ("all files", "unchanged", "1% changed"):
            say(f"{case}, {layout.files:,} simulated files in {layout.segments:,} directories")
            found = _apart(folder, f"simulated/{number}", case, layout)
            series.append(_series(f"{case}, {_told(layout)}", layout, OURS, found))
            if layout == GOAL:
                verdicts.append(
                    Verdict(
                        QUESTION,
                        f"{case}: {layout.files:,} files in ≤ 1 GB ({found['peak'] // 1_000_000:,} MB)",
                        found["peak"] / _BYTES_AT_MOST,
                        found["peak"] <= _BYTES_AT_MOST,
                    )
                )
    return series, verdicts


def _told(layout: Layout) -> str:
    groups = "" if layout.groups == 1 else f", {layout.groups} row groups"
    return f"{layout.segments:,} directories, {layout.columns:,} columns{groups}"


def _series(case: str, layout: Layout, contender: str, found: dict[str, float]) -> Series:
    figures = {"driver MB": found["peak"] / 1e6, "MB sent": found["sent"] / 1e6, "MB received": found["received"] / 1e6}
    if found["requests"]:
        figures["requests of tasks"] = found["requests"]
    return Series(
        QUESTION, case, layout.files, contender, [found["seconds"]], [found["cpu"]], layout.files, figures=figures
    )


def _apart(folder: str, place: str, case: str, layout: Layout) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.scale", folder, place, case, json.dumps(asdict(layout))]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: S603 - this module
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return found


def _content(layout: Layout, number: int) -> pa.Table:
    return pa.table(
        {f"c{column}": [number + column + row for row in range(4 * layout.groups)] for column in range(layout.columns)}
    )


def _link(folder: str, layout: Layout) -> None:
    """A table of hard links: files of one directory differ, and every template is among them."""
    lake, templates = os.path.join(folder, "lake"), os.path.join(folder, "templates")
    os.makedirs(templates)
    each = layout.files // layout.segments
    for number in range(layout.files):
        content = number % _TEMPLATES
        template = os.path.join(templates, f"{content}-{number // _TEMPLATES // _LINKS}.parquet")
        if number // _TEMPLATES % _LINKS == 0:
            pq.write_table(_content(layout, content), template, row_group_size=4)
        directory = os.path.join(lake, f"d={number // each}")
        if number % each == 0:
            os.makedirs(directory)
        os.link(template, os.path.join(directory, f"part-{number % each:05}.parquet"))


class _Weighing:
    """Runs what ``engine`` runs, and counts the bytes of chunks and of batches."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.sent = self.received = self.requests = 0

    @property
    def name(self) -> str:
        """As the engine's."""
        return self._engine.name

    @property
    def parallelism(self) -> int:
        """As the engine's."""
        return self._engine.parallelism

    @property
    def capabilities(self) -> Capabilities:
        """As the engine's."""
        return self._engine.capabilities

    def run(
        self, chunks: Sequence[Chunk], task: Callable[[Chunk], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """As the engine's."""
        self.sent += sum(len(pickle.dumps(chunk)) for chunk in chunks)
        for batch in self._engine.run(chunks, task, schema):
            self.received += batch.nbytes
            yield batch

    def close(self) -> None:
        """As the engine's."""
        self._engine.close()


class _FirstRow(_Weighing):
    """Keeps the first row that a task makes of a directory."""

    row: dict[str, Any]

    def run(
        self, chunks: Sequence[Chunk], task: Callable[[Chunk], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """As the engine's."""
        for batch in super().run(chunks, task, schema):
            if isinstance(chunks[0], DirectoryChunk):
                self.row = batch.slice(0, 1).to_pylist()[0]
            yield batch


def _model(folder: str, layout: Layout) -> dict[str, Any]:
    """What a task makes of one real directory with a file of the layout's columns and row groups."""
    place = os.path.join(folder, f"model-{layout.columns}-{layout.groups}")
    path = os.path.join(place, "model.pickle")
    if not os.path.exists(path):
        _link(place, replace(layout, files=2, segments=2))
        engine = _FirstRow(LocalEngine(1))
        with Metastore.open(settings_at(place)) as metastore:
            analyze(metastore.tables, SourceTable(TABLE, os.path.join(place, "lake")), engine, limits=_LARGE)
        with open(path, "wb") as file:
            pickle.dump(engine.row, file)
    with open(path, "rb") as file:
        row: dict[str, Any] = pickle.load(file)  # noqa: S301 - written above
        return row


def _simulated(folder: str, place: str, case: str, layout: Layout) -> SimulatedCluster:
    lake = os.path.join(folder, place, "lake")
    for number in range(0 if os.path.exists(lake) else layout.segments):
        os.makedirs(os.path.join(lake, f"d={number}"))
    return SimulatedCluster(
        TABLE,
        layout.files // layout.segments,
        _model(folder, layout),
        lambda number: case == "1% changed" and number % 100 == 0,
    )


def _engine(name: str) -> Engine:
    if name == "local":
        return LocalEngine()
    from metastore.spark.engine import SparkEngine  # noqa: PLC0415 - a process without Spark imports none

    return SparkEngine(settings={"spark.master": "local[2]"})


def main(arguments: Sequence[str]) -> None:
    """Do one thing in this process, and say what it took."""
    folder, place, case, text = arguments
    layout = Layout(**json.loads(text))
    kind, _, name = place.partition("/")
    if kind == "real":
        lake, engine = os.path.join(folder, "real", "lake"), _Weighing(_engine(name))
        engine.parallelism  # noqa: B018 - starts Spark, which is not measured
    else:
        lake = os.path.join(folder, place, "lake")
        engine = _simulated(folder, place, case, layout)  # type: ignore[assignment]
    wall, cpu = time.perf_counter(), time.process_time()
    with Metastore.open(settings_at(os.path.join(folder, place))) as metastore:
        result = analyze(metastore.tables, SourceTable(TABLE, lake), engine, limits=_LARGE)
    taken = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "peak": peak()}
    expected = {"all files": (layout.files, 0), "unchanged": (0, 0), "1% changed": (0, -(-layout.segments // 100))}[
        case
    ]
    assert (result.new, result.changed) == expected, result
    engine.close()
    print(json.dumps({**taken, "sent": engine.sent, "received": engine.received, "requests": engine.requests}))


if __name__ == "__main__":
    main(sys.argv[1:])
