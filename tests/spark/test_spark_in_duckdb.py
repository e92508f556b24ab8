"""What Spark's expressions are in DuckDB: the values that Spark gives, or a refusal."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.engine_values import comparable

from metastore.config.settings import Settings
from metastore.duck.spark_in_duckdb import SparkInDuckDb, in_duckdbs_words
from metastore.duck.spark_texts import define_what
from metastore.duck.value_kinds import mark_columns
from metastore.errors import InvalidRequestError, MetastoreError
from metastore.session import connect
from metastore.spark import connect as connect_on_spark
from metastore.sql.views.text import parse_query

pytestmark = pytest.mark.spark

NAN, INF = float("nan"), float("inf")
MOMENTS = [
    datetime(2020, 2, 29, 13, 5, 7, 123456), datetime(2021, 1, 3), datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(2020, 12, 31, 0, 0, 1), None, datetime(2024, 8, 11, 12),
]  # fmt: skip
ROWS: dict[str, Any] = {
    "id": pa.array(range(6), pa.int64()),
    "i": pa.array([5, -5, 0, 7, None, 2**31 - 1], pa.int32()),
    "j": pa.array([3, -2, 1, None, 4, 7], pa.int32()),
    "d": [5.7, -5.7, 1e6, 2.5, None, 0.0],
    "n": [NAN, -1.0, INF, 0.0, None, -INF],
    "f": pa.array([0.5, -1.5, 2.5, 3.7, None, 3.5], pa.float32()),
    "dec": pa.array([None if t is None else Decimal(t) for t in ("1.55", "-1.55", "2.50", "0.00", None, "123456.89")]),
    "s": ["Hello World", "  pad ", "", None, "a_b,,c%", "äÖ😀x"],
    "whole": ["12", "-7", " 3 ", "+4", None, "0"],
    "day": [None if m is None else m.date() for m in MOMENTS],
    "ts": pa.array(MOMENTS, pa.timestamp("us")),
    "utc": pa.array([m and m.replace(tzinfo=timezone.utc) for m in MOMENTS], pa.timestamp("us", "UTC")),
    "b": [True, False, None, True, False, True],
    "arr": pa.array([[1, 2, 3], [], None, [3, None], [5], [2, 2]], pa.list_(pa.int32())),
}

SAID_OTHERWISE = r"""
dayofweek(day); weekday(day); extract(dow FROM day); extract(dayofweek FROM ts); extract(dayofweek_iso FROM day)
date_part('dow', day); dayname(day); monthname(day)
substring(s, 0, 3); substr(s, 0, 3); substring(s, i, j); substr(s, 2, j); substring(s, -20, 18); substring(s, 1, -1)
left(s, -1); left(s, j); right(s, -1); right(s, j)
regexp_replace(s, '(l+)', '<$1>'); regexp_replace(s, '(l)(.)', '$2$1'); regexp_replace(s, 'l', '\\$')
regexp_replace(s, 'l', '\\\\')
CAST(5.7 AS INT); CAST(-5.7 AS INT); CAST(d AS INT); CAST(f AS BIGINT); CAST(dec AS INT)
CAST(3.0 AS BIGINT)
int(d); CAST(whole AS INT); CAST(b AS INT); CAST(i AS BIGINT); CAST(CAST(d AS INT) AS STRING)
CAST('1.5' AS DECIMAL); CAST(dec AS DECIMAL(9)); CAST(dec AS DECIMAL(9, 1))
CAST(utc AS STRING); CAST(ts AS STRING); CAST(day AS STRING); CAST(dec AS STRING); CAST(b AS STRING)
CAST(i AS STRING)
isnan(n); NOT isnan(n); sign(n); sign(i); sign(dec); signum(d); ln(n); log(n); log(2, n); log10(n); log2(n); ln(d)
log(d, 8)
date_add(day, 3); date_sub(day, 3); dateadd(day, j); add_months(day, 1); add_months(day, -12)
trunc(day, 'MM'); trunc(day, 'MON'); trunc(day, 'year'); trunc(day, 'QUARTER'); trunc(ts, 'WEEK')
s LIKE 'a\_b%'; s NOT LIKE '%c\%'; s ILIKE 'A\_%'; s LIKE 'a!_b%' ESCAPE '!'; s LIKE '%\\\\%'
s LIKE ANY ('H%', 'a\_%'); s LIKE ALL ('%l%', 'H%'); s NOT LIKE ANY ('H%', '%d'); s NOT LIKE ALL ('H%', 'a%')
day LIKE '2020%'; i LIKE '5%'; ts LIKE '2021-01-03 00:00:00'; ts NOT LIKE '2021-01-03'; dec LIKE '%.5_'
utc LIKE '%:59.999999'
isnull(s); isnotnull(s); pmod(i, j); pmod(-7, 3); pmod(-7, -3); pmod(7, -3); pmod(i, 3); nanvl(n, d); nanvl(f, f)
octet_length(s); bit_length(s); unix_seconds(utc); unix_micros(utc); unix_date(day); weekday(ts)
positive(i); negative(i)
unix_timestamp(CAST(day AS TIMESTAMP)); unix_timestamp(CAST(utc AS DATE)); to_date(day)
try_to_date(whole); try_to_date(s)
array_contains(arr, 2); NOT array_contains(arr, 2); array_contains(arr, j)
"""
"""Expressions that DuckDB takes for something else, or refuses, as they stand."""

THE_SAME = r"""
dayofyear(day); dayofmonth(day); weekofyear(day); month(day); quarter(day); year(utc); hour(ts); minute(ts)
second(ts)
extract(week FROM day); substring(s, 1, 3); substring(s, 2); left(s, 3); regexp_replace(s, 'l', 'x')
regexp_extract(s, '(l+)o', 1)
s RLIKE 'l+'; CAST(i AS BOOLEAN); CAST(ts AS DATE); round(dec, 1); round(d); ceil(dec); floor(d); abs(i)
sqrt(f * f)
i % j; i / j; i div j; mod(i, j); d % 2; greatest(i, j); least(i, j); coalesce(i, j); nvl2(i, j, 0); nullif(i, j)
if(i > j, 1, 2)
length(s); upper(s); lower(s); initcap(s); trim(s); trim('H' FROM s); concat(s, whole); concat_ws('-', s, whole)
s || whole
lpad(s, 5, '*'); rpad(s, 5, '*'); repeat(s, 2); reverse(s); replace(s, 'l', 'L'); translate(s, 'lo', '01')
instr(s, 'l')
startswith(s, 'H'); endswith(s, 'd'); contains(s, 'l'); s LIKE '%l%'; s ILIKE 'h%'; ascii(s); split(s, ',')
split_part(s, ',', 2)
md5(s); sha1(s); sha2(s, 256); hex(i); datediff(day, DATE'2020-01-01'); last_day(day); next_day(day, 'MON')
date_trunc('month', ts)
date_format(ts, 'yyyy-MM-dd'); to_date('02/01/2020', 'dd/MM/yyyy'); i & j; size(arr); array_max(arr)
sort_array(arr)
n = double('NaN'); n > 5; i <=> j; i BETWEEN 0 AND 5; CASE WHEN i > 0 THEN 'p' ELSE 'n' END; count(i) OVER ()
max(n) OVER ()
'O''Brien'; 'a' 'b'
"""
"""Expressions that both read alike, as far as these rows tell."""

REFUSED = [
    "hash(s)", "levenshtein(s, whole)", "sha2(s, 512)", "format_string('%d', i)", "printf('%d', i)", "bit_count(i)",
    "typeof(i)", "url_encode(s)", "array_position(arr, 2)", "array_distinct(arr)", "timestampdiff(HOUR, ts, ts)",
    "extract(second FROM ts)", "regexp_replace(s, 'l', whole)", "regexp_replace(s, 'l', '$')", "bround(d, 1)",
    "unix_timestamp(s)", "coalesce(1, upper(s))", "i + '1'", "CASE WHEN b THEN 1 ELSE 'x' END",
]  # fmt: skip
"""What DuckDB has by that name is something else."""


def expressions(text: str) -> list[str]:
    """The expressions of a list."""
    return [one.strip() for line in text.splitlines() for one in line.split(";") if one.strip()]


def test_duckdb_gives_sparks_values(spark: SparkSession) -> None:
    """Of every expression, for numbers, NaN, text, dates, times and nulls."""
    asked = [*expressions(SAID_OTHERWISE), *expressions(THE_SAME)]
    table = pa.table(ROWS)
    spark.createDataFrame(table).createOrReplaceTempView("rows_of_all_kinds")
    said = ", ".join(f"{one} AS c{n}" for n, one in enumerate(asked))
    expected = spark.sql(f"SELECT {said} FROM rows_of_all_kinds ORDER BY id").toArrow().to_pydict()
    wrong = {}
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.register("rows_of_all_kinds", table)
        define_what("spark_", engine)
        for n, one in enumerate(asked):
            query = in_duckdbs_words(parse_query(f"SELECT {one} AS c FROM rows_of_all_kinds ORDER BY id"))
            found = engine.sql(SparkInDuckDb().generate(query)).to_arrow_table()["c"].to_pylist()
            if [comparable(v) for v in found] != [comparable(v) for v in expected[f"c{n}"]]:
                wrong[one] = (found, expected[f"c{n}"])
    assert wrong == {}


NUMBERS: dict[str, Any] = {
    "id": pa.array(range(4), pa.int64()),
    "f": pa.array([0.1, 16777216.0, -3.3, None], pa.float32()),
    "g": pa.array([0.7, 1.0, None, 2.5], pa.float32()),
    "d": pa.array([0.1, 1e10, 2.2, None]),
    "i": pa.array([1, 16777217, -3, 4], pa.int32()),
    "n": pa.array([Decimal("0.10"), Decimal("1.55"), Decimal("-3.30"), Decimal("7.01")], pa.decimal128(9, 2)),
}
OPERATIONS = [
    *("{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / {b}", "{a} % {b}", "({a} + {b}) * f", "-{a} + ({b} + 1)"),
    *(
        "greatest({a}, {b})",
        "least({a}, {b}, NULL)",
        "coalesce({a}, {b})",
        "if(id > 1, {a}, {b})",
        *("nvl2(id, {a}, {b})", "nullif({a}, {b})"),
    ),
    *("CASE WHEN id = 0 THEN {a} WHEN id = 1 THEN {b} END", "{a} + {b} > 0.8", "{a} = {b}", "{a} * {b} IN (0.01, 7)"),
    *("abs({a}) + round({b})", "max({a}) OVER () - {b}"),
]


def test_numbers_of_two_kinds_are_combined_as_in_spark(spark: SparkSession) -> None:
    """FLOAT becomes DOUBLE beside any other number, and stays FLOAT beside FLOAT; values and types are Spark's."""
    table = pa.table(NUMBERS)
    pairs = [(a, b) for a in ("f", "g") for b in ("g", "f", "d", "i", "n", "0.1", "1", "1e0", "CAST(i AS BIGINT)")]
    both_ways = [*pairs, *((b, a) for a, b in pairs)]
    asked = list(dict.fromkeys(one.format(a=a, b=b) for a, b in both_ways for one in OPERATIONS))
    spark.createDataFrame(table).createOrReplaceTempView("numbers_of_kinds")
    said = ", ".join(f"{one} AS c{n}" for n, one in enumerate(asked))
    expected = spark.sql(f"SELECT {said} FROM numbers_of_kinds ORDER BY id").toArrow()
    wrong = {}
    with duckdb.connect() as engine:
        engine.register("numbers_of_kinds", table)
        define_what("spark_", engine)
        for n, one in enumerate(asked):
            query = parse_query(f"SELECT {one} AS c FROM numbers_of_kinds ORDER BY id")
            mark_columns(query, [table.schema])
            found = engine.sql(SparkInDuckDb().generate(in_duckdbs_words(query))).to_arrow_table()["c"]
            theirs = expected[f"c{n}"]
            is_of_digits = pa.types.is_decimal(found.type) and pa.types.is_decimal(theirs.type)  # 0.1 has two in DuckDB
            if found.to_pylist() != theirs.to_pylist() or not (is_of_digits or found.type == theirs.type):
                wrong[one] = (found.to_pylist(), theirs.to_pylist(), found.type, theirs.type)
    assert wrong == {}


