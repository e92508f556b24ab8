"""A scan beyond its rows: what it reads and says, columns and types, files that are not like the others."""

from __future__ import annotations

import datetime as dt
import os
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyiceberg.expressions import EqualTo, GreaterThan, In, Not
from support.scan_lake import Lake

from metastore.errors import FormatError, InvalidRequestError, NotFoundError, StorageError
from metastore.scan.parquet_parts import ParquetFiles
from metastore.scan.scan import Scan

TABLE = "dfs.tmp.t"


@pytest.fixture
def years(lake: Lake) -> Lake:
    """``n`` from 0 to 39, ten in each of four files of two years, in row groups of five."""
    for number in range(4):
        columns = {"n": range(number * 10, number * 10 + 10)}
        lake.write(f"year={2020 + number // 2}/{number}.parquet", columns, row_group_size=5)
    lake.analyze()
    return lake


def test_what_is_read_and_why_is_told(years: Lake) -> None:
    """Files and row groups kept and skipped, the parts of the question that skipped them, and usedMetastore."""
    scan = years.scan("n >= 17 AND year < 2022 AND abs(n) < 30")
    told = scan.explain()
    assert (told.used_metastore, told.files.kept, told.files.skipped) == (True, 3, 1)
    assert (told.row_groups.kept, told.row_groups.total) == (5, 8)
    assert told.skipped_by == {"n >= 17": 1}
    assert scan.row_groups == {path: (1,) if path.endswith("1.parquet") else None for path in scan.paths}
    text = str(told)
    assert "usedMetastore=true" in text
    assert "files:      3 of 4 read, 1 skipped" in text
    assert "1 files: n >= 17" in text
    assert "row group 1" in text
    assert "not usable for pruning: ABS(n) < 30" in text


def test_files_that_changed_are_read_and_told(years: Lake) -> None:
    """New ones and changed ones in doubt, removed ones not at all; with nothing else the metastore was of no use."""
    years.write("year=2022/new.parquet", {"n": [100]})
    years.write("year=2020/0.parquet", {"n": [200]})
    years.remove("year=2021/3.parquet")
    scan = years.scan("n >= 100")
    assert sorted(scan.to_arrow()["n"].to_pylist()) == [100, 200]
    assert len(scan.explain().read_in_doubt) == 2
    assert scan.explain().used_metastore
    assert "new.parquet: not analyzed" in str(scan.explain())
    for path in years.paths():
        if not path.endswith("new.parquet"):
            years.remove(path)
    assert not years.scan("n >= 100").explain().used_metastore
    trusted = years.scan("n >= 35", list_files=False)
    with pytest.raises(NotFoundError, match=r"3\.parquet is gone"):
        trusted.to_arrow()


def test_directories_are_columns_of_the_known_types(lake: Lake) -> None:
    """Typed where they are called ``k=v``, text where they are not; levels can be asked for by number."""
    for name, value in (("day=2020-01-02/x=1.5/a", 1), ("day=__HIVE_DEFAULT_PARTITION__/x=2/b", 2), ("c", 3)):
        lake.write(f"{name}.parquet", {"n": [value]})
    lake.analyze()
    scan = lake.scan()
    assert {f.name: f.type for f in scan.schema} == {"n": pa.int64(), "day": pa.date32(), "x": pa.float64()}
    rows = sorted(scan.to_arrow().to_pylist(), key=lambda row: row["n"])
    assert rows == [
        {"n": 1, "day": dt.date(2020, 1, 2), "x": 1.5},
        {"n": 2, "day": None, "x": 2.0},
        {"n": 3, "day": None, "x": None},
    ]
    assert lake.scan("dir1 = 'x=2'", ["n", "dir0"]).to_arrow().to_pylist() == [
        {"n": 2, "dir0": "day=__HIVE_DEFAULT_PARTITION__"}
    ]
    lake.write("day=tomorrow/x=1/d.parquet", {"n": [4]})
    with pytest.raises(
        InvalidRequestError, match=r"day=tomorrow/x=1 do not fit .*day is date32.*'tomorrow'.* run ANALYZE"
    ):
        lake.scan()
    lake.analyze()
    assert lake.scan("day = 'tomorrow'").to_arrow()["n"].to_pylist() == [4]


