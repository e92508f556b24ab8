"""Questions that DuckDB judges: of columns however they are called, and of nothing else."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from support.scan_lake import Lake

from metastore.errors import InvalidRequestError

TABLE = "dfs.tmp.t"


@pytest.fixture
def cases(lake: Lake) -> Lake:
    """Columns and directories that differ by case only, as Spark reads them with case-sensitive names."""
    lake.write("K=1/a.parquet", {"id": [0, 1], "x": [1, -2], "row number": [5, 6]})
    lake.write("k=2/b.parquet", {"id": [2, 3], "X": [1, -2], "st": [{"a": 1}, {"a": -2}]})
    lake.analyze(case_sensitive=True)
    return lake


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("abs(id) = 1", [1]),
        ("abs(x) = 2", [1]),
        ("abs(X) = 2", [3]),
        ("abs(x) = 1 OR abs(X) = 2", [0, 3]),
        ("abs(K) = 1", [0, 1]),
        ("abs(k) = 2 AND ID > 2", [3]),
        ("abs(st.A) = 2", [3]),
        ("`row number` % 5 = 0", [0]),
        ("id + 0 < 100", [0, 1, 2, 3]),
        ("abs(-1) = 1", [0, 1, 2, 3]),
    ],
)
def test_columns_that_differ_by_case_only_are_told_apart(cases: Lake, where: str, ids: list[int]) -> None:
    """Each by its exact name; rows keep their columns and their order."""
    scan = cases.scan(where)
    assert scan.to_arrow().schema == scan.schema
    assert scan.to_arrow()["id"].to_pylist() == ids
    assert scan.count() == len(ids)
    assert [row for batch in cases.scan(where, ["id"]).to_batches() for row in batch["id"].to_pylist()] == ids


@pytest.mark.parametrize(
    ("where", "columns", "read"),
    [
        ("abs(x) = 2", ["id"], ["id", "x"]),
        ("abs(st.A) < 3 AND abs(K) = 1", ["x", "id"], ["x", "id", "K", "st"]),
        ("abs(-1) = 1", ["X"], ["X"]),
    ],
)
def test_no_column_is_read_that_nobody_names(cases: Lake, where: str, columns: list[str], read: list[str]) -> None:
    """A table may be wide; and all rows are there even where the question names no column."""
    scan = cases.scan(where, columns)
    assert scan.columns_to_read == read
    rows = cases.scan(where).to_arrow()
    assert scan.count() == rows.num_rows
    assert scan.to_arrow().to_pylist() == rows.select(columns).to_pylist()


def test_what_may_be_any_of_two_is_refused(lake: Lake) -> None:
    """A name that fits two columns by case. Fields of structs that differ in case are one, unless told apart."""
    lake.write("a.parquet", {"x": [{"a": 1}], "Y": [1], "y": [2]})
    lake.write("b.parquet", {"x": [{"A": 2}], "Y": [1], "y": [2]})
    lake.analyze()
    for where in ("abs(x.a) = 2", "x.A = 2"):
        assert [Path(path).name for path in lake.session.prune(TABLE, "x.a = 2").paths] == ["b.parquet"]
        assert lake.scan(where, ["x"]).to_arrow().to_pylist() == [{"x": {"a": 2}}]
    lake.analyze(case_sensitive=True)
    for where in ("abs(x.a) = 2", "x.a = 2"):
        assert lake.scan(where).count() == 0
    lake.write("c.parquet", {"Zz": [1]})
    lake.write("d.parquet", {"zZ": [1]})
    lake.analyze(case_sensitive=True)
    with pytest.raises(InvalidRequestError, match="'zz' .*may be any of"):
        lake.scan("abs(zz) = 2").to_arrow()


@pytest.mark.parametrize(
    "where",
    [
        "z IN (SELECT content FROM read_text('{file}'))",
        "z = (SELECT content FROM read_text('{file}'))",
        "EXISTS (SELECT 1 FROM read_text('{file}') WHERE content = z)",
        "length(z) = (SELECT count(*) FROM glob('{folder}/*'))",
        "length(getenv('HOME')) > 0",
    ],
)
def test_a_question_reads_nothing_but_its_table(lake: Lake, tmp_path: Path, where: str) -> None:
    """No file, no folder, no variable; asked for, each is refused."""
    secret = tmp_path / "secret.txt"
    secret.write_text("hush")
    lake.write("a.parquet", {"z": ["hush"]})
    lake.analyze()
    asked = where.format(file=secret, folder=tmp_path)
    with pytest.raises(InvalidRequestError):
        lake.scan(asked).to_arrow()


@pytest.mark.parametrize("where", ["i + 1 < 0", "NOT (i + 1 > 0)", "-i > 0", "2 * i < 10", "1 - i > 0", "i - 1 < 9"])
def test_an_overflow_is_an_error_and_no_missing_row(lake: Lake, where: str) -> None:
    """As in Spark; DuckDB would solve the inequality for the column, and leave out what overflows."""
    lake.write("a.parquet", {"i": pa.array([2**31 - 1, -(2**31), 7], pa.int32())})
    lake.analyze()
    with pytest.raises(InvalidRequestError, match=r"fails: .*Overflow"):
        lake.scan(where).to_arrow()


@pytest.mark.parametrize("where", ["upper(st.b) = 'X'", "st.b LIKE 'x%' AND length(st.b) = 1", "st.n + 1 = 2"])
def test_a_field_of_a_struct_beside_a_function(lake: Lake, where: str) -> None:
    """What this package writes for a field in DuckDB is no function that somebody asked for."""
    lake.write("a.parquet", {"id": [1, 2, 3], "st": [{"b": "x", "n": 1}, {"b": "Y", "n": 2}, None]})
    lake.analyze()
    assert lake.scan(where).to_arrow()["id"].to_pylist() == [1]


def test_a_number_that_no_cast_can_hold_is_an_error(lake: Lake) -> None:
    """As in Spark's ANSI mode, and so is a text that is no number; what TRY_CAST cannot hold is NULL."""
    rows = {"l": [2**40, 7], "d": [1e30, 7.5], "dec": [Decimal(10) ** 12, Decimal(7)], "s": ["x", "7"]}
    lake.write("a.parquet", rows)
    lake.analyze()
    for column in ("l", "d", "dec"):
        with pytest.raises(InvalidRequestError, match=r"fails: Conversion Error: [^\n]*\Z"):
            lake.scan(f"CAST({column} AS INT) = 7").to_arrow()
        assert lake.scan(f"TRY_CAST({column} AS INT) = 7").to_arrow()["s"].to_pylist() == ["7"]
    assert lake.scan("try_cast(s AS INT) = 7").to_arrow()["l"].to_pylist() == [7]
    with pytest.raises(InvalidRequestError, match="fails: .*the text 'x' is no INT as Spark reads it; try_cast"):
        lake.scan("CAST(s AS INT) = 7").to_arrow()
    with pytest.raises(InvalidRequestError, match="fails: Conversion Error"):
        lake.scan("l > CAST(300 AS TINYINT)").to_arrow()


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("at = TIMESTAMP '2020-10-25 02:30:00'", [0]),
        ("at > '2020-10-25 02:30:00'", [1]),
        ("at BETWEEN '2020-10-25 02:30:00' AND CAST('2020-10-25 02:30:00' AS TIMESTAMP)", [0]),
        ("at IN ('2020-10-25 02:30:00', '2020-03-29 03:30:00')", [0, 2]),
        ("at = TIMESTAMP '2020-03-29 02:30:00'", [2]),
        ("at <= '2020-03-29 02:30:00'", [2]),
    ],
)
def test_an_hour_that_comes_twice_is_the_earlier_one(lake: Lake, where: str, ids: list[int]) -> None:
    """And one that never comes is as much later as clocks are put forward, as in Java."""
    moments = ["2020-10-25T00:30:00+00:00", "2020-10-25T01:30:00+00:00", "2020-03-29T01:30:00+00:00"]
    at = pa.array([datetime.fromisoformat(moment) for moment in moments], pa.timestamp("us", "UTC"))
    lake.write("a.parquet", {"id": [0, 1, 2], "at": at})
    lake.analyze()
    assert lake.session.tables.scan(TABLE, where, time_zone="Europe/Berlin").to_arrow()["id"].to_pylist() == ids


