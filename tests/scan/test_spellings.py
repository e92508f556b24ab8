"""Names that differ in case alone: one column for all doors, unless one file has both or case is told to count."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import orc
from support.scan_lake import Lake

from metastore.errors import FormatError

TABLE = "dfs.tmp.t"


def ids(table: pa.Table) -> list[int]:
    """All values of the one column."""
    return sorted(value for value in table.column(0).to_pylist() if value is not None)


@pytest.mark.parametrize(
    ("where", "found", "files"),
    [("id = 3", [3], 1), ("ID < 3", [1, 2], 1), ("iD > 1", [2, 3, 4], 2), ("id IS NULL", [], 0), ("id = 9", [], 0)],
)
def test_two_spellings_are_one_column(lake: Lake, where: str, found: list[int], files: int) -> None:
    """Called as the first file has it; each file is pruned by what its own spelling says."""
    lake.write("1.parquet", {"ID": [1, 2]})
    lake.write("2.parquet", {"id": [3, 4]})
    lake.analyze()
    scan = lake.scan(where)
    assert scan.schema.names == ["ID"]
    assert ids(scan.to_arrow()) == ids(scan.to_arrow_dataset().to_table()) == found
    assert (scan.count(), len(scan.paths)) == (len(found), files)
    assert ids(lake.session.sql(f"SELECT Id FROM {TABLE} WHERE {where}")) == found
    assert len(lake.session.prune(TABLE, where).files) == files
    whole = lake.tables.aggregate(TABLE, ["count(id)", "min(id)", "max(iD)"])
    assert whole.to_pylist() == [{"count(id)": 4, "min(id)": 1, "max(iD)": 4}]
    [told] = lake.session.information_schema.columns(
        ["COLUMN_NAME", "MIN_VAL", "MAX_VAL", "NUM_NULLS"], f"TABLE_NAME = '{TABLE.rpartition('.')[2]}'"
    ).to_pylist()
    assert told == {"COLUMN_NAME": "ID", "MIN_VAL": "1", "MAX_VAL": "4", "NUM_NULLS": 0}


def test_a_further_spelling_is_found_before_it_is_analyzed(lake: Lake) -> None:
    """And an incremental run comes to what a full one does."""
    lake.write("a/1.parquet", {"ID": [1, None], "x": [1, 2]})
    lake.analyze()
    lake.write("b/2.parquet", {"Id": [3, 4], "X": [5, 6]})
    assert ids(lake.scan("id >= 3", ["ID"]).to_arrow()) == [3, 4]
    lake.analyze()
    assert lake.scan().schema.names == ["ID", "x", "dir0"]
    assert ids(lake.scan("x > 1", ["id"]).to_arrow()) == [3, 4]
    [told] = lake.session.information_schema.columns(["NUM_NULLS", "MAX_VAL"], "COLUMN_NAME = 'ID'").to_pylist()
    assert told == {"NUM_NULLS": 1, "MAX_VAL": "4"}


def test_twins_of_one_file_keep_their_exact_names(lake: Lake) -> None:
    """In other files too; SELECT * renames none of them, and a name that may be either is refused."""
    lake.write("1.parquet", {"ID": [1], "id": [10]})
    lake.write("2.parquet", {"id": [3]})
    lake.analyze()
    rows = [{"ID": 1, "id": 10}, {"ID": None, "id": 3}]
    assert lake.scan().to_arrow().to_pylist() == rows
    found = lake.session.sql(f"SELECT * FROM {TABLE}")
    assert found.column_names == ["ID", "id"]
    assert found.to_pylist() == rows
    lake.write("3.parquet", {"iD": [7]})
    with pytest.raises(FormatError, match="may be any of"):
        lake.scan(columns=["id"]).to_arrow()


def test_case_counts_where_it_is_told_to(lake: Lake) -> None:
    """By a call; the next one without it is the deployment's again."""
    lake.write("Year=1/1.parquet", {"ID": [1]})
    lake.write("year=2/2.parquet", {"id": [2]})
    for told, names in (
        (True, ["ID", "id", "Year", "year"]),
        (None, ["ID", "Year"]),
        (True, ["ID", "id", "Year", "year"]),
    ):
        lake.analyze(case_sensitive=told)
        assert lake.scan().schema.names == names
    assert lake.scan("id = 2").to_arrow().to_pylist() == [{"ID": None, "id": 2, "Year": None, "year": 2}]
    statement = f"ANALYZE TABLE {TABLE} (CASE_SENSITIVE => FALSE) REFRESH METADATA"
    assert lake.session.sql(statement).to_pylist()[0]["ok"]
    assert lake.scan().schema.names == ["ID", "Year"]