def test_plain_directories_are_dirs_by_level(lake: Lake) -> None:
    """A file that lies less deep has null there."""
    lake.write("1994/Q1/a.parquet", {"n": [1]})
    lake.write("1995/b.parquet", {"n": [2]})
    lake.analyze()
    rows = lake.scan(columns=["n", "dir0", "dir1"]).to_arrow().to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1, "1994", "Q1"), (2, "1995", None)]
    assert lake.scan("dir1 IS NULL", ["n"]).to_arrow()["n"].to_pylist() == [2]


@pytest.mark.parametrize(("folder", "column"), [("eu", "dir0"), ("1", "dir0"), ("region=eu", "region")])
def test_a_directory_that_is_no_value_of_the_files_own_column_is_named(lake: Lake, folder: str, column: str) -> None:
    """Rows have a directory's value where files have a column of the same name; it must be one of the column's type."""
    lake.write(f"{folder}/a.parquet", {column: [1]})
    lake.analyze()
    with pytest.raises(InvalidRequestError, match=f"{column} is int64, and .* rename the column"):
        lake.scan()


def test_files_of_other_types_are_read_into_the_tables(lake: Lake) -> None:
    """Wider numbers, numbers beside text, a column that is missing, a struct with other fields; in every library."""
    lake.write("a.parquet", {"w": pa.array([1, 2], pa.int32()), "m": [1, 2], "st": [{"a": 1}, {"a": 2}]})
    lake.write("b.parquet", {"w": [2**40], "m": ["x"], "st": [{"a": 3, "b": "z"}], "only": [True]})
    lake.analyze()
    rows = lake.scan().to_arrow().to_pylist()
    assert rows == [
        {"w": 1, "m": "1", "st": {"a": 1, "b": None}, "only": None},
        {"w": 2, "m": "2", "st": {"a": 2, "b": None}, "only": None},
        {"w": 2**40, "m": "x", "st": {"a": 3, "b": "z"}, "only": True},
    ]
    for where, expected in (("m = '2'", [2]), ("w > 1", [2, 2**40]), ("st.b = 'z'", [2**40]), ("m > '1'", [2, 2**40])):
        scan = lake.scan(where, ["w"])
        assert scan.to_arrow()["w"].to_pylist() == expected
        assert scan.to_arrow_dataset().to_table(["w"])["w"].to_pylist() == expected
        assert [row for (row,) in scan.to_duckdb().fetchall()] == expected
        assert scan.to_polars()["w"].to_list() == expected
        assert list(scan.to_pandas()["w"]) == expected
        assert scan.count() == len(expected)


@pytest.mark.parametrize(
    "read",
    [Scan.to_arrow, lambda scan: list(scan.to_batches()), lambda scan: scan.to_duckdb().fetchall()],
    ids=["table", "batches", "duckdb"],
)
def test_no_footer_is_kept_of_what_was_read(years: Lake, monkeypatch: pytest.MonkeyPatch, read: Any) -> None:
    """Those of thousands of wide files take gigabytes: of a file that is gone, nothing is known afterwards."""
    made: list[ParquetFiles] = []
    new = ParquetFiles.__init__

    def noted(self: ParquetFiles, *arguments: Any) -> None:
        new(self, *arguments)
        made.append(self)

    monkeypatch.setattr(ParquetFiles, "__init__", noted)
    assert len(read(years.scan())) > 0
    [dataset] = made
    for path in years.paths():
        years.remove(path)
    for fragment in dataset.get_fragments():
        with pytest.raises(FileNotFoundError):
            _ = fragment.metadata


def test_a_dataset_reads_only_what_is_asked(years: Lake) -> None:
    """It is Arrow's own over the chosen row groups, so a question put to it prunes and projects again."""
    dataset = years.scan("n >= 17").to_arrow_dataset()
    assert isinstance(dataset, ds.FileSystemDataset)
    assert dataset.count_rows() == 23
    assert dataset.to_table(["year"], ds.field("n") == 39)["year"].to_pylist() == [2021]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (GreaterThan("n", 37), [38, 39]),
        (Not(In("n", set(range(1, 40)))), [0]),
        (EqualTo("year", 2021), [*range(20, 40)]),
    ],
)
def test_questions_may_be_expressions(years: Lake, where: Any, expected: list[int]) -> None:
    """PyIceberg's, over the columns of files and directories."""
    assert years.scan(where).to_arrow()["n"].to_pylist() == expected
    assert years.scan(where).count() == len(expected)