@pytest.mark.parametrize(("where", "ids"), [("f = 0.1", []), ("f > 0.1", [0, 1]), ("f = 0.1F", [0]), ("f = 0.5", [1])])
def test_a_float_beside_a_decimal_is_a_double(lake: Lake, where: str, ids: list[int]) -> None:
    """As in Spark: the FLOAT next to 0.1 is above it."""
    lake.write("a.parquet", {"id": [0, 1], "f": pa.array([0.1, 0.5], pa.float32())})
    lake.analyze()
    assert lake.scan(where).to_arrow()["id"].to_pylist() == ids


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("f = 0.1", []),
        ("f > 0.1", [0, 1]),
        ("f IN (0.1, 0.5)", [1]),
        ("abs(f) = 0.1", []),
        ("coalesce(f, 1F) = 0.1", []),
        ("f + f = 0.2", []),
        ("CAST(g AS FLOAT) = g", [1]),
        ("CAST(n AS FLOAT) < 16777218", [0, 1]),
        ("coalesce(f, 1F) = CAST(g AS FLOAT)", [0, 1]),
        ("greatest(f, f) BETWEEN 0.1 AND 0.5", [0, 1]),
    ],
)
def test_a_float_beside_another_number_is_a_double_in_scans_and_views(lake: Lake, where: str, ids: list[int]) -> None:
    """Whatever expression has the FLOAT; each is judged by Spark 4.3."""
    floats = pa.array([0.1, 0.5], pa.float32())
    lake.write("a.parquet", {"id": [0, 1], "f": floats, "g": [0.1, 0.5], "n": pa.array([2**24 + 1] * 2, pa.int32())})
    lake.analyze()
    assert lake.scan(where).to_arrow()["id"].to_pylist() == ids
    lake.session.sql(f"CREATE VIEW dfs.tmp.v AS SELECT id FROM {TABLE} WHERE {where}")
    assert lake.session.sql("SELECT id FROM dfs.tmp.v ORDER BY id")["id"].to_pylist() == ids


