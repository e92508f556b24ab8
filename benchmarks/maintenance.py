"""Question: what a pass of the daemon costs a table, among few tables and among many.

Tables of a SQL catalog are small. A tenth of them has a snapshot to expire, with its files. The first pass reads what
every table reaches, and deletes. In the second one nothing has changed. Both look at every table. Counted are seconds,
seconds on cores, statements to the catalog's database and, on S3, requests. What a table costs must not grow with
their number.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import sqlalchemy

from benchmarks.measuring import OURS, Series, Verdict
from benchmarks.peers.on_s3 import client_properties
from demos.s3.process import S3Server
from metastore.config.settings import Settings
from metastore.daemon.process import run_once
from metastore.session import Session, connect

QUESTION: Final = "a pass of the daemon over many small tables"
QUESTION_ON_S3: Final = "a pass of the daemon over many small tables on S3"
FIRST: Final = "first pass, a tenth has work; items are tables"
AGAIN: Final = "pass over unchanged tables; items are tables"
TABLES: Final = 1_000
FEW: Final = 100

_DUE: Final = 10
_SCHEMA: Final = pa.schema([("id", pa.int64())])
_EXPIRE: Final = {"enabled": True, "older_than": "0 s", "retain_last": 1, "schedule": "1 ms"}


def run(folder: str, tables: int, say: Callable[[str], None], server: S3Server | None = None) -> list[Series]:
    """Measure passes over few tables, and over ``tables``: on the disk, or on the S3 ``server``."""
    question = QUESTION if server is None else QUESTION_ON_S3
    return [
        replace(one, question=question)
        for count in sorted({min(FEW, tables), tables})
        for one in _passes(folder, count, say, server)
    ]


def _passes(folder: str, tables: int, say: Callable[[str], None], server: S3Server | None) -> Iterator[Series]:
    say(f"building {tables:,} tables")
    with _site(os.path.join(folder, str(tables)), server) as session:
        _build(session, tables)
        for case in (FIRST, AGAIN):
            say(f"{tables:,} tables: {case}")
            if server is not None:
                server.cost()  # forgets what came before
            with _statements(session) as sent:
                began, cpu = time.perf_counter(), time.process_time()
                runs = run_once(session, dry_run=False)
                seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            done = sum(each.status == "done" for each in runs)
            if (len(runs), done) != (tables, -(-tables // _DUE) if case == FIRST else 0):
                raise AssertionError(f"{len(runs)} of {tables} tables had their turn, and {done} had work")
            figures = {"statements a table": sent[0] / tables, "CPU ms a table": 1000 * cpu / tables}
            if server is not None:
                figures["requests a table"] = server.cost().requests / tables
            yield Series(QUESTION, case, tables, OURS, [seconds], [cpu], tables, figures)


def _site(folder: str, server: S3Server | None = None) -> Session:
    os.makedirs(folder)
    root = folder
    keys: Mapping[str, str] = {}
    client: Mapping[str, str] = {}
    if server is not None:
        bucket = f"tables-{os.path.basename(folder)}"
        server.create_bucket(bucket)
        root, keys, client = f"s3a://{bucket}", server.hadoop(), client_properties(server)
    lake = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"{_uri(root)}/lake", **client}
    configured = {
        "iceberg": {
            "location.base_path": f"{root}/store",
            "config.properties": {f'"{key}"': keys[key] for key in keys},
        },
        "catalogs.lake": {f'"{key}"': value for key, value in lake.items()},
        "policies.catalogs.lake.expire_snapshots": _EXPIRE,
    }
    return connect(Settings.from_mapping({"drill.metastore": configured}, environ={}))


def _uri(root: str) -> str:
    return root.replace("s3a:", "s3:") if root.startswith("s3a:") else f"file://{root}"


def _build(session: Session, tables: int) -> None:
    lake = session.catalogs.open("lake")
    lake.create_namespace("shop")
    for number in range(tables):
        table = lake.create_table(f"shop.t{number}", _SCHEMA)
        for _ in range(2 if number % _DUE == 0 else 1):
            table.append(pa.table({"id": [number]}))


@contextmanager
def _statements(session: Session) -> Iterator[list[int]]:
    engine: Any = getattr(session.catalogs.open("lake"), "engine")  # noqa: B009 - only a SQL catalog has it
    sent = [0]

    def count(*_: object) -> None:
        sent[0] += 1

    sqlalchemy.event.listen(engine, "before_cursor_execute", count)
    try:
        yield sent
    finally:
        sqlalchemy.event.remove(engine, "before_cursor_execute", count)


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was expected: each figure a table among many tables is at most 1.5 times that among few."""
    return [_growth(series, case, figure) for case in (FIRST, AGAIN) for figure in series[0].figures]


def _growth(series: Sequence[Series], case: str, figure: str) -> Verdict:
    found = [one.figures[figure] for one in series if one.case == case]
    says = f"{case}: {figure} ≤ 1.5× those among {series[0].size:,}"
    if len(found) < 2:
        return Verdict(series[0].question, says, None, None)
    return Verdict(series[0].question, says, found[1] / found[0], found[1] <= 1.5 * found[0])