def test_an_expression_that_engines_read_differently_is_refused(lake: Lake) -> None:
    """As SQL an engine can be asked what it means; an expression has no engine."""
    lake.write("a.parquet", {"f": pa.array([0.1], pa.float32())})
    lake.analyze()
    with pytest.raises(InvalidRequestError, match="engines do not agree"):
        lake.scan(EqualTo("f", 0.1)).to_arrow()
    assert lake.scan("f = 0.1").to_arrow().num_rows in (0, 1)


def test_zones_and_decimals_are_exact(lake: Lake) -> None:
    """A time without a zone is the scan's; digits beyond a column's fall between its values."""
    lake.write(
        "a.parquet",
        {
            "t": pa.array([dt.datetime(2020, 7, 1, hour, tzinfo=dt.timezone.utc) for hour in (9, 10, 11)]),
            "c": pa.array([Decimal("0.10"), Decimal("0.11"), None]),
        },
    )
    lake.analyze()
    at_ten = "t = TIMESTAMP '2020-07-01 10:00:00'"
    assert lake.scan(at_ten).to_arrow()["t"][0].as_py().hour == 10
    assert lake.scan(at_ten, time_zone="Europe/Berlin").to_arrow().num_rows == 0
    assert lake.scan(at_ten, time_zone="Europe/London").to_arrow()["t"][0].as_py().hour == 9
    for where, rows in (("c > 0.105", 1), ("c < 0.105", 1), ("c = 0.105", 0), ("NOT c = 0.105", 2), ("c < 1e30", 2)):
        assert lake.scan(where).to_arrow().num_rows == rows, where
    with pytest.raises(InvalidRequestError, match="time zone 'Mars'"):
        lake.scan(at_ten, time_zone="Mars")


def test_wrong_questions_say_what_is_wrong(years: Lake) -> None:
    """Unknown tables, columns, doubled and missing ones; a file that is no Parquet file is named."""
    with pytest.raises(NotFoundError, match="dfs.tmp.nope has not been analyzed"):
        years.tables.scan("dfs.tmp.nope")
    with pytest.raises(InvalidRequestError, match="unknown column 'm'"):
        years.scan(columns=["m"])
    with pytest.raises(InvalidRequestError, match="unknown column 'm'"):
        years.scan("m = 1")
    with pytest.raises(InvalidRequestError, match="twice"):
        years.scan(columns=["n", "N"])
    with pytest.raises(InvalidRequestError, match="no columns"):
        years.scan(columns=[])
    with pytest.raises(InvalidRequestError, match="no nofunction"):
        years.scan("nofunction(n) = 1").to_arrow()
    (years.root / "year=2021" / "bad.parquet").write_bytes(b"nonsense")
    with pytest.raises(FormatError, match=r"year=2021/bad\.parquet cannot be read"):
        years.scan().to_arrow()
    assert years.scan("year = 2020").count() == 20


def test_a_table_without_rows_has_its_columns(lake: Lake) -> None:
    """Also when the last file is gone."""
    lake.write("k=1/a.parquet", {"n": pa.array([], pa.int64())})
    lake.analyze()
    assert lake.scan().to_arrow().schema.names == ["n", "k"]
    assert lake.tables.aggregate(TABLE, ["count(*)", "max(n)"]).to_pylist() == [{"count(*)": 0, "max(n)": None}]
    lake.remove("k=1/a.parquet")
    for where in (None, "n = 1", "abs(n) = 1"):
        scan = lake.scan(where)
        assert (scan.to_arrow().num_rows, scan.to_arrow().schema.names, scan.count()) == (0, ["n", "k"], 0)
        assert scan.to_duckdb().fetchall() == []