def test_directories_of_two_spellings_are_one_column(lake: Lake) -> None:
    """Pruned by either name; a directory hides the file's column in any case, and what is known of that one."""
    lake.write("Year=2023/1.parquet", {"x": [1]})
    lake.write("year=2024/2.parquet", {"x": [2], "YEAR": [7]})
    lake.analyze()
    for where, found in (("year = 2024", [2]), ("YEAR < 2024", [1]), ("Year IS NOT NULL", [1, 2])):
        scan = lake.scan(where, ["x"])
        assert (ids(scan.to_arrow()), len(scan.paths)) == (found, len(found))
    assert lake.scan("x = 2").to_arrow().to_pylist() == [{"x": 2, "YEAR": 2024}]
    [told] = lake.session.information_schema.columns(["MIN_VAL", "MAX_VAL"], "COLUMN_NAME = 'YEAR'").to_pylist()
    assert told == {"MIN_VAL": None, "MAX_VAL": None}
    partitions = lake.session.information_schema.partitions(["PARTITION_COLUMN"]).to_pylist()
    assert not any("YEAR" in (row["PARTITION_COLUMN"] or "") for row in partitions)


def test_other_formats_have_the_rule_too(lake: Lake) -> None:
    """ORC, whose files are read whole."""
    lake.root.joinpath("a").mkdir()
    orc.write_table(pa.table({"ID": [1], "s": ["x"]}), str(lake.root / "a/1.orc"))
    orc.write_table(pa.table({"S": ["y"], "id": [2]}), str(lake.root / "a/2.orc"))
    lake.analyze()
    assert lake.scan("id > 1").to_arrow().select(["ID", "s"]).to_pylist() == [{"ID": 2, "s": "y"}]


@pytest.mark.parametrize(
    ("where", "found", "files"),
    [
        ("s.a = 3", [3], 1),
        ("S.A < 3", [1, 2], 1),
        ("s.a > 1", [2, 3, 4], 2),
        ("s.a = 9", [], 0),
        ("s.in.X = 'q'", [3], 1),
        ("s.IN.x >= 'a'", [1, 2, 3, 4], 2),
        ("s.a IS NULL", [], 0),
    ],
)
def test_two_spellings_are_one_field(lake: Lake, where: str, found: list[int], files: int) -> None:
    """At every depth, at every door; each file is pruned by what its own spelling says."""
    lake.write("1.parquet", {"s": [{"A": n, "In": {"x": f"{n}"}, "b": 1} for n in (1, 2)]})
    lake.write("2.parquet", {"S": [{"in": {"X": text, "Y": 1}, "a": n} for n, text in ((3, "q"), (4, "r"))]})
    lake.analyze()
    where = where.replace("'a'", "'1'")
    scan = lake.scan(where)
    assert str(scan.schema.field("s").type) == ("struct<A: int64, In: struct<x: string, Y: int64>, b: int64>")
    assert sorted(row["A"] for row in scan.to_arrow()["s"].to_pylist()) == found
    assert sorted(row["A"] for row in scan.to_arrow_dataset().to_table()["s"].to_pylist()) == found
    assert (scan.count(), len(scan.paths)) == (len(found), files)
    asked = re.sub(r"^s\.", "t.s.", where, flags=re.IGNORECASE)
    assert ids(lake.session.sql(f"SELECT t.s.a FROM {TABLE} t WHERE {asked}")) == found
    assert len(lake.session.prune(TABLE, where).files) == files
    whole = lake.tables.aggregate(TABLE, ["count(s.a)", "min(s.a)", "max(s.A)", "max(s.in.x)"])
    assert whole.to_pylist() == [{"count(s.a)": 4, "min(s.a)": 1, "max(s.A)": 4, "max(s.in.x)": "r"}]
    told = lake.session.information_schema.columns(
        ["COLUMN_NAME", "MIN_VAL", "MAX_VAL", "NUM_NULLS"], f"TABLE_NAME = '{TABLE.rpartition('.')[2]}'"
    ).to_pylist()
    assert {"COLUMN_NAME": "s.A", "MIN_VAL": "1", "MAX_VAL": "4", "NUM_NULLS": 0} in told
    assert {"COLUMN_NAME": "s.b", "MIN_VAL": "1", "MAX_VAL": "1", "NUM_NULLS": 2} in told


