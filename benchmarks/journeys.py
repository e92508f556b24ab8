"""The journeys that people have, each timed in this process: what :mod:`benchmarks.compare` runs on two checkouts.

``python journeys.py GROUP ROUNDS`` prints one JSON object: for each journey its seconds on the clock and of CPU, a pair
for each round. A first round warms up and does not count. This file uses public names of ``metastore`` alone, so it
runs on any checkout that has them. CPU is that of this process and of all below it, Spark's JVM among them.
"""

from __future__ import annotations

import glob
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import EqualTo
from pyspark.sql import SparkSession

import metastore
import metastore.spark
from metastore import MetadataType
from metastore.config import Settings
from metastore.model.identity import file_identifier, row_group_identifier
from metastore.model.statistics import ColumnStatistics
from metastore.model.table_unit import TableMetadataUnit
from metastore.session import Session

try:
    from metastore.model.mapping.rows import to_arrow
except ModuleNotFoundError:  # an earlier state, whose rooms had other names
    from metastore.mapping.rows import to_arrow  # type: ignore[import-not-found, no-redef]

Run = Callable[[], object]
Journey = tuple[str, Run, Run]
"""A name, what is timed, and what comes before it and is not timed."""

_FILES, _FOLDERS, _ROWS = 1_000, 50, 200
_PARTITIONS, _TABLES, _UPDATES = 1_000, 400, 50


def _nothing() -> None:
    return None