def test_partitions_that_names_exclude_are_not_even_planned(lake: Lake) -> None:
    """Their metadata is not read and their directories are not listed; new directories count, and explain tells all."""
    for day in range(20):
        lake.write(f"day={day}/a.parquet", {"n": [day]})
    lake.analyze()
    lake.write("day=20/new.parquet", {"n": [20]})
    lake.write("top.parquet", {"n": [-1]})
    scan = lake.scan("day >= 18")
    assert sorted(scan.to_arrow()["n"].to_pylist()) == [18, 19, 20]
    assert set(scan.plan.units.upper()["metadataKey"].to_pylist()) == {"GENERAL_INFO", "day=18", "day=19"}
    assert (scan.count(), scan.explain().files.total, scan.explain().files.kept) == (3, 22, 4)
    trusted = lake.scan("day >= 18", list_files=False)
    assert sorted(trusted.to_arrow()["n"].to_pylist()) == [18, 19]
    assert lake.scan("day IS NULL").to_arrow()["n"].to_pylist() == [-1]
    assert lake.scan("n = 3 OR day = 4").count() == 2
    assert lake.scan("day < 0").to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("f > 2", [1, 3]),
        ("f >= 5", [1, 3]),
        ("NOT f > 2", [0]),
        ("f < 9", [0, 3]),
        ("NOT f < 9", [1]),
        ("f <> 1", [1, 3]),
        ("f IN (1, 5)", [0, 3]),
        ("f NOT IN (1, 7)", [1, 3]),
        ("abs(f) > 2", [1, 3]),
        ("f BETWEEN 2 AND 9", [3]),
    ],
)
def test_nan_is_above_all_numbers(lake: Lake, where: str, expected: list[int]) -> None:
    """To Arrow's judgement and to DuckDB's; null is nothing."""
    lake.write("a.parquet", {"n": range(4), "f": [1.0, float("nan"), None, 5.0]})
    lake.analyze()
    assert lake.scan(where, ["n"]).to_arrow()["n"].to_pylist() == expected
    assert lake.scan(where).count() == len(expected)


def test_a_dataset_keeps_the_rows_that_bounds_of_floats_do_not_tell_of(lake: Lake) -> None:
    """A NaN stands in no bound, so Arrow would skip its row group."""
    lake.write("a.parquet", {"id": [0, 1], "d": [float("nan"), 1.0]})
    lake.analyze()
    scan = lake.scan("NOT (d <= 1)", ["id"])
    assert scan.to_arrow_dataset().to_table(columns=["id"])["id"].to_pylist() == [0]
    assert scan.to_duckdb().fetchall() == [(0,)]


@pytest.mark.parametrize("pattern", ["a_", "a%c", "a_%", "ab%c%"])
def test_a_pattern_asks_for_more_than_its_prefix(lake: Lake, pattern: str) -> None:
    """What begins as a pattern does is no answer yet."""
    texts = ["a", "ab", "abc", "abcd", "b", None]
    lake.write("a.parquet", {"s": texts})
    lake.analyze()
    with duckdb.connect() as engine:
        texts_there = engine.from_arrow(pa.table({"s": texts})).filter(f"s LIKE '{pattern}'").fetchall()
    assert lake.scan(f"s LIKE '{pattern}'").to_arrow()["s"].to_pylist() == [text for (text,) in texts_there]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("s = 'O''Brien'", [0]),
        ("s != 'O''Brien'", [1, 2]),
        ("s IN ('O''Brien', 'x')", [0, 2]),
        ("s LIKE '%''%'", [0]),
        ("contains(s, '''') -- a quote", [0]),
    ],
)
def test_a_doubled_quote_is_one_in_the_text(lake: Lake, where: str, expected: list[int]) -> None:
    """As in Spark 4 and DuckDB: for rows, counts, and the files that are read."""
    for number, name in enumerate(("O'Brien", "OBrien", "x")):
        lake.write(f"{number}.parquet", {"id": [number], "s": [name]})
    lake.analyze()
    assert sorted(lake.scan(where).to_arrow()["id"].to_pylist()) == expected
    assert lake.scan(where).count() == len(expected)
    if "=" in where:
        assert len(lake.session.prune(TABLE, where).paths) == len(expected)


def test_a_level_hides_a_column_only_where_rows_have_its_names(lake: Lake) -> None:
    """A plain directory's name is the value of ``dir0`` in rows and questions, whatever the files have by that name."""
    for name in "ab":
        lake.write(f"{name}/x.parquet", {"dir0": [f"old-{name}"], "k": [name]})
    lake.analyze()
    assert sorted(lake.scan().to_arrow()["dir0"].to_pylist()) == ["a", "b"]
    assert lake.scan("dir0 = 'a'").to_arrow()["k"].to_pylist() == ["a"]
    assert lake.scan("dir0 = 'old-a'").to_arrow().num_rows == 0
    lake.write("k=z/x.parquet", {"dir0": ["old-z"], "k": ["own"]})  # since ANALYZE: k is a column of the files
    assert lake.scan("k = 'own'", ["k"]).to_arrow()["k"].to_pylist() == ["own"]
    assert lake.scan("k = 'z'").to_arrow().num_rows == 0