@pytest.mark.parametrize("other", ["f", "g", "d", "i", "n", "0.1", "NULL"])
@pytest.mark.parametrize("set_operation", ["UNION", "INTERSECT", "EXCEPT"])
def test_columns_of_two_kinds_are_united_as_in_spark(spark: SparkSession, set_operation: str, other: str) -> None:
    """In the type that Spark has, on either side, also of three queries."""
    table = pa.table(NUMBERS)
    spark.createDataFrame(table).createOrReplaceTempView("numbers_of_kinds")
    sides = [f"SELECT {each} AS x FROM numbers_of_kinds" for each in ("f", other, "g")]
    with duckdb.connect() as engine:
        engine.register("numbers_of_kinds", table)
        for first, second in (sides[:2], sides[1::-1]):
            text = f"SELECT * FROM ({first} {set_operation} {second} UNION {sides[2]}) AS q ORDER BY 1"
            query = parse_query(text)
            mark_columns(query, [table.schema])
            found = engine.sql(SparkInDuckDb().generate(in_duckdbs_words(query))).to_arrow_table().column(0)
            expected = spark.sql(text).toArrow().column(0)
            assert found.type == expected.type
            assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))


@pytest.mark.parametrize("expression", REFUSED)
def test_what_duckdb_takes_for_something_else_is_refused(expression: str) -> None:
    """The error names it, and the engine that can."""
    with pytest.raises(InvalidRequestError, match="DuckDB has no .* run it in Spark"):
        in_duckdbs_words(parse_query(f"SELECT {expression} AS c FROM t"))


