"""Question: what a pass of the daemon costs a table, among few tables and among many.

Tables of a SQL catalog are small. A tenth of them has a snapshot to expire, with its files. The first pass reads what
every table reaches, and deletes. In the second one nothing has changed. Both look at every table. Counted are seconds,
seconds on cores, and statements to the catalog's database. What a table costs must not grow with their number.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import sqlalchemy

from benchmarks.measuring import OURS, Series, Verdict
from metastore.config.settings import Settings
from metastore.daemon.process import run_once
from metastore.session import Session, connect

QUESTION: Final = "a pass of the daemon over many small tables"
FIRST: Final = "first pass, a tenth has work; items are tables"
AGAIN: Final = "pass over unchanged tables; items are tables"
TABLES: Final = 1_000
FEW: Final = 100

_DUE: Final = 10
_SCHEMA: Final = pa.schema([("id", pa.int64())])
_EXPIRE: Final = {"enabled": True, "older_than": "0 s", "retain_last": 1, "schedule": "1 ms"}


def run(folder: str, tables: int, say: Callable[[str], None]) -> list[Series]:
    """Measure passes over few tables, and over ``tables``."""
    return [one for count in sorted({min(FEW, tables), tables}) for one in _passes(folder, count, say)]


def _passes(folder: str, tables: int, say: Callable[[str], None]) -> Iterator[Series]:
    say(f"building {tables:,} tables")
    with _site(os.path.join(folder, str(tables))) as session:
        _build(session, tables)
        for case in (FIRST, AGAIN):
            say(f"{tables:,} tables: {case}")
            with _statements(session) as sent:
                began, cpu = time.perf_counter(), time.process_time()
                runs = run_once(session, dry_run=False)
                seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            done = sum(each.status == "done" for each in runs)
            if (len(runs), done) != (tables, -(-tables // _DUE) if case == FIRST else 0):
                raise AssertionError(f"{len(runs)} of {tables} tables had their turn, and {done} had work")
            figures = {"statements a table": sent[0] / tables, "CPU ms a table": 1000 * cpu / tables}
            yield Series(QUESTION, case, tables, OURS, [seconds], [cpu], tables, figures)


def _site(folder: str) -> Session:
    lake = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/lake"}
    os.makedirs(folder)
    keys = {
        "drill.metastore.iceberg.location.base_path": f"{folder}/store",
        "drill.metastore.catalogs.lake": lake,
        "drill.metastore.policies.catalogs.lake.expire_snapshots": _EXPIRE,
    }
    return connect(Settings.from_mapping(keys, environ={}))


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
    return [_growth(series, case, figure) for case in (FIRST, AGAIN) for figure in ("statements", "CPU ms")]


def _growth(series: Sequence[Series], case: str, figure: str) -> Verdict:
    found = [one.figures[f"{figure} a table"] for one in series if one.case == case]
    says = f"{case}: {figure} a table ≤ 1.5× those among {series[0].size:,}"
    if len(found) < 2:
        return Verdict(QUESTION, says, None, None)
    return Verdict(QUESTION, says, found[1] / found[0], found[1] <= 1.5 * found[0])
