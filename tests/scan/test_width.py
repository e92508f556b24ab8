"""The time of every door grows with the number of columns, not with its square."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from pyiceberg.expressions import And, EqualTo, Not, NotEqualTo, Or

from metastore.config.settings import Settings
from metastore.model.vocabulary import MetadataType
from metastore.session import Session, connect

NARROW, WIDE = 250, 1_500
ALLOWED = 2.5 * WIDE / NARROW
"""What the square would take is 6 times as long as what is linear."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Parquet and CSV of 250 and of 1,500 columns, two rows in one file each."""
    folder = tmp_path_factory.mktemp("width")
    given = {
        "drill.metastore.iceberg.location.base_path": f"{folder}/metastore",
        "drill.metastore.storage.dfs.workspaces.w.location": str(folder),
    }
    with connect(Settings.from_mapping(given, environ={})) as opened:
        for columns in (NARROW, WIDE):
            rows = pa.table({f"c{number}": [number, number + 1] for number in range(columns)})
            (folder / f"t{columns}").mkdir()
            (folder / f"csv{columns}").mkdir()
            pq.write_table(rows, folder / f"t{columns}" / "a.parquet")
            csv.write_csv(rows, folder / f"csv{columns}" / "a.csv")
            opened.analyze(f"dfs.w.t{columns}")
            opened.analyze(f"dfs.w.csv{columns}")
        yield opened


def named(columns: int) -> list[str]:
    """The columns of a table."""
    return [f"c{number}" for number in range(columns)]


DOORS: dict[str, Callable[[Session, int], Any]] = {
    "SELECT *": lambda ms, n: ms.sql(f"SELECT * FROM dfs.w.t{n}"),
    "SELECT of names": lambda ms, n: ms.sql(f"SELECT {', '.join(named(n))} FROM dfs.w.t{n}"),
    "SELECT with a star and a pseudo column": lambda ms, n: ms.sql(f"SELECT *, filename FROM dfs.w.t{n}"),
    "SELECT of text": lambda ms, n: ms.sql(f"SELECT * FROM dfs.w.csv{n}"),
    "EXPLAIN": lambda ms, n: ms.sql(f"EXPLAIN SELECT * FROM dfs.w.t{n} WHERE c7 > 3"),
    "scan": lambda ms, n: ms.tables.scan(f"dfs.w.t{n}").to_arrow(),
    "scan of names": lambda ms, n: ms.tables.scan(f"dfs.w.t{n}", columns=named(n)).to_arrow(),
    "scan of text": lambda ms, n: ms.tables.scan(f"dfs.w.csv{n}").to_arrow(),
    "row ids": lambda ms, n: ms.tables.scan(f"dfs.w.t{n}", row_id=True).to_arrow(),
    "dataset": lambda ms, n: ms.tables.scan(f"dfs.w.t{n}", "c1 > 0").to_arrow_dataset().to_table(),
    "aggregates": lambda ms, n: ms.tables.aggregate(f"dfs.w.t{n}", [f"max({name})" for name in named(n)]),
    "condition": lambda ms, n: ms.prune(f"dfs.w.t{n}", " AND ".join(f"{name} >= 0" for name in named(n))),
    "INFORMATION_SCHEMA": lambda ms, n: ms.information_schema.columns(where=f"table_name = 't{n}'"),
}


@pytest.mark.parametrize("door", DOORS)
def test_time_is_linear_in_columns(session: Session, door: str) -> None:
    """CPU of 6 times as many columns is at most 15 times as much, the better of two; 36 times by the square."""
    ask = DOORS[door]
    best = {columns: min(_cpu_of(ask, session, columns) for _ in range(2)) for columns in (NARROW, WIDE)}
    assert best[WIDE] / best[NARROW] <= ALLOWED


def _cpu_of(ask: Callable[[Session, int], Any], session: Session, columns: int) -> float:
    start = time.process_time()
    ask(session, columns)
    return time.process_time() - start


def test_information_schema_tells_all_columns(session: Session) -> None:
    """Of a table whose schema, repeated for each column, would exceed what an array holds."""
    found = session.information_schema.columns(["column_name", "min_val", "table_name"], f"table_name = 't{WIDE}'")
    assert found.column(0).to_pylist() == named(WIDE)
    assert found.column(1).to_pylist() == [str(number) for number in range(WIDE)]


@pytest.mark.parametrize("kind", [And, pytest.param(Or, marks=pytest.mark.exhaustive)])
def test_a_chain_of_many_terms_is_a_condition_like_any_other(session: Session, kind: Any) -> None:
    """PyIceberg's expressions, one inside the other 1,100 deep, as programs build them, at every door."""
    terms = [EqualTo("c1", 1), *(EqualTo("c1", -n) if kind is Or else NotEqualTo("c1", n) for n in range(2, 1_100))]
    for chain in (reduce(kind, terms), reduce(lambda right, left: kind(left, right), reversed(terms))):
        assert len(session.prune("dfs.w.t250", chain).files) == 1
        assert session.tables.scan("dfs.w.t250", chain, ["c1"]).to_arrow().to_pydict() == {"c1": [1]}
        assert session.tables.scan("dfs.w.t250", Not(chain)).count() == 1
        named_ = reduce(kind, [EqualTo("tableName", "t250")] * 1_100)
        read = session.metastore.tables.read().metadata_types(MetadataType.TABLE).filter(named_)
        assert read.columns("tableName").to_arrow().to_pydict() == {"tableName": ["t250"]}