def test_a_column_called_like_row_ids_is_in_the_way_of_nothing_else(lake: Lake) -> None:
    """Asked for, it is refused; other columns, counts and row ids are there."""
    lake.write("a.parquet", {"$row_id": [7, 8], "i": [0, 1]})
    lake.analyze()
    for where, columns in ((None, None), (None, ["$row_id"]), ("`$row_id` = 7", ["i"]), ("abs(`$row_id`) = 7", ["i"])):
        with pytest.raises(InvalidRequestError, match=r"has a column \$row_id of its own"):
            lake.scan(where, columns).to_arrow()
    assert lake.scan("i = 1", ["i"]).to_arrow()["i"].to_pylist() == [1]
    assert lake.scan("abs(i) = 1", ["i"], row_id=True).to_arrow().column_names == ["i", "$row_id"]
    answer = lake.tables.aggregate(TABLE, ["count(*)", "max(i)"], "abs(i) = 1")
    assert answer.to_pylist() == [{"count(*)": 1, "max(i)": 1}]


@pytest.mark.parametrize("kind", [pa.timestamp, pa.time64])
def test_times_finer_than_the_tables_are_told(lake: Lake, kind: Any) -> None:
    """Where files count in different units the table counts microseconds; the error says what can be done."""
    lake.write("a.parquet", {"x": pa.array([1123456789], kind("ns")), "i": [0]})
    lake.write("b.parquet", {"x": pa.array([1123456], kind("us")), "i": [1]})
    lake.analyze()
    with pytest.raises(FormatError, match=r"a\.parquet has times finer than a microsecond.* or write all"):
        lake.scan().to_arrow()
    assert sorted(lake.scan(columns=["i"]).to_arrow()["i"].to_pylist()) == [0, 1]
    lake.write("b.parquet", {"x": pa.array([1123456000], kind("ns")), "i": [1]})
    lake.analyze()
    assert lake.scan(columns=["x"]).to_arrow()["x"].type == kind("ns")


def test_times_of_int96_are_of_any_year(lake: Lake) -> None:
    """Arrow's nanoseconds end in 2262; what lies beyond them is neither another time nor lost, read in any way."""
    far = [dt.datetime(9999, 12, 31), dt.datetime(1, 1, 2), dt.datetime(2024, 5, 6, 7, 8, 9, 123456)]
    times = pa.array(far, pa.timestamp("us"))
    columns: dict[str, Any] = {
        "id": [0, 1, 2],
        "at": times,
        "all": pa.array([[each] for each in far], pa.list_(times.type)),
    }
    lake.write("a.parquet", columns, use_deprecated_int96_timestamps=True)
    lake.analyze()
    known = pa.table(columns)
    assert lake.scan().to_arrow().equals(known)
    assert lake.scan(row_id=True).to_arrow().drop_columns(["$row_id"]).equals(known)
    for where in ("at > TIMESTAMP '2500-01-01 00:00:00'", "year(at) > 2500"):
        assert lake.scan(where, ["id"]).to_arrow().to_pylist() == [{"id": 0}]
    assert lake.scan().aggregate(["min(at)", "max(at)"]).to_pylist() == [{"min(at)": far[1], "max(at)": far[0]}]


def test_a_folder_whose_name_is_no_text_is_an_error_of_the_listing(lake: Lake) -> None:
    """In a scan whose condition narrows folders, too; there the listing's own exception came through."""
    for day in range(20):
        lake.write(f"day={day}/a.parquet", {"id": [day]})
    lake.analyze()
    (lake.root / os.fsdecode(b"day=\xff")).mkdir()
    (lake.root / os.fsdecode(b"day=\xff") / "a.parquet").write_bytes(b"data")
    with pytest.raises(StorageError, match="is not UTF-8"):
        lake.scan("day = 1").to_arrow()
    with pytest.raises(InvalidRequestError, match="is not UTF-8"):
        lake.session.analyze(TABLE, paths=[os.fsdecode(b"day=\xff/a.parquet")])
