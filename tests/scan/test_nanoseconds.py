"""Times that count nanoseconds: a constant as fine as they are finds its rows at every door, and skips other files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.scan_lake import TABLE, Lake

from metastore.config.settings import Settings
from metastore.scan.rows import in_types, read_rows
from metastore.session import connect

SECOND: Final = 1_704_067_200_000_000_000
"""2024-01-01 00:00:00 UTC in nanoseconds since 1970."""

FILES: Final[Sequence[Sequence[int | None]]] = (
    [123_456_789, 123_456_001, 123_456_000, None],
    [123_999_000, 125_000_001],
    [700_000_000],
)
"""Nanoseconds after it, file by file."""

TESTS: Final[dict[str, Callable[[int], bool]]] = {
    "{} = '.123456789'": lambda n: n == 123_456_789,
    "{} = '.123456'": lambda n: n == 123_456_000,
    "{} = '.1234560010'": lambda n: n == 123_456_001,
    "{} = '.123456000'": lambda n: n == 123_456_000,
    "{} <> '.123456789'": lambda n: n != 123_456_789,
    "{} < '.123456789'": lambda n: n < 123_456_789,
    "{} <= '.123456789'": lambda n: n <= 123_456_789,
    "NOT ({} <= '.123456788')": lambda n: n > 123_456_788,
    "{} > '.12500'": lambda n: n > 125_000_000,
    "{} >= '.125000002'": lambda n: n >= 125_000_002,
    "{} BETWEEN '.123456001' AND '.123456789'": lambda n: 123_456_001 <= n <= 123_456_789,
    "{} IN ('.123456001', '.7')": lambda n: n in (123_456_001, 700_000_000),
    "{} NOT IN ('.123456001', '.7')": lambda n: n not in (123_456_001, 700_000_000),
    "{} = '.123456790'": lambda _: False,
}
"""Conditions, with the fractions of their constants, and what they mean."""


@pytest.fixture(scope="module")
def fine_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Each row has its number ``k``; ``t`` and ``utc`` are its time, of clocks and in UTC; ``micros`` is cut."""
    lake = Lake(tmp_path_factory.mktemp("fine"))
    first = 0
    for number, file in enumerate(FILES):
        ticks = [None if each is None else SECOND + each for each in file]
        columns: dict[str, Any] = {
            "k": list(range(first, first := first + len(file))),
            "t": pa.array(ticks, pa.timestamp("ns")),
            "utc": pa.array(ticks, pa.timestamp("ns", "UTC")),
            "micros": pa.array([None if each is None else each // 1000 for each in ticks], pa.timestamp("us")),
        }
        lake.write(f"{number}.parquet", columns)
    lake.analyze()
    yield lake
    lake.session.close()


def asked(test: str, column: str, type_: str) -> str:
    """``test`` of ``column`` with constants of ``type_``."""
    return test.format(column).replace("'.", f"{type_} '2024-01-01 00:00:00.")


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize(("column", "type_"), [("t", "TIMESTAMP_NTZ"), ("t", ""), ("utc", "TIMESTAMP"), ("utc", "")])
def test_rows_are_those_of_whole_numbers(fine_lake: Lake, test: str, column: str, type_: str) -> None:
    """By Arrow, by DuckDB where a part is beyond Arrow, and by prune, to a microsecond."""
    if "IN (" in test and not type_:
        return  # Spark gives a list of texts beside a time another type
    ticks = [each for file in FILES for each in file]
    expected = [row for row, each in enumerate(ticks) if each is not None and TESTS[test](each)]
    where = asked(test, column, type_)
    for condition in (where, f"({where}) AND lower('A') = 'a'"):
        scan = fine_lake.scan(condition, ["k"], time_zone="UTC")
        assert sorted(scan.to_arrow()["k"].to_pylist()) == expected, condition
        assert sorted(scan.to_arrow_dataset().to_table()["k"].to_pylist()) == expected, condition
        assert scan.count() == len(expected)
    files = {Path(file.path).name for file in fine_lake.session.prune(TABLE, where, time_zone="UTC").files}
    needed = {
        f"{n}.parquet" for n, file in enumerate(FILES) if any(each is not None and TESTS[test](each) for each in file)
    }
    assert needed <= files
    if test.startswith(("{} =", "{} IN")) and needed:
        assert files == needed


@pytest.mark.parametrize("test", TESTS)
def test_select_is_duckdb(fine_lake: Lake, test: str) -> None:
    """Over the same files; with constants of TIMESTAMP_NS, and with texts."""
    for type_ in ("TIMESTAMP_NS", "TIMESTAMP", ""):
        where = asked(test, "t", type_)
        with duckdb.connect() as engine:
            truth = engine.execute(f"SELECT k FROM read_parquet('{fine_lake.root}/*.parquet') WHERE {where}").fetchall()
        found: list[Any] = fine_lake.session.sql(f"SELECT k FROM {TABLE} WHERE {where}")["k"].to_pylist()
        assert sorted(found) == sorted(k for (k,) in truth), where
    where = asked(test, "t", "TIMESTAMP_NS")
    if test == "{} = '.123456789'":
        plan: list[Any] = fine_lake.session.sql(f"EXPLAIN SELECT k FROM {TABLE} WHERE {where}")["plan"].to_pylist()
        first = next(line for line in plan if "files:" in line)
        assert "1 of 3" in first


def test_views_compare_nanoseconds_too(fine_lake: Lake) -> None:
    """Their text is Spark's, and DuckDB runs it in SELECT."""
    fine_lake.session.views.define(
        "dfs.tmp.fine", f"SELECT k FROM {TABLE} WHERE t = TIMESTAMP_NTZ '2024-01-01 00:00:00.123456789'"
    )
    assert fine_lake.session.sql("SELECT * FROM dfs.tmp.fine")["k"].to_pylist() == [0]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("micros = TIMESTAMP_NTZ '2024-01-01 00:00:00.123456789'", [0, 1, 2]),
        ("micros < TIMESTAMP_NTZ '2024-01-01 00:00:00.123456789'", []),
        ("micros >= '2024-01-01 00:00:00.125000001'", [5, 6]),
    ],
)
def test_beside_microseconds_a_constant_is_cut_as_spark_cuts_it(
    fine_lake: Lake, where: str, expected: list[int]
) -> None:
    """Spark has no finer one."""
    assert sorted(fine_lake.scan(where, ["k"]).to_arrow()["k"].to_pylist()) == expected