def test_fields_inside_lists_and_maps_are_one_as_well(lake: Lake) -> None:
    """What a file lacks is null; a list of structs keeps its nulls and its empty ones."""
    of_list, of_map = pa.list_(pa.struct([("A", pa.int32())])), pa.map_(pa.string(), pa.struct([("V", pa.string())]))
    lake.write(
        "1.parquet",
        pa.table({"l": pa.array([[{"A": 1}], None, []], of_list), "m": pa.array([[("k", {"V": "x"})]] * 3, of_map)}),
    )
    of_list = pa.list_(pa.struct([("b", pa.int64()), ("a", pa.int64())]))
    of_map = pa.map_(pa.string(), pa.struct([("v", pa.string())]))
    lake.write(
        "2.parquet",
        pa.table({"l": pa.array([[{"b": 7, "a": 2}, None]], of_list), "m": pa.array([[("k", {"v": "y"})]], of_map)}),
    )
    lake.analyze()
    assert lake.scan().to_arrow().to_pylist() == [
        {"l": [{"A": 1, "b": None}], "m": [("k", {"V": "x"})]},
        {"l": None, "m": [("k", {"V": "x"})]},
        {"l": [], "m": [("k", {"V": "x"})]},
        {"l": [{"A": 2, "b": 7}, None], "m": [("k", {"V": "y"})]},
    ]
    found = lake.session.sql(f"SELECT l[1].a AS a, m['k'].v AS v FROM {TABLE}").to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, "x"), (None, "x"), (None, "x"), (2, "y")]


def test_twins_inside_a_struct_keep_their_exact_names(lake: Lake) -> None:
    """So do all fields of that column, in other files too; new files with twins are refused until they are analyzed."""
    lake.write("1.parquet", {"s": [{"A": 1, "a": 10}], "t": [{"B": 1}]})
    lake.write("2.parquet", {"s": [{"a": 3}], "t": [{"b": 2}]})
    lake.analyze()
    rows = [{"s": {"A": 1, "a": 10}, "t": {"B": 1}}, {"s": {"A": None, "a": 3}, "t": {"B": 2}}]
    assert lake.scan().to_arrow().to_pylist() == rows
    assert lake.scan("s.A = 1").to_arrow().to_pylist() == rows[:1]
    assert lake.scan("s.a > 2").to_arrow().to_pylist() == rows
    assert lake.scan("t.b = 2").to_arrow().to_pylist() == rows[1:]
    lake.write("3.parquet", {"s": [{"A": 5, "a": 6}], "t": [{"B": 1, "b": 7}]})
    with pytest.raises(FormatError, match="may be any of"):
        lake.scan(columns=["t"]).to_arrow()
    lake.analyze()
    assert lake.scan("s.a = 6").to_arrow().to_pylist() == [{"s": {"A": 5, "a": 6}, "t": {"B": 1, "b": 7}}]


