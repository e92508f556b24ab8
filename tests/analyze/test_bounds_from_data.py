"""Bounds from data: exact against DuckDB and the values, incremental, kept up, and honest about INT96."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.config.settings import Settings
from metastore.errors import FormatError, InvalidRequestError
from metastore.model.statistics import ColumnStatistics
from metastore.model.vocabulary import MetadataType
from metastore.overview.tables import describe
from metastore.session import Session, connect

TABLE = "dfs.lake.t"
REACH = dt.timedelta(hours=26)


class Lake:
    """One table, and a session that knows it."""

    def __init__(self, folder: Path, bounds: str | None = None) -> None:
        self.root = folder / "lake" / "t"
        self.root.mkdir(parents=True)
        workspace = {"location": str(folder / "lake"), **({} if bounds is None else {"bounds": bounds})}
        self.session: Session = connect(
            Settings.from_mapping(
                {
                    "drill.metastore.iceberg.location.base_path": f"{folder}/metastore",
                    **{f"drill.metastore.storage.dfs.workspaces.lake.{key}": each for key, each in workspace.items()},
                },
                environ={},
            )
        )

    def write(self, name: str, table: pa.Table, **options: Any) -> Path:
        """Write a file; INT96 and no statistics unless ``options`` say otherwise."""
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path, **options)
        return path

    def statistics(self, column: str, kind: str = "TABLE") -> list[dict[str, Any]]:
        """What a column's statistics say in each unit of a kind, by the unit's name."""
        read = (
            self.session.tables.read()
            .metadata_types(MetadataType(kind))
            .columns("metadataIdentifier", "columnsStatistics")
        )
        units = sorted(read.to_arrow().to_pylist(), key=lambda unit: unit["metadataIdentifier"])
        return [asdict(ColumnStatistics.from_json(dict(unit["columnsStatistics"])[f"`{column}`"])) for unit in units]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """An empty lake."""
    made = Lake(tmp_path)
    yield made
    made.session.close()


def months(first: int, last: int) -> pa.Table:
    """A row a month, a null, and a last row at the end of the last month."""
    times = [dt.datetime(2024, month, 5, 6) for month in range(first, last + 1)]
    return pa.table({"ts": pa.array([*times, None, dt.datetime(2024, last, 25)], pa.timestamp("us"))})


def test_int96_skips_files_and_row_groups_without_being_asked(lake: Lake) -> None:
    """By bounds as wide as zones are apart, which a note says; the rows are those of a scan without a condition."""
    for month in range(1, 11):
        lake.write(f"{month:02}.parquet", months(month, month), use_deprecated_int96_timestamps=True, row_group_size=2)
    assert lake.session.analyze(TABLE).without_bounds == {}
    pruned = lake.session.prune(TABLE, "ts < '2024-02-01'")
    assert pruned.files_count.kept == 1
    assert pruned.row_groups_count.kept == 2
    assert pruned.notes == ["bounds of ts are 26 hours wider than its values: engines read INT96 in different zones"]
    [known] = lake.statistics("ts")
    assert (known["min"], known["max"]) == (
        dt.datetime(2024, 1, 5, 6) - REACH,
        dt.datetime(2024, 10, 25) + REACH,
    )
    assert (known["min_exact"], known["max_exact"], known["nulls"], known["non_nulls"]) == (False, False, 10, 20)
    asked = lake.session.tables.scan(TABLE).aggregate(["min(ts)", "max(ts)", "count(ts)"])
    with duckdb.connect() as engine:
        judge = engine.execute(f"SELECT min(ts), max(ts), count(ts) FROM '{lake.root}/*.parquet'").fetchall()
    assert [tuple(asked.to_pylist()[0].values())] == judge


def test_doubles_of_an_old_writer_skip_files(lake: Lake) -> None:
    """parquet-mr before 1.10 may have left NaNs out of its bounds: the data tells them, and whether there is a NaN."""
    files: list[list[float | None]] = [[1.0, 2.0], [3.0, float("nan")], [5.0, None]]
    for number, values in enumerate(files):
        path = lake.write(f"{number}.parquet", pa.table({"x": pa.array(values, pa.float64())}), store_schema=False)
        own = pq.read_metadata(path).created_by.encode()
        path.write_bytes(path.read_bytes().replace(own, b"parquet-mr version 1.8.1".ljust(len(own))))
    lake.session.analyze(TABLE)
    for condition, kept, rows in (("x < 2.5", [0], 2), ("x > 4", [1, 2], 2), ("x = 5", [2], 1)):
        paths = lake.session.prune(TABLE, condition).paths
        assert [int(Path(path).stem) for path in paths] == kept
        assert lake.session.tables.scan(TABLE, condition).to_arrow().num_rows == rows
    assert lake.session.analyze(TABLE).status == "up to date"
    lake.session.analyze(TABLE, bounds="footers")
    assert len(lake.session.prune(TABLE, "x < 2.5").paths) == 3


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12", "America/New_York"])
def test_no_zone_of_a_session_loses_a_row_of_int96(lake: Lake, zone: str) -> None:
    """Spark takes INT96 as instants, other engines as clocks: files with rows of either meaning are kept."""
    for day in range(1, 29):
        times = pa.array([dt.datetime(2024, 5, day, 12)], pa.timestamp("us"))
        lake.write(f"{day:02}.parquet", pa.table({"ts": times}), use_deprecated_int96_timestamps=True)
    lake.session.analyze(TABLE)
    kept = {Path(path).stem for path in lake.session.prune(TABLE, "date(ts) = '2024-05-10'", time_zone=zone).paths}
    with duckdb.connect() as engine:
        engine.execute(f"SET TimeZone = '{zone}'")
        as_instants = engine.sql(
            "SELECT d FROM range(1, 29) AS days(d)"
            " WHERE (make_timestamp(2024, 5, d, 12, 0, 0) AT TIME ZONE 'UTC')::DATE = DATE '2024-05-10'"
        ).fetchall()
    assert {f"{day:02}" for (day,) in as_instants} | {"10"} <= kept
    assert len(kept) <= 4


@pytest.mark.parametrize("bounds", ["data", ["d"]])
def test_floats_skip_files_that_have_no_nan(lake: Lake, bounds: str | list[str]) -> None:
    """Footers do not say whether there is a NaN, which ``>`` and ``<>`` find; the data does."""
    files: list[list[float | None]] = [[5.0, 5.0], [5.0, float("nan")], [7.0, None], [5.0, None]]
    for number, values in enumerate(files):
        lake.write(f"{number}.parquet", pa.table({"d": pa.array(values, pa.float64())}))
    lake.session.analyze(TABLE)
    assert len(lake.session.prune(TABLE, "d <> 5").paths) == 4
    lake.session.analyze(TABLE, bounds=bounds)
    for condition, kept in (("d <> 5", "12"), ("NOT d = 5", "12"), ("d > 5", "12"), ("d > 7", "1"), ("d IN (7)", "2")):
        paths = lake.session.prune(TABLE, condition).paths
        assert sorted(Path(path).stem for path in paths) == [*kept], condition
    assert lake.session.analyze(TABLE).status == "up to date"


def test_old_days_of_int96_are_unknown(lake: Lake) -> None:
    """Spark moves them to another calendar, by the file's writer and its own settings."""
    times = pa.array([dt.datetime(1850, 1, 1), dt.datetime(2024, 1, 1)], pa.timestamp("us"))
    lake.write("a.parquet", pa.table({"ts": times}), use_deprecated_int96_timestamps=True)
    result = lake.session.analyze(TABLE)
    assert list(result.without_bounds) == ["ts"]
    [known] = lake.statistics("ts")
    assert (known["min"], known["max"], known["nulls"], known["non_nulls"]) == (None, None, 0, 2)