def test_readers_of_microseconds_get_earlier_ones(tmp_path: Path) -> None:
    """Those of Spark: before 1970 too, and alike from files and from a table of Iceberg."""
    ticks = [1_001, -999, None, -1_000]
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}"}
    settings = {
        "drill.metastore.iceberg.location.base_path": f"{tmp_path}/store",
        "drill.metastore.catalogs.prod": catalog,
        "drill.metastore.storage.lake": {"type": "iceberg", "catalog": "prod"},
        "drill.metastore.storage.dfs.workspaces.tmp.location": str(tmp_path),
    }
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"t": pa.array(ticks, pa.timestamp("ns"))}), tmp_path / "t/1.parquet")
    with connect(Settings.from_mapping(settings, environ={})) as session:
        session.analyze(TABLE)
        session.sql("CREATE SCHEMA prod.db")
        session.sql("CREATE TABLE prod.db.t (t TIMESTAMP_NS) WITH (format_version = 3)")
        session.sql(f"INSERT INTO prod.db.t SELECT t FROM {TABLE}")
        for table in (TABLE, "lake.db.t"):
            chunk = replace(session.tables.scan(table).chunk, types=pa.schema([("t", pa.timestamp("us"))]))
            read = pa.Table.from_batches(read_rows(chunk))
            assert read["t"].cast(pa.int64()).to_pylist() == [1, -1, None, -1], table


@pytest.mark.parametrize("first", range(5))
def test_parts_of_columns_are_rounded_down_too(first: int) -> None:
    """Also in a slice of a batch."""

    def columns(unit: Any, times: Sequence[int | None]) -> pa.RecordBatch:
        type_ = pa.timestamp(unit)
        part = pa.struct([("t", type_)])
        inside: list[Any] = [None if each is None else {"t": each} for each in times]
        lists = [each and [each, None] for each in inside]
        maps = [each and [("a", each["t"])] for each in inside]
        whole = {"s": pa.array(inside, part), "l": pa.array(lists, pa.list_(part))}
        return pa.record_batch({**whole, "m": pa.array(maps, pa.map_(pa.string(), type_))})

    fine, coarse = columns("ns", [1_001, -999, None, -1_000, 999]), columns("us", [1, -1, None, -1, 0])
    assert in_types(fine.slice(first), coarse.schema).equals(coarse.slice(first))