def commits(folder: str) -> Iterator[Journey]:
    """Transactions and reads of the metastore itself."""
    ms = metastore.connect(_settings(folder))
    edition = count(1)
    rows: list[pa.Table] = []

    def update(new: pa.Table) -> None:
        ms.tables.modify().overwrite(new).execute()

    def alone() -> None:
        for new in rows:
            update(new)

    def transaction() -> None:
        rows[:] = [_units(range(_PARTITIONS), next(edition))]

    def updates() -> None:
        number = next(edition)
        rows[:] = [_units([table * _TABLES // _UPDATES], number) for table in range(_UPDATES)]

    def together() -> None:
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(update, rows))

    def opened(read: Callable[[Session], object]) -> None:
        with metastore.connect(_settings(folder)) as fresh:
            read(fresh)

    yield "transaction of 1,000 partitions", lambda: update(rows[0]), transaction
    yield "50 small updates, one thread", alone, updates
    yield "50 small updates, 16 threads", together, updates
    yield "point read, just opened", lambda: opened(_point_read), _nothing
    yield "list of segments, just opened", lambda: opened(_list), _nothing
    ms.close()


def files(folder: str) -> Iterator[Journey]:
    """ANALYZE and reads of 1,000 Parquet files in 50 folders."""
    data = os.path.join(folder, "data", "t")
    for number in range(_FILES):
        _write(data, number, 0)
    settings = _settings(folder, data)
    ms = metastore.connect(settings)
    editions = count(1)
    keys = _FILES * _ROWS
    few, every = f"id between {keys // 2} and {keys // 2 + 10}", f"id < {keys}"

    def forgotten() -> None:
        ms.drop_metadata("dfs.w.t", if_exists=True)

    def opened(run: Callable[[Session], object]) -> None:
        with metastore.connect(settings) as fresh:
            run(fresh)

    def scan(where: str) -> int:
        return int(ms.tables.scan("dfs.w.t", where).to_arrow().num_rows)

    yield "ANALYZE of 1,000 files", lambda: ms.analyze("dfs.w.t"), forgotten
    yield "ANALYZE, nothing changed", lambda: ms.analyze("dfs.w.t"), _nothing
    yield "ANALYZE, one file changed", lambda: ms.analyze("dfs.w.t"), lambda: _write(data, 7, next(editions))
    yield "prune, just opened", lambda: opened(lambda fresh: len(fresh.prune("dfs.w.t", few).files)), _nothing
    yield "prune, again", lambda: len(ms.prune("dfs.w.t", few).files), _nothing
    yield "every file kept, again", lambda: len(ms.prune("dfs.w.t", every).files), _nothing
    yield "scan of one file", lambda: scan(few), _nothing
    yield "scan of all files", lambda: scan(every), _nothing
    yield "SELECT of one file", lambda: ms.sql(f"SELECT sum(id) FROM dfs.w.t WHERE {few}"), _nothing
    ms.close()


def statements(folder: str) -> Iterator[Journey]:
    """Statements and a procedure on an Iceberg table."""
    ms = metastore.connect(_settings(folder))
    ms.sql("CREATE SCHEMA lake.s")
    ms.sql("CREATE TABLE lake.s.t (id BIGINT, name VARCHAR)")
    values = "SELECT i AS id, 'n' || i AS name FROM range(200000) r(i)"
    yield "INSERT of one row", lambda: ms.sql("INSERT INTO lake.s.t VALUES (1, 'a')"), _nothing
    yield "INSERT of 200,000 rows", lambda: ms.sql(f"INSERT INTO lake.s.t {values}"), _nothing
    yield "UPDATE of one row", lambda: ms.sql("UPDATE lake.s.t SET name = 'b' WHERE id = 77"), _nothing

    def small_files() -> None:
        for number in range(6):
            ms.sql(f"INSERT INTO lake.s.t VALUES ({number}, 'x')")

    yield "rewrite of small files", lambda: ms.sql("CALL lake.system.rewrite_data_files('s', 't')"), small_files
    ms.close()


def starts(folder: str) -> Iterator[Journey]:
    """Processes that begin."""
    conf = os.path.join(folder, "c.conf")
    with open(conf, "w", encoding="utf-8") as file:
        file.write(f'drill.metastore.iceberg.location.base_path = "{folder}/ms"\n')
    python = [sys.executable, "-c"]
    cli = "from metastore.cli.main import main; main()"

    def run(code: str, *arguments: str) -> None:
        subprocess.run([*python, code, *arguments], check=True, capture_output=True)  # noqa: S603 - our own code

    yield "import metastore", lambda: run("import metastore"), _nothing
    yield "command line, list of tables", lambda: run(cli, "--conf", conf, "tables"), _nothing


def spark(folder: str) -> Iterator[Journey]:
    """ANALYZE and reads by Spark."""
    data = os.path.join(folder, "data", "t")
    for number in range(_FILES):
        _write(data, number, 0)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    ms = metastore.spark.connect(session, _settings(folder, data))
    few = f"id between {_FILES * _ROWS // 2} and {_FILES * _ROWS // 2 + 10}"

    def forgotten() -> None:
        ms.drop_metadata("dfs.w.t", if_exists=True)

    read = metastore.spark.read_table
    yield "ANALYZE on Spark", lambda: ms.analyze("dfs.w.t"), forgotten
    yield "ANALYZE on Spark, nothing changed", lambda: ms.analyze("dfs.w.t"), _nothing
    yield "read_table of one file", lambda: read(session, ms, "dfs.w.t", few).count(), _nothing
    yield "read_table of all files", lambda: read(session, ms, "dfs.w.t").count(), _nothing
    ms.close()
    session.stop()


GROUPS = {each.__name__: each for each in (commits, files, statements, starts, spark)}


def main(group: str, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Run the journeys of ``group``; returns the pairs of seconds by journey."""
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="journeys-") as folder:
        for name, run, prepare in GROUPS[group](folder):
            for number in range(rounds + 1):
                prepare()
                clock, cpu = time.perf_counter(), cpu_of_all()
                run()
                pair = (time.perf_counter() - clock, cpu_of_all() - cpu)
                if number:
                    found.setdefault(name, []).append(pair)
    return found


def cpu_of_all() -> float:
    """Seconds of CPU of this process, and of all below it."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime + _cpu_of_descendants()


def _cpu_of_descendants() -> float:
    """Seconds of the processes below this one that run, and of those that these have waited for."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in glob.glob("/proc/[0-9]*/stat"):
        with suppress(OSError), open(stat, encoding="utf-8") as file:
            pid, (_, parent, *rest) = int(stat.split("/")[2]), file.read().rpartition(")")[2].split()
            parents[pid], ticks[pid] = int(parent), sum(map(int, rest[9:13]))

    def is_below(pid: int) -> bool:
        above = parents.get(pid, 0)
        return above == os.getpid() or (above > 1 and is_below(above))

    return sum(spent for pid, spent in ticks.items() if is_below(pid)) / os.sysconf("SC_CLK_TCK")


def _settings(folder: str, data: str | None = None) -> Settings:

    lake = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/lake"}
    place = os.path.dirname(data) if data else folder
    storage = {"connection": "file:///", "workspaces": {"w": {"location": place}}}
    given = {
        "iceberg": {"location": {"base_path": f"{folder}/ms"}},
        "catalogs": {"lake": lake},
        "storage": {"dfs": storage},
    }
    os.makedirs(f"{folder}/lake", exist_ok=True)
    return Settings.from_mapping({"drill": {"metastore": given}})


def _point_read(ms: Session) -> object:

    return ms.tables.read().metadata_types(MetadataType.ALL).filter(EqualTo("tableName", _name(7))).to_arrow()


def _list(ms: Session) -> object:

    return ms.tables.read().metadata_types(MetadataType.SEGMENT).columns("tableName", "lastModifiedTime").to_arrow()


def _name(table: int) -> str:
    return f"t{table:05d}"


def _units(tables: Iterable[int], edition: int) -> pa.Table:
    """A segment of one file with one row group for each of ``tables``, with statistics of ten columns."""
    statistics = {
        f"`c{number}`": ColumnStatistics("BIGINT", edition, edition + number, nulls=0, non_nulls=9, rows=9).to_json()
        for number in range(5)
    } | {
        f"`s{number}`": ColumnStatistics("VARCHAR", f"a{edition}", "z", nulls=1, non_nulls=8, rows=9).to_json()
        for number in range(5)
    }
    units = []
    for table in tables:
        key, file = "day=1", f"part-{table}-{edition}.parquet"
        place = f"/data/{_name(table)}/{key}"
        shared: dict[str, Any] = {
            "storage_plugin": "dfs",
            "workspace": "w",
            "table_name": _name(table),
            "metadata_key": key,
            "last_modified_time": 1_700_000_000_000 + edition,
            "location": place,
            "columns_statistics": statistics,
        }
        path = f"{place}/{file}"
        group = row_group_identifier((key,), file, 0)
        units += [
            TableMetadataUnit(
                **shared, metadata_type="SEGMENT", metadata_identifier=key, path=place, locations=(path,)
            ),
            TableMetadataUnit(
                **shared, metadata_type="FILE", metadata_identifier=file_identifier((key,), file), path=path
            ),
            TableMetadataUnit(
                **shared, metadata_type="ROW_GROUP", metadata_identifier=group, path=path, row_group_index=0
            ),
        ]
    return to_arrow(TableMetadataUnit, units)


def _write(data: str, number: int, edition: int) -> None:

    folder = os.path.join(data, f"day={number % _FOLDERS}")
    os.makedirs(folder, exist_ok=True)
    first = number * _ROWS
    ids = np.arange(first, first + _ROWS)
    columns: dict[str, Any] = {"id": ids, **{f"c{each}": (ids * (each + 7) + edition) % 1009 for each in range(8)}}
    pq.write_table(pa.table(columns), os.path.join(folder, f"part-{number}.parquet"))


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
