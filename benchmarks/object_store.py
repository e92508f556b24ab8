"""Question: metadata and data on S3, at 5, 30 and 100 ms a request, beside PyIceberg and DuckDB.

The server is the one of ``make demo-s3``: it adds the latency to each request and counts them. The size of a case is
the latency in milliseconds. After its times, each contender does its work once more for the count of requests. Money is
what a million of these would cost by S3's list price (:mod:`benchmarks.s3_prices`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg.expressions import And, EqualTo
from pyiceberg.table import Table

from benchmarks.content import PARTITIONS_OF_A_TABLE, Content, segment_name, table_info
from benchmarks.lake_on_s3 import DATA_TABLE, ROWS_OF_A_FILE, LakeOnS3
from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, measure
from benchmarks.peers.on_s3 import DUCKDB, DUCKDB_ON_ARROW, PYICEBERG, arrow_on_s3, duckdb_on_s3
from benchmarks.s3_prices import dollars_of_a_million
from benchmarks.stores import of_table
from demos.s3.process import s3_server
from metastore.components.metastore import Metastore
from metastore.model.vocabulary import MetadataType
from metastore.session import Session

QUESTION: Final = "object store"
LATENCIES_MS: Final = (5, 30, 100)
QUICK_AT_MOST_MS: Final = 30
"""The peer's first commit has 800 requests in a row: beyond this latency it takes minutes."""
COMMIT: Final = "replace one partition"
FIRST: Final = "a first commit of many partitions"
OPENED: Final = "one table's metadata, just opened"
POINT: Final = "another table's metadata, open"
ANALYZE: Final = "ANALYZE of all files, or adding them"
UNCHANGED: Final = "ANALYZE again, unchanged"
CHANGED: Final = "ANALYZE again, one file changed"
PLAN_OPENED: Final = "files of a scan, just opened"
PLAN: Final = "files of a scan, open"
SELECT: Final = "SELECT count(*) over one file, open"

_APPEND: Final = f"{PYICEBERG}, append only"

_BEFORE: Final[Mapping[str, tuple[float, float]]] = {
    COMMIT: (0.5, 3),
    OPENED: (0.41, 3),
    POINT: (0.13, 3),
    FIRST: (8.0, 10),
    SELECT: (3.0, 8),
}
"""Seconds at 30 ms before round trips were saved, and how many times faster was the goal."""


@dataclass(frozen=True)
class Sizes:
    """Data files, tables in the metastore (ten partitions each), and tables of the first commit."""

    files: int = 100
    tables: int = 10
    first_tables: int = 60