def test_case_of_fields_counts_where_it_is_told_to(lake: Lake) -> None:
    """The fields stay two."""
    lake.write("1.parquet", {"s": [{"A": 1}]})
    lake.write("2.parquet", {"s": [{"a": 2}]})
    lake.analyze(case_sensitive=True)
    assert lake.scan().to_arrow().to_pylist() == [{"s": {"A": 1, "a": None}}, {"s": {"A": None, "a": 2}}]
    assert lake.scan("s.a = 2").to_arrow().to_pylist() == [{"s": {"A": None, "a": 2}}]


def test_times_of_fields_keep_their_zone(lake: Lake) -> None:
    """Of a field that some files spell otherwise, or lack."""
    zoned = pa.timestamp("us", "UTC")
    for number, (name, value) in enumerate((("T", 0), ("t", 10**12))):
        struct = pa.struct([(name, zoned)])
        lake.write(f"{number}.parquet", pa.table({"s": pa.array([{name: value}], struct)}))
    lake.write("3.parquet", {"s": [{"other": 1}]})
    lake.analyze()
    assert lake.scan().schema.field("s").type.field("T").type == zoned
    scan = lake.scan("s.t < TIMESTAMP '1970-01-02 00:00:00'", time_zone="America/New_York")
    assert len(scan.paths) == scan.count() == 1


def test_a_field_of_another_spelling_is_found_before_it_is_analyzed(lake: Lake) -> None:
    """And an incremental run comes to what a full one does."""
    lake.write("a/1.parquet", {"s": [{"A": 1}, None]})
    lake.analyze()
    lake.write("b/2.parquet", {"s": [{"a": 3}, {"a": None}]})
    assert lake.scan("s.a >= 3").to_arrow()["s"].to_pylist() == [{"A": 3}]
    lake.analyze()
    assert lake.scan("s.a >= 3").to_arrow()["s"].to_pylist() == [{"A": 3}]
    assert len(lake.scan("s.A < 2").paths) == 1
    assert lake.tables.aggregate(TABLE, ["count(s.a)", "count(*)"]).to_pylist() == [{"count(s.a)": 2, "count(*)": 4}]


@given(
    files=st.lists(
        st.dictionaries(
            st.sampled_from(["ab", "Ab", "AB", "c", "C"]), st.lists(st.integers(0, 3), min_size=2, max_size=2)
        ),
        min_size=1,
        max_size=4,
    ),
    value=st.integers(0, 3),
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_are_those_of_duckdb(
    new_lake: Callable[[Path], Lake],
    tmp_path_factory: pytest.TempPathFactory,
    files: list[dict[str, list[int]]],
    value: int,
) -> None:
    """Whatever files spell, as long as none has twins, rows and conditions are those of union_by_name."""
    files = [file for file in files if file]
    if not files or any(len({name.lower() for name in file}) < len(file) for file in files):
        return
    lake = new_lake(tmp_path_factory.mktemp("lake"))
    for number, file in enumerate(files):
        lake.write(f"{number}.parquet", file)
    lake.analyze()
    names = lake.scan().schema.names
    assert sorted(name.lower() for name in names) == sorted({name.lower() for file in files for name in file})
    with duckdb.connect() as engine:
        for name in names:
            truth = engine.execute(
                f"SELECT {name} FROM read_parquet('{lake.root}/*.parquet', union_by_name = true) "
                f"WHERE {name} = {value} OR {name} IS NULL"
            ).fetchall()
            scan = lake.scan(f"{name} = {value} OR {name} IS NULL", [name])
            found = scan.to_arrow()[name].to_pylist()
            assert sorted(map(repr, found)) == sorted(repr(one) for (one,) in truth)
    lake.session.close()
