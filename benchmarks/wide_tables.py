"""Question: the time to read all columns of a wide table, which has many columns and few rows.

Two Parquet files of 1,000 rows with 500 columns, then with 2,000, analyzed. Beside ``SELECT *`` and a scan stands
DuckDB over the same files, which has no metadata and reads their footers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, measure
from metastore.config.settings import Settings
from metastore.session import Session, connect

QUESTION: Final = "wide tables"
EVERYTHING: Final = "all columns of two files"
SELECT: Final = f"{OURS}, SELECT *"
SCAN: Final = f"{OURS}, scan"
PEER: Final = "DuckDB"

COLUMNS: Final = (500, 2_000)
ROWS: Final = 1_000
_TIMES: Final = 3


def run(
    folder: str, columns: Sequence[int], rows: int, seed: int, pace: Pace, say: Callable[[str], None]
) -> list[Series]:
    """Build a table in ``folder`` for each number of ``columns``, and measure it."""
    given = {
        "drill.metastore.iceberg.location.base_path": os.path.join(folder, "metastore"),
        "drill.metastore.storage.dfs.workspaces.w.location": os.path.join(folder, "lake"),
    }
    series: list[Series] = []
    with connect(Settings.from_mapping(given, environ={})) as session:
        for number in columns:
            say(f"{number:,} columns")
            files = _written(os.path.join(folder, "lake", f"t{number}"), number, rows, seed)
            session.analyze(f"dfs.w.t{number}")
            series += measure(QUESTION, EVERYTHING, number, _contenders(session, number, files), pace, items=number)
    return series


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was promised, of CPU time: at most three times DuckDB, and no more a column in a wide table."""
    cpu = {(one.contender, one.size): one.median_cpu for one in series if one.question == QUESTION}
    narrow, wide = COLUMNS
    found = []
    for ours in (SELECT, SCAN):
        says = f"{EVERYTHING}, {wide:,}: {ours} ≤ {_TIMES}× {PEER}, CPU"
        found.append(_at_most(says, cpu.get((ours, wide)), cpu.get((PEER, wide)), _TIMES))
        says = f"{EVERYTHING}: {ours} at {wide:,} ≤ 6× its time at {narrow:,}, CPU"
        found.append(_at_most(says, cpu.get((ours, wide)), cpu.get((ours, narrow)), 6))
    return found


def _at_most(says: str, time: float | None, base: float | None, expected: float) -> Verdict:
    if time is None or base is None:
        return Verdict(QUESTION, says, None, None)
    return Verdict(QUESTION, says, time / base, time / base <= expected)


def _contenders(session: Session, number: int, files: Sequence[str]) -> list[Contender]:
    table = f"dfs.w.t{number}"
    return [
        Contender(SELECT, lambda _: session.sql(f"SELECT * FROM {table}"), answer=_rows),
        Contender(SCAN, lambda _: session.tables.scan(table).to_arrow(), answer=_rows),
        Contender(PEER, lambda _: _peers(files), answer=_rows),
    ]


def _peers(files: Sequence[str]) -> Any:
    with duckdb.connect() as engine:
        return engine.read_parquet(list(files)).to_arrow_table()


def _rows(found: pa.Table) -> object:
    return sorted(zip(*(found.column(index).to_pylist() for index in range(3)), strict=True)), found.num_columns


def _written(folder: str, columns: int, rows: int, seed: int) -> list[str]:
    os.makedirs(folder)
    random = np.random.default_rng(seed)
    paths = [os.path.join(folder, f"{number}.parquet") for number in range(2)]
    for path in paths:
        table = pa.table({f"c{number}": pa.array(random.integers(0, 1 << 40, rows)) for number in range(columns)})
        pq.write_table(table, path)
    return paths