def test_texts_of_floats_are_refused_while_the_query_runs() -> None:
    """Only then is the type known; the spelling is Spark's or nobody's."""
    with duckdb.connect() as engine:
        for value in ("1e7", "X'41'"):
            query = in_duckdbs_words(parse_query(f"SELECT CAST({value} AS STRING) AS c"))
            with pytest.raises(duckdb.Error, match="run it in Spark"):
                engine.execute(query.sql("duckdb")).fetchall()


@pytest.mark.parametrize("grouping", ["a, b WITH CUBE", "a, b WITH ROLLUP", "CUBE (a, b)", "a, ROLLUP (b)"])
def test_subtotals_are_sparks(spark: SparkSession, grouping: str) -> None:
    """In every spelling that Spark has for them."""
    rows = "(SELECT 1 AS a, 'x' AS b UNION ALL SELECT 1 AS a, 'y' AS b UNION ALL SELECT 2 AS a, 'y' AS b)"
    query = f"SELECT a, b, count(*) AS n FROM {rows} AS r GROUP BY {grouping}"
    expected = [tuple(row) for row in spark.sql(query).collect()]
    with duckdb.connect() as engine:
        found = engine.execute(in_duckdbs_words(parse_query(query)).sql("duckdb")).fetchall()
    assert sorted(found, key=repr) == sorted(expected, key=repr)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A metastore beside ``dfs.tmp.t``."""
    folder = tmp_path_factory.mktemp("lake")
    (folder / "t").mkdir()
    pq.write_table(pa.table(ROWS), folder / "t" / "a.parquet")
    return Settings.from_mapping(
        {
            "drill.metastore.iceberg.location.base_path": f"{folder}/metastore",
            "drill.metastore.storage.dfs.workspaces.tmp.location": str(folder),
            "drill.metastore.storage.dfs.workspaces.tmp.writable": True,
        },
        environ={},
    )


def test_views_have_the_same_rows_in_both_engines(spark: SparkSession, known: Settings) -> None:
    """A view in SQL, and a materialized view refreshed by DuckDB and by Spark; what DuckDB cannot say is refused."""
    query = r"SELECT id, dayofweek(day) AS w FROM dfs.tmp.t WHERE s LIKE 'a\_b%' OR CAST(d AS INT) = 5"
    with connect(known) as here:
        here.analyze("dfs.tmp.t")
        here.views.define("dfs.tmp.v", query)
        expected = [{"id": 0, "w": 7}, {"id": 4, "w": None}]
        assert here.sql("SELECT * FROM dfs.tmp.v ORDER BY id").to_pylist() == expected
        here.materialized_views.define("dfs.tmp.m", query)
        assert here.materialized_views.refresh("dfs.tmp.m").engine == "duckdb"
        assert here.sql("SELECT * FROM dfs.tmp.m ORDER BY id").to_pylist() == expected
        here.views.define("dfs.tmp.h", "SELECT hash(s) AS h FROM dfs.tmp.t")
        with pytest.raises(InvalidRequestError, match=r"view dfs\.tmp\.h: .*hash\(\).* run it in Spark"):
            here.sql("SELECT * FROM dfs.tmp.h")
        here.materialized_views.define("dfs.tmp.mh", "SELECT hash(s) AS h FROM dfs.tmp.t")
        with pytest.raises(MetastoreError, match=r"hash\(\).* run it in Spark"):
            here.materialized_views.refresh("dfs.tmp.mh")
    with connect_on_spark(spark, known) as there:
        there.materialized_views.define("dfs.tmp.m", query, replace=True)
        assert there.materialized_views.refresh("dfs.tmp.m").engine == "spark"
        assert there.sql("SELECT * FROM dfs.tmp.m ORDER BY id").to_pylist() == expected