VALUES: dict[str, Any] = {
    "i": pa.array([3, None, -7, 2**62], pa.int64()),
    "u": pa.array([3, None, 7, 2**64 - 1], pa.uint64()),
    "f": pa.array([1.5, None, float("nan"), -2.5]),
    "t": pa.array(["b", None, "\u00e9\U0001f600", ""]),
    "b": pa.array([b"\xff", None, b"", b"a"]),
    "d": pa.array([dt.date(2024, 2, 29), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "m": pa.array([dt.datetime(2024, 2, 29, 1, 2, 3, 4), None, dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)]),
    "z": pa.array([dt.datetime(2024, 2, 29, tzinfo=dt.timezone.utc), None, None, None], pa.timestamp("us", "UTC")),
    "n": pa.array([True, None, False, True]),
}


def test_data_says_what_footers_would_say(lake: Lake, tmp_path: Path) -> None:
    """Files without statistics, read, have the bounds and counts of the same files with statistics."""
    other = Lake(tmp_path / "other")
    table = pa.table({**VALUES, "s": pa.StructArray.from_arrays([VALUES["i"]], ["x"])})
    for part in range(2):
        rows = table.slice(part * 2, 2)
        lake.write(f"{part}.parquet", rows, write_statistics=False, row_group_size=1)
        other.write(f"{part}.parquet", rows, row_group_size=1)
    lake.session.analyze(TABLE, bounds="data")
    other.session.analyze(TABLE, bounds="footers")
    same = ("min", "max", "nulls", "non_nulls")
    for column in (*VALUES, "s`.`x"):
        for kind in ("TABLE", "SEGMENT", "FILE", "ROW_GROUP"):
            for read, stated in zip(lake.statistics(column, kind), other.statistics(column, kind), strict=True):
                if stated["nans"] is None and column == "f":
                    continue  # Arrow leaves NaN out of bounds; whether there is one, only data says
                assert [read[key] for key in same] == [stated[key] for key in same], (column, kind)


def test_what_was_asked_for_is_kept_up_for_new_files(lake: Lake) -> None:
    """Only new files are read; an increment ends where a first run does."""
    lake.write("1.parquet", months(1, 2), write_statistics=False)
    lake.session.analyze(TABLE)
    assert lake.session.prune(TABLE, "ts > '2025-01-01'").files_count.kept == 1
    first = lake.session.analyze(TABLE, bounds=["ts"])
    assert (first.status, first.reason) == ("analyzed", "the last run took bounds from elsewhere")
    assert lake.session.prune(TABLE, "ts > '2025-01-01'").files_count.kept == 0
    assert lake.session.analyze(TABLE).status == "up to date"
    lake.write("2.parquet", months(6, 7), write_statistics=False)
    again = lake.session.analyze(TABLE)
    assert (again.new, again.changed, again.reason) == (1, 0, None)
    assert lake.session.prune(TABLE, "ts > '2024-05-01'").files_count.kept == 1
    increment = lake.statistics("ts", "FILE")
    lake.session.drop_metadata(TABLE)
    lake.session.analyze(TABLE, bounds=["ts"])
    assert lake.statistics("ts", "FILE") == increment


def test_columns_whose_data_is_read_add_up(lake: Lake) -> None:
    """Columns that a later ANALYZE names join those named before, for new files too."""
    table = pa.table({"x": [1.0, 2.0], "y": [3.0, 4.0], "z": [5.0, 6.0]})
    lake.write("1.parquet", table, write_statistics=False)
    lake.session.analyze(TABLE, bounds=["x"])
    assert list(lake.session.analyze(TABLE, bounds=["y"]).without_bounds) == ["z"]
    lake.write("2.parquet", table, write_statistics=False)
    assert list(lake.session.analyze(TABLE).without_bounds) == ["z"]
    assert [each["max"] for each in lake.statistics("x", "FILE") + lake.statistics("y", "FILE")] == [2, 2, 4, 4]


def test_statistics_asked_for_later_bring_bounds_too(lake: Lake) -> None:
    """The column is read for them anyway; one that has bounds is not measured again."""
    lake.write("1.parquet", months(1, 2), write_statistics=False)
    lake.session.analyze(TABLE)
    lake.session.analyze(TABLE, statistics=["ts"])
    assert lake.statistics("ts")[0]["max"] == dt.datetime(2024, 2, 25)
    assert lake.session.analyze(TABLE).status == "up to date"


def test_sql_names_columns_and_sources(lake: Lake) -> None:
    """As a clause of its own, beside the others, and as an option of the table."""
    lake.write("1.parquet", months(1, 2), write_statistics=False)
    [row] = lake.session.sql("ANALYZE TABLE dfs.lake.t REFRESH METADATA").to_pylist()
    assert row["notes"] == [
        "ts cannot skip files: a footer lacks bounds that can be trusted; ANALYZE … BOUNDS (ts) reads its data"
    ]
    for statement in (
        "ANALYZE TABLE dfs.lake.t BOUNDS (ts)",
        "ANALYZE TABLE dfs.lake.t COLUMNS (ts) BOUNDS (ts) REFRESH METADATA 'FILE' LEVEL",
        "ANALYZE TABLE dfs.lake.t REFRESH METADATA BOUNDS (ts)",
        "ANALYZE TABLE dfs.lake.t (bounds => 'data') REFRESH METADATA",
        "ANALYZE TABLE dfs.lake.t COMPUTE STATISTICS (ts)",
    ):
        lake.session.drop_metadata(TABLE)
        [row] = lake.session.sql(statement).to_pylist()
        assert row["notes"] == []
        assert lake.statistics("ts")[0]["max"] == dt.datetime(2024, 2, 25), statement


def test_the_advice_can_be_typed_for_columns_of_any_name(lake: Lake) -> None:
    """A name with a dot is no field of a struct; and ``describe`` gives the reason to the right one of the two."""
    named = {name: [1.0, 2.0] for name in ("a.b", "x y", "q`q", 'd"d', "back\\slash", "order", "1")}
    inside = pa.array([{"b": 1.0, "b.c": 2.0}, None])
    lake.write("1.parquet", pa.table({**named, "a": inside, "li.st": [[1.0], [2.0]]}), write_statistics=False)
    reasons = lake.session.analyze(TABLE).without_bounds
    assert len(reasons) == len(named) + 3
    advised = {name: reason[reason.index("BOUNDS (") + 8 : reason.rindex(")")] for name, reason in reasons.items()}
    lake.session.sql(f"ANALYZE TABLE {TABLE} BOUNDS ({advised['a.b']})")
    cannot = [(column.name, column.max) for column in describe(lake.session, TABLE).columns if column.cannot_prune]
    assert ("a.b", None) in cannot
    assert len(cannot) == len(reasons) - 1
    [row] = lake.session.sql(f"ANALYZE TABLE {TABLE} BOUNDS ({', '.join(advised.values())})").to_pylist()
    assert row["notes"] == []


def test_a_workspace_says_where_bounds_come_from(tmp_path: Path) -> None:
    """Until an ANALYZE of the table says otherwise."""
    lake = Lake(tmp_path, bounds="footers")
    lake.write("1.parquet", months(1, 2), use_deprecated_int96_timestamps=True)
    assert list(lake.session.analyze(TABLE).without_bounds) == ["ts"]
    assert lake.session.analyze(TABLE, bounds="auto").without_bounds == {}
    assert lake.session.analyze(TABLE).status == "up to date"


def test_a_column_that_is_not_there_is_refused(lake: Lake) -> None:
    """By name, and nothing is stored."""
    lake.write("1.parquet", months(1, 2))
    with pytest.raises(InvalidRequestError, match="gone"):
        lake.session.analyze(TABLE, bounds=["gone"])


def test_data_that_cannot_be_read_is_an_error_only_where_the_column_is_named(lake: Lake) -> None:
    """Else its bounds are unknown, as without reading; the other columns have theirs."""
    table = months(1, 2).append_column("i", pa.array([1, 2, 3, 4]))
    path = lake.write("1.parquet", table, use_deprecated_int96_timestamps=True, compression="zstd")
    chunk = pq.read_metadata(path).row_group(0).column(0)
    content = bytearray(path.read_bytes())
    content[4 : 4 + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(content)
    assert list(lake.session.analyze(TABLE).without_bounds) == ["ts"]
    assert lake.statistics("i")[0]["max"] == 4
    with pytest.raises(FormatError, match=r"1\.parquet"):
        lake.session.analyze(TABLE, bounds=["ts"])