def run(
    folder: str,
    seed: int,
    pace: Pace,
    say: Callable[[str], None],
    sizes: Sizes = Sizes(),
    *,
    latencies_ms: Sequence[int] = LATENCIES_MS,
) -> list[Series]:
    """Measure at each latency; the peer's catalog is in ``folder``, everything else on the server."""
    items = {
        FIRST: sizes.first_tables * PARTITIONS_OF_A_TABLE,
        ANALYZE: sizes.files,
    }
    series: list[Series] = []
    with s3_server() as server:
        say("filling a bucket")
        lake = LakeOnS3(server, folder, Content(seed), sizes.tables, sizes.files)
        with lake.session() as session:
            session.analyze(DATA_TABLE)
        for latency in latencies_ms:
            server.add_latency(latency / 1_000)
            with ExitStack() as stack:
                session = stack.enter_context(lake.session())
                cases = {
                    **_metadata(
                        lake,
                        stack.enter_context(lake.metastore()),
                        sizes,
                        with_first=pace.affords(latency, QUICK_AT_MOST_MS),
                    ),
                    **_analyzing(lake, session),
                    **_scanning(lake, session),
                }
                for case, contenders in cases.items():
                    say(f"{latency} ms: {case}")
                    series += _measure(lake, case, latency, contenders, pace, items.get(case))
            server.add_latency(0)
    return series


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was promised at 30 ms beside the times before round trips were saved."""
    medians = {one.case: one.median for one in series if (one.size, one.contender) == (30, OURS)}
    found = []
    for case, (before, expected) in _BEFORE.items():
        ratio = before / medians[case] if case in medians else None
        says = f"{case}, 30 ms: {OURS} ≥ {expected:g}× the {before:g} s of before"
        found.append(Verdict(QUESTION, says, ratio, None if ratio is None else ratio >= expected))
    return found


def _measure(
    lake: LakeOnS3, case: str, latency: int, contenders: Sequence[Contender], pace: Pace, items: int | None
) -> list[Series]:
    times = measure(QUESTION, case, latency, contenders, pace, items=items)
    return [replace(one, figures=_cost(lake, each)) for one, each in zip(times, contenders, strict=True)]


def _cost(lake: LakeOnS3, contender: Contender) -> Mapping[str, float]:
    prepared = contender.prepare()
    lake.server.cost()
    contender.run(prepared)
    cost = lake.server.cost()
    return {
        "requests": cost.requests,
        "in a row": cost.in_a_row,
        "kB received": cost.bytes / 1_000,
        "$ for a million": dollars_of_a_million(cost.operations),
    }


def _metadata(lake: LakeOnS3, ours: Metastore, sizes: Sizes, *, with_first: bool) -> dict[str, Sequence[Contender]]:
    """Commits and reads of the metadata itself; ``with_first`` has the peer make its first commit, too."""
    editions, tables = count(1), count(1)
    info, key = table_info(0), segment_name(0)
    where = And(of_table(info), EqualTo("metadataKey", key))
    peer = lake.loader("units")()
    appended = lake.new_units(lake.new_name())
    first = lake.content.tables(range(sizes.first_tables))

    def segment() -> pa.Table:
        return lake.content.segment(0, 0, next(editions))

    def first_of_ours(name: str) -> int:
        with lake.metastore(name) as opened:
            opened.tables.modify().overwrite(first).execute()
        return 1

    def read_ours(metastore: Metastore) -> int:
        asked = metastore.tables.read().metadata_types(MetadataType.ALL)
        return asked.filter(of_table(table_info(next(tables) % sizes.tables))).to_arrow().num_rows

    def read_theirs(load: Callable[[], Table]) -> int:
        return load().scan(of_table(table_info(next(tables) % sizes.tables))).to_arrow().num_rows

    def open_and_read(_: object) -> int:
        with lake.metastore() as opened:
            return read_ours(opened)

    loaded = lake.loader("units")
    first_commits = [Contender(OURS, first_of_ours, lake.new_name)]
    if with_first:
        first_commits.append(
            Contender(PYICEBERG, lambda table: table.append(first), lambda: lake.new_units(lake.new_name()))
        )
    return {
        COMMIT: [
            Contender(OURS, lambda new: ours.tables.modify().overwrite(new).execute(), segment),
            Contender(PYICEBERG, lambda new: peer.overwrite(new, where), segment),
            Contender(_APPEND, appended.append, segment),
        ],
        FIRST: first_commits,
        OPENED: [
            Contender(OURS, open_and_read, answer=int),
            Contender(PYICEBERG, read_theirs, lambda: lake.loader("units"), int),
        ],
        POINT: [
            Contender(OURS, lambda _: read_ours(ours), answer=int),
            Contender(PYICEBERG, lambda _: read_theirs(loaded), answer=int),
        ],
    }


def _analyzing(lake: LakeOnS3, session: Session) -> dict[str, Sequence[Contender]]:
    """ANALYZE of all files, of none, and of one; the peer's nearest work is to take the files into a table."""
    more = count(1)

    def analyze_all(name: str) -> int:
        with lake.session(name) as opened:
            return int(opened.analyze(DATA_TABLE).files)

    def add_all(table: Table) -> int:
        table.add_files(lake.data_paths)
        return len(lake.data_paths)

    return {
        ANALYZE: [
            Contender(OURS, analyze_all, lake.new_name, int),
            Contender(PYICEBERG, add_all, lambda: lake.new_data_table(lake.new_name()), int),
        ],
        UNCHANGED: [Contender(OURS, lambda _: session.analyze(DATA_TABLE))],
        CHANGED: [Contender(OURS, lambda _: session.analyze(DATA_TABLE), lambda: lake.write_file(1, next(more)))],
    }


def _scanning(lake: LakeOnS3, session: Session) -> dict[str, Sequence[Contender]]:
    """Which file holds a value, and how many rows have it. File 1, which changes, is not asked about."""
    value = (lake.files - 1) * ROWS_OF_A_FILE + 5
    glob = f"s3://{lake.data_location}/*/*.parquet"
    by_glob, over_arrow = duckdb_on_s3(lake.server), duckdb_on_s3(lake.server)
    files = arrow_on_s3(lake.server)

    def plan(opened: Session) -> int:
        return len(opened.prune(DATA_TABLE, f"x = {value}").paths)

    def open_and_plan(_: object) -> int:
        with lake.session() as opened:
            return plan(opened)

    def plan_theirs(load: Callable[[], Table]) -> int:
        return len(list(load().scan(EqualTo("x", value)).plan_files()))

    def select_ours(_: object) -> int:
        return int(session.sql(f"SELECT count(*) AS n FROM {DATA_TABLE} WHERE x = {value}").column("n")[0].as_py())

    def select_by_glob(_: object) -> int:
        text = f"SELECT count(*) FROM read_parquet('{glob}', hive_partitioning = true) WHERE x = {value}"
        return int(by_glob.execute(text).fetchall()[0][0])

    def select_over_arrow(_: object) -> int:
        t = ds.dataset(lake.data_location, filesystem=files, format="parquet", partitioning="hive")
        over_arrow.register("t", t)
        return int(over_arrow.execute(f"SELECT count(*) FROM t WHERE x = {value}").fetchall()[0][0])

    loaded = lake.loader("data")
    return {
        PLAN_OPENED: [
            Contender(OURS, open_and_plan, answer=int),
            Contender(PYICEBERG, plan_theirs, lambda: lake.loader("data"), int),
        ],
        PLAN: [
            Contender(OURS, lambda _: plan(session), answer=int),
            Contender(PYICEBERG, lambda _: plan_theirs(loaded), answer=int),
        ],
        SELECT: [
            Contender(OURS, select_ours, answer=int),
            Contender(PYICEBERG, lambda _: loaded().scan(EqualTo("x", value)).to_arrow().num_rows, answer=int),
            Contender(DUCKDB_ON_ARROW, select_over_arrow, answer=int),
            Contender(DUCKDB, select_by_glob, answer=int),
        ],
    }