@pytest.mark.parametrize(
    ("where", "ids"), [("d BETWEEN 2000000 AND 1e31", [1]), ("d NOT BETWEEN 2000000 AND 1e31", [0])]
)
def test_each_end_of_between_has_its_own_type(lake: Lake, where: str, ids: list[int]) -> None:
    """As in Spark; DuckDB would round the decimal and both ends to DOUBLE."""
    values = pa.array([Decimal("1999999.9999999999"), Decimal("2000000.0000000001")], pa.decimal128(38, 10))
    lake.write("a.parquet", pa.table({"id": [0, 1], "d": values}))
    lake.analyze()
    assert lake.scan(f"{where} AND abs(id) >= 0").to_arrow()["id"].to_pylist() == ids


def test_types_that_duckdb_lacks_stay_as_they_are(lake: Lake) -> None:
    """Only the columns that are asked about are shown to DuckDB."""
    wide = [Decimal("1.1"), Decimal(10) ** 40]
    rows = pa.table(
        {"id": [0, 1], "wide": pa.array(wide, pa.decimal256(50, 2)), "ns": pa.array([1, 2], pa.time64("ns"))}
    )
    lake.write("a.parquet", rows)
    lake.analyze()
    assert lake.scan("abs(id) = 1").to_arrow().to_pylist() == rows.slice(1).to_pylist()
    assert lake.scan("wide = 1.1").to_arrow()["id"].to_pylist() == [0]
    assert lake.scan("wide > 1.1").count() == 1


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("e = 0.0010", [2]),
        ("e > 0.0005 AND e < 0.0015", [2]),
        ("e < 99999999999999999999999999999999999999", [1, 2]),
        ("NOT (e >= 99999999999999999999999999999999999999)", [1, 2]),
        ("e = 0.00101", []),
        ("e <> 0.00101", [1, 2]),
    ],
)
def test_decimals_of_all_digits_have_an_answer(lake: Lake, where: str, ids: list[int]) -> None:
    """A literal that no common type of 38 digits holds is compared as a number, by Arrow and by DuckDB."""
    values = [Decimal("12345678901234567890123456789012345.678"), Decimal("0.001"), None]
    lake.write("a.parquet", pa.table({"e": pa.array(values, pa.decimal128(38, 3)), "id": [1, 2, 3]}))
    lake.analyze()
    assert lake.scan(where).to_arrow()["id"].to_pylist() == ids
    assert lake.scan(f"abs(id) > 0 AND ({where})").to_arrow()["id"].to_pylist() == ids


