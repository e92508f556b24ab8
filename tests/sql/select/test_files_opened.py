"""Only files that a condition leaves are opened, at every door, and the rows are those of DuckDB over all files.

Files that should not be opened are emptied while a door is asked: whoever opens one fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.config import Settings
from metastore.session import Session, connect

MONTHS = range(1, 9)


def month_of(number: int) -> pa.Table:
    """Two rows of one month."""
    first, last = datetime(2024, number, 1), datetime(2024, number, 28, 23, 59, 59)
    return pa.table(
        {
            "id": pa.array([number * 10, number * 10 + 1], pa.int32()),
            "ts": pa.array([first, last], pa.timestamp("us")),
            "utc": pa.array([each.replace(tzinfo=timezone.utc) for each in (first, last)], pa.timestamp("us", "UTC")),
            "day": pa.array([first.date(), last.date()]),
            "d": pa.array([Decimal(number), Decimal(number) + Decimal("0.5")], pa.decimal128(38, 3)),
            "s": pa.array([f"m{number:02}a", f"m{number:02}b"]),
            "flag": pa.array([number == 3, number == 3]),
            "gap": pa.array([None if number % 2 else number, None], pa.int64()),
            "p": [{"x": number, "y": {"z": f"z{number}"}}, {"x": number, "y": None}],
            "clock": pa.array([time(number), time(number, 59)], pa.time64("us")),
        }
    )


@dataclass(frozen=True)
class Months:
    """The same rows as ``dfs.w.t`` (analyzed) and ``lake.s.t`` (Iceberg): a file a month."""

    session: Session
    folder: Path
    rows: pa.Table

    def right(self, where: str) -> list[int]:
        """The ids that DuckDB finds in all rows."""
        with duckdb.connect() as alone:
            alone.execute("SET TimeZone = 'UTC'")
            alone.register("given", self.rows)
            alone.execute("CREATE TABLE t AS FROM given")
            return [number for (number,) in alone.execute(f"SELECT id FROM t WHERE {where} ORDER BY id").fetchall()]

    @contextmanager
    def only(self, names: set[str]) -> Iterator[None]:
        """While it lasts, all data files but those of ``names`` are empty, and look as before to a listing."""
        kept: dict[Path, tuple[bytes, os.stat_result]] = {}
        for path in [*self.folder.rglob("lake/t/*.parquet"), *self.folder.rglob("wh/s/t/data/*.parquet")]:
            if path.name not in names:
                kept[path] = (path.read_bytes(), path.stat())
        try:
            for path, (content, stat) in kept.items():
                _write(path, bytes(len(content)), stat)
            yield
        finally:
            for path, (content, stat) in kept.items():
                _write(path, content, stat)


def _write(path: Path, content: bytes, stat: os.stat_result) -> None:
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Months]:
    """Eight months."""
    folder = tmp_path_factory.mktemp("months")
    given: dict[str, Any] = {
        "drill.metastore.iceberg.location.base_path": f"{folder}/metastore",
        "drill.metastore.storage.dfs.workspaces.w.location": f"{folder}/lake",
        "drill.metastore.catalogs.lake": {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/wh",
        },
    }
    (folder / "lake" / "t").mkdir(parents=True)
    parts = [month_of(number) for number in MONTHS]
    with connect(Settings.from_mapping(given, environ={})) as session:
        catalog = session.catalogs.open("lake")
        catalog.create_namespace("s")
        table = catalog.create_table("s.t", parts[0].schema)
        for number, part in enumerate(parts, 1):
            pq.write_table(part, folder / "lake" / "t" / f"{number:02}.parquet")
            table.append(part)
        session.analyze("dfs.w.t")
        yield Months(session, folder, pa.concat_tables(parts))


CONDITIONS = [
    ("ts < '2024-02-01'", 1),
    ("ts < TIMESTAMP '2024-02-01 00:00:00'", 1),
    ("ts < CAST('2024-02-01 00:00:00' AS TIMESTAMP)", 1),
    ("ts < DATE '2024-02-01'", 1),
    ("utc >= TIMESTAMP '2024-08-01 00:00:00'", 1),
    ("utc = '2024-08-01 00:00:00+00:00'", 1),
    ("day BETWEEN DATE '2024-03-01' AND '2024-04-15'", 2),
    ("day = DATE '2024-03-31' + INTERVAL 1 DAY", 1),
    ("CAST(ts AS DATE) = '2024-05-28'", 1),
    ("date_trunc('month', ts) = TIMESTAMP '2024-05-01 00:00:00'", 1),
    ("year(ts) = 2024 AND id = 31", 1),
    ("year(day) = 2025", 0),
    ("month(ts) = 5", 1),
    ("month(utc) IN (5, 6)", 2),
    ("quarter(day) = 3", 2),
    ("d = 3.0000", 1),
    ("d > 8.4999999999999999999999999999999999", 1),
    ("d < -9999999999999999999999999999999999", 0),
    ("id = 99999999999", 0),
    ("id + 1 = 32", 1),
    ("id = 31::INT", 1),
    ("id IN (10, 81)", 2),
    ("(id = 10 AND s = 'm01a') OR (id > 80 AND s <> 'm01a')", 2),
    ("flag", 1),
    ("NOT flag AND id < 12", 1),
    ("left(s, 3) = 'm07'", 1),
    ("s LIKE 'm07%'", 1),
    ("starts_with(s, 'm07')", 1),
    ("coalesce(gap, 100) = 4", 1),
    ("gap IS NOT NULL AND gap <> 4", 3),
    ("NOT (gap = 4)", 3),
    ("gap IS NOT DISTINCT FROM 4", 1),
    ("p.x = 3", 1),
    ("p.x + 1 > 8", 1),
    ("p.y.z = 'z5'", 1),
    ("p.y.z LIKE 'z5%' OR p.x = 1", 2),
    ("clock < TIME '02:00:00'", 1),
    ("clock = TIME '08:59:00'", 1),
    ("flag = true", 1),
    ("flag IS TRUE", 1),
    ("flag IS NOT TRUE", 7),
    ("NOT flag", 7),
    ("NOT (flag OR id < 80)", 1),
    ("s = 'm01a'", 1),
    ("s IN ('m01a', 'm08b', 'x')", 2),
    ("s BETWEEN 'm02' AND 'm03z'", 2),
    ("'m08' <= s", 1),
    ("substring(s, 1, 3) = 'm07'", 1),
    ("s LIKE 'm07a'", 1),
    ("id BETWEEN 30 AND 41", 2),
    ("NOT id BETWEEN 30 AND 81", 2),
    ("id = 31.0", 1),
    ("id = 30.5", 1),
    ("id * 2 = 62", 1),
    ("50 - id > 20", 2),
    (f"id IN ({', '.join(map(str, range(30, 5000)))})", 6),
    ("d IN (1.000, 2.5)", 2),
    ("d BETWEEN 2.25 AND 2.75", 1),
    ("d = 99999999999999999999999999999999999.999", 0),
    ("d < CAST('1.5' AS DECIMAL(38, 3))", 1),
    ("ts >= TIMESTAMP '2024-01-31 00:00:00' + INTERVAL 1 MONTH", 6),
    ("ts < DATE '2024-03-01' - INTERVAL 1 DAY", 2),
    ("day IN (DATE '2024-01-01', DATE '2024-08-28')", 2),
    ("date_trunc('year', ts) = TIMESTAMP '2023-01-01 00:00:00'", 0),
    ("year(ts) = 2024 AND month(ts) BETWEEN 2 AND 3", 2),
    ("coalesce(gap, -1) > 5", 2),
    ("(day < DATE '2024-02-01' AND flag) OR (p.x = 2 AND NOT flag)", 1),
]


@pytest.mark.parametrize(("where", "files"), CONDITIONS)
def test_only_the_files_that_may_match_are_opened(months: Months, where: str, files: int) -> None:
    """The number of files is exact: those of the interpreter, and no other is touched by SELECT or a scan."""
    session, right = months.session, months.right(where)
    pruned = session.prune("dfs.w.t", where, time_zone="UTC")
    assert pruned.files_count.kept == files
    assert not pruned.notes
    names = {Path(path).name for path in pruned.paths}
    with months.only(names):
        found = session.sql(f"SELECT id FROM dfs.w.t WHERE {where} ORDER BY id")
        assert found["id"].to_pylist() == right
        scan = session.tables.scan("dfs.w.t", where)
        assert {Path(path).name for path in scan.paths} == names
        ids: list[Any] = scan.to_arrow()["id"].to_pylist()
        assert sorted(ids) == right
        assert scan.count() == len(right)
    catalogs_table = session.catalogs.open("lake").load_table("s.t")
    wanted = {
        Path(task.file.file_path).name
        for task in catalogs_table.scan().plan_files()
        if set(_ids(task.file.file_path)) & set(right)
    }
    lines = plan(session, f"SELECT id FROM lake.s.t WHERE {where}")
    kept = next(line for line in lines if line.startswith("  files: "))
    if kept == f"  files: {len(wanted)} of 8 read, {8 - len(wanted)} skipped":
        with months.only(wanted):
            assert session.sql(f"SELECT id FROM lake.s.t WHERE {where} ORDER BY id")["id"].to_pylist() == right
    else:
        # Iceberg's bounds do not tell a value that is left out, nor how many are null; PyIceberg writes none of fields.
        assert any(word in where for word in ("flag", "gap", "<>", "coalesce", "month(", "quarter(", "p."))
        assert any(line.startswith("  note: ") for line in lines) or " 8 of 8 " not in kept
        assert session.sql(f"SELECT id FROM lake.s.t WHERE {where} ORDER BY id")["id"].to_pylist() == right


def _ids(location: str) -> list[int]:
    ids: list[Any] = pq.read_table(location.removeprefix("file://"), columns=["id"])["id"].to_pylist()
    return ids


def plan(session: Session, query: str) -> list[str]:
    """The lines of EXPLAIN."""
    return [str(line) for line in session.sql(f"EXPLAIN {query}")["plan"].to_pylist()]


@pytest.mark.parametrize("table", ["dfs.w.t", "lake.s.t"])
@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("lower(s) = 'm01a'", "not usable for pruning: LOWER(s) = 'm01a' (lower of a column is not unwrapped)"),
        ("id = gap", "not usable for pruning: id = gap (columns are compared with each other)"),
        ("id IN (SELECT 10)", "a subquery"),
        ("id > 0", "skipped: "),
    ],
)
def test_explain_says_why_nothing_is_skipped(months: Months, table: str, where: str, said: str) -> None:
    """A note for each part that cannot prune, and one where what is asked excludes no file."""
    lines = plan(months.session, f"SELECT id FROM {table} WHERE {where}")
    notes = [line for line in lines if line.startswith("  note: ")]
    assert "  files: 8 of 8 read, 0 skipped" in lines
    assert notes
    if said != "skipped: ":
        assert any(said in note for note in notes)
    else:
        assert "skipped" in notes[0]


def test_explain_names_what_excluded(months: Months) -> None:
    """Files and row groups by the part of the condition that excluded them."""
    lines = plan(months.session, "SELECT id FROM dfs.w.t WHERE year(ts) = 2024 AND id = 31")
    assert lines[0].startswith("Fetch dfs.w.t (id, ts) where ts >= '2024-01-01 00:00:00'")
    assert lines[1:5] == [
        "  files: 1 of 8 read, 7 skipped",
        "  row groups: 1 of 8 read, 7 skipped",
        "  skipped by:",
        "      7 files: id = 31",
    ]
    lines = plan(months.session, "SELECT id FROM lake.s.t WHERE id = 31 AND s LIKE 'm%'")
    assert lines[:4] == [
        "Fetch lake.s.t (id, s) where id = 31 AND s LIKE 'm%'",
        "  files: 1 of 8 read, 7 skipped",
        "  skipped by:",
        "      7 files: id = 31",
    ]