NESTED_ROWS = {
    "id": [0, 1, 2],
    "p": [{"x": None, "y": 1}, {"x": 1, "y": None}, {"x": 2, "y": 2}],
    "l": [[None], [1, None], [1, 2]],
    "n": [1, 2, None],
}


@pytest.mark.parametrize(
    "where",
    [
        "p < struct(1, 2)",
        "struct(n, id) >= struct(1, 2)",
        "l > array(1)",
        "coalesce(l, array()) > coalesce(l, array(1))",
        "if(id > 0, p, p) BETWEEN p AND p",
        "p BETWEEN struct(1, 1) AND struct(2, 2)",
        "greatest(p, p) = p",
        "least(l, array(1)) = l",
    ],
)
def test_an_order_of_nested_values_is_refused(lake: Lake, where: str) -> None:
    """A NULL inside comes first in Spark and last in DuckDB, which found other rows."""
    lake.write("a.parquet", NESTED_ROWS)
    lake.analyze()
    with pytest.raises(InvalidRequestError, match="no order of structs and lists"):
        lake.scan(where).to_arrow()


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("struct(n, id) = struct(1, 0)", [0]),
        ("l = array(1, 2)", [2]),
        ("p = struct(1, n) OR p = struct(2, 2)", [2]),
        ("p <> struct(2, 2)", [0, 1]),
        ("p IN (struct(2, 2), struct(1, NULL))", [1, 2]),
        ("array(struct(n)) = array(struct(id + 1))", [0, 1]),
        ("p = p", [0, 1, 2]),
        ("p <=> named_struct('x', 2, 'y', 2)", [2]),
        ("coalesce(n, 5) > coalesce(id, 5)", [0, 1, 2]),
        ("greatest(n, id) BETWEEN coalesce(id, 0) AND coalesce(n, 9)", [0, 1, 2]),
    ],
)
def test_nested_values_may_be_equal_by_place_and_plain_ones_ordered(lake: Lake, where: str, ids: list[int]) -> None:
    """Names of fields mean nothing to Spark; and values of a type that only DuckDB knows are ordered as before."""
    lake.write("a.parquet", NESTED_ROWS)
    lake.analyze()
    assert lake.scan(where).to_arrow()["id"].to_pylist() == ids


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("s LIKE ALL ('a%')", [0, 1]),
        ("s NOT LIKE ALL ('a%')", [2]),
        ("s LIKE ANY ('%b')", [1, 2]),
        ("s NOT LIKE ALL ('a%', '%x')", [2]),
        ("s NOT LIKE ANY ('a%', '%b')", [0, 2]),
    ],
)
def test_like_any_and_all_take_one_pattern_or_more(lake: Lake, where: str, ids: list[int]) -> None:
    """Each row is judged by Spark 4.3."""
    lake.write("a.parquet", {"id": [0, 1, 2], "s": ["ax", "ab", "bb"]})
    lake.analyze()
    assert lake.scan(where).to_arrow()["id"].to_pylist() == ids


def test_structs_of_other_names_are_not_compared_by_name(lake: Lake) -> None:
    """DuckDB would compare ``x`` with ``x``; to Spark it is the second field."""
    lake.write("a.parquet", {"id": [0], "p": [{"x": 1, "y": 2}], "q": [{"y": 1, "x": 2}]})
    lake.analyze()
    with pytest.raises(InvalidRequestError, match="different field names"):
        lake.scan("p = q").to_arrow()


def test_a_function_that_tests_elements_is_refused_by_name(lake: Lake) -> None:
    """DuckDB's EXISTS takes a query only; it failed with a syntax error of the translated text."""
    lake.write("a.parquet", NESTED_ROWS)
    lake.analyze()
    with pytest.raises(InvalidRequestError, match=r"no exists\(\) of a list"):
        lake.scan("exists(l, x -> x > 1)").to_arrow()
