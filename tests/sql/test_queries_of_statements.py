"""Statements whose queries compare rows write what DuckDB returns for the whole tables, wherever they run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.task_engine import TaskEngine

from metastore.config import Settings
from metastore.session import Session, connect

COLUMNS = """i AS id, CASE WHEN i % 7 = 0 THEN NULL WHEN i % 3 > 0 THEN 'a' ELSE 'b' END AS k,
    CAST(i % 4 AS {number}) AS n, CAST(['0.0', '-0.0', 'nan', NULL, '1.5', '-inf'][i % 6 + 1] AS DOUBLE) AS x,
    CAST(i % 5 / 4 AS DECIMAL(9, 2)) AS d, TIMESTAMP '2021-01-01' + INTERVAL (i % 3) DAY AS ts,
    CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN [] ELSE ['a', NULL, 'b'][: i % 4] END AS tags,
    {{'a': i % 3, 'b': nullif(i % 2, 0)}} AS s"""
"""Columns of a table, by ``number``, the type of ``n``. One value of ``k`` has half of the rows."""

TABLES = {"t": ("BIGINT", [(0, 20), (20, 21), (21, 60)]), "u": ("INTEGER", [(30, 50), (52, 75)]), "e": ("BIGINT", [])}
"""Tables, with the rows of each file. ``e`` has no files."""


@pytest.fixture(scope="module")
def engine() -> TaskEngine:
    """An engine that runs statements by tasks, whatever their size. It has many tasks, so few rows meet by chance."""
    return TaskEngine(parallelism=8)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, engine: TaskEngine) -> Iterator[Session]:
    """A session on it, with the tables."""
    folder = tmp_path_factory.mktemp("queries")
    lake = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"{folder}/lake"}
    given = {"drill.metastore": {"iceberg.location.base_path": str(folder / "m"), "catalogs.lake": lake}}
    with connect(Settings.from_mapping(given, environ={}), engine) as session:
        session.sql("CREATE SCHEMA lake.db")
        for name, (number, files) in TABLES.items():
            columns = COLUMNS.format(number=number)
            session.sql(f"CREATE TABLE lake.db.{name} AS SELECT {columns} FROM range(0) r(i)")
            for first, end in files:
                session.sql(f"INSERT INTO lake.db.{name} SELECT {columns} FROM range({first}, {end}) r(i)")
        yield session


@pytest.fixture(scope="module")
def judge() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB alone, with the same rows."""
    with duckdb.connect() as judge:
        judge.execute("SET TimeZone = 'UTC'")
        for name, (number, files) in TABLES.items():
            columns = COLUMNS.format(number=number)
            judge.execute(f"CREATE TABLE {name} AS SELECT {columns} FROM range(0) r(i)")
            for first, end in files:
                judge.execute(f"INSERT INTO {name} SELECT {columns} FROM range({first}, {end}) r(i)")
        yield judge


def in_lake(query: str) -> str:
    """The query with the full names of its tables."""
    words = query.split(" ")
    before = ("FROM", "JOIN", ",")
    return " ".join(
        f"lake.db.{word}" if word.strip("()") in TABLES and words[place - 1] in before else word
        for place, word in enumerate(words)
    )


def texts(rows: pa.Table) -> list[str]:
    """Rows that compare whatever their order: equal zeros of both signs, equal NaN."""
    rows = rows.rename_columns([f"c{number}" for number in range(rows.num_columns)])
    return sorted(repr([alike(value) for value in row.values()]) for row in rows.to_pylist())


def alike(value: Any) -> Any:
    """Equal values for values that DuckDB holds equal."""
    return value + 0.0 if isinstance(value, float) else value


EXPRESSIONS = st.sampled_from(
    ["k", "n", "x", "d", "ts", "tags", "s", "s.a", "lower(k)", "id % 3", "CAST(n AS VARCHAR)", "coalesce(k, 'a')"]
)
KEYS = st.lists(EXPRESSIONS, min_size=1, max_size=3, unique=True).map(", ".join)
CONDITIONS = st.sampled_from(["true", "n > 1", "k = 'a'", "x > 0", "id < 25", "d IS NOT NULL AND id % 2 = 0", "false"])
AGGREGATES = st.sampled_from(
    ["count(*)", "sum(n), avg(n)", "min(ts), max(d)", "count(DISTINCT k)", "list(id ORDER BY id)", "bool_or(n > 2)"]
)
NAMES = st.sampled_from(["t", "u", "e"])
JOIN_KEYS = st.sampled_from(
    ["a.id = b.id", "a.n = b.n", "a.k = b.k", "a.x = b.x", "a.n = b.n AND a.k = b.k", "a.s = b.s", "b.id % 4 = a.n"]
)
JOINS = st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
BESIDE = st.sampled_from(["", "AND a.n < b.n", "AND a.id < 35", "AND b.n > 1"])
NOT = st.sampled_from(["", "NOT"])
ORDERS = st.sampled_from(["id", "id DESC", "2, id", "e DESC NULLS LAST, id", "n % 3, id"])
SETS = st.sampled_from(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])

SHAPES: list[tuple[str, list[st.SearchStrategy[str]]]] = [
    ("SELECT {0}, {1} FROM {2} WHERE {3} GROUP BY {0}", [KEYS, AGGREGATES, NAMES, CONDITIONS]),
    ("SELECT {} AS a FROM {} GROUP BY a HAVING count(*) > 2 ORDER BY a", [EXPRESSIONS, NAMES]),
    ("SELECT DISTINCT {} FROM {} WHERE {}", [KEYS, NAMES, CONDITIONS]),
    ("SELECT DISTINCT ON ( {} ) * FROM {} ORDER BY ALL", [EXPRESSIONS, NAMES]),
    ("SELECT id, sum(n) OVER (PARTITION BY {} ORDER BY id) FROM {}", [KEYS, NAMES]),
    ("SELECT * FROM {} QUALIFY row_number() OVER (PARTITION BY {} ORDER BY id DESC) = 1", [NAMES, KEYS]),
    ("SELECT a.id, b.id, a.k, b.x FROM {} a {} {} b ON {} {}", [NAMES, JOINS, NAMES, JOIN_KEYS, BESIDE]),
    ("SELECT a.id FROM {} a {} JOIN {} b ON {}", [NAMES, st.sampled_from(["SEMI", "ANTI"]), NAMES, JOIN_KEYS]),
    ("SELECT a.id FROM {} a WHERE {} EXISTS (SELECT 1 FROM {} b WHERE {} {})", [NAMES, NOT, NAMES, JOIN_KEYS, BESIDE]),
    ("SELECT id FROM {0} WHERE {1} {2} IN (SELECT {1} FROM {3} WHERE n < 3)", [NAMES, EXPRESSIONS, NOT, NAMES]),
    ("SELECT {0} FROM {1} {2} SELECT {0} FROM {3}", [KEYS, NAMES, SETS, NAMES]),
    ("SELECT a.n, count(b.id), min(a.k) FROM {} a {} {} b ON {} GROUP BY a.n", [NAMES, JOINS, NAMES, JOIN_KEYS]),
    ("SELECT b.n, count(a.id) FROM {} a {} {} b ON {} GROUP BY ALL", [NAMES, JOINS, NAMES, JOIN_KEYS]),
    (
        "WITH g AS ( SELECT n, count(*) AS c FROM {} GROUP BY n ) SELECT b.id, g.c FROM {} b {} g ON g.n = b.n",
        [NAMES, NAMES, JOINS],
    ),
    ("WITH g AS ( SELECT * FROM {} ) SELECT a.id FROM g a {} g b ON {}", [NAMES, JOINS, JOIN_KEYS]),
    ("SELECT n, max(c) FROM ( SELECT n, {}, count(*) AS c FROM {} GROUP BY ALL ) GROUP BY n", [EXPRESSIONS, NAMES]),
    ("SELECT c, count(*) FROM ( SELECT {}, count(*) AS c FROM {} GROUP BY ALL ) GROUP BY c", [EXPRESSIONS, NAMES]),
    ("SELECT {} FROM {} GROUP BY ROLLUP ( n, k )", [AGGREGATES, NAMES]),
    ("SELECT {} FROM {} GROUP BY GROUPING SETS ( (n, k), (k), (k, d) )", [AGGREGATES, NAMES]),
    ("SELECT {} FROM {} WHERE {}", [AGGREGATES, NAMES, CONDITIONS]),
    (
        "SELECT id, {} AS e FROM {} WHERE {} ORDER BY {} LIMIT {} OFFSET 2",
        [EXPRESSIONS, NAMES, CONDITIONS, ORDERS, st.sampled_from(["3", "40"])],
    ),
    ("SELECT * FROM {} a JOIN {} b USING (id) JOIN {} c USING (id)", [NAMES, NAMES, NAMES]),
    ("SELECT id, count(*) FROM {} a {} {} b USING (id) GROUP BY id", [NAMES, JOINS, NAMES]),
    ("SELECT a.id, w.id FROM {} a , {} b , {} w WHERE a.id = b.id AND b.n = w.n AND w.id < 40", [NAMES, NAMES, NAMES]),
    ("SELECT DISTINCT {} FROM ( SELECT * FROM {} UNION ALL SELECT * FROM {} )", [KEYS, NAMES, NAMES]),
    ("SELECT a.k, v FROM {} a , unnest(a.tags) q(v) GROUP BY ALL", [NAMES]),
]
QUERIES = st.one_of(*(st.builds(shape.format, *parts) for shape, parts in SHAPES))


REPORTS = [
    # Texts that a collation holds equal have other hashes where only one side of a join has it.
    "SELECT a.id, b.id FROM t a FULL JOIN u b ON a.k COLLATE NOCASE = upper(b.k)",
    "SELECT a.id FROM t a JOIN u b ON upper(a.k) = b.k COLLATE NOCASE",
    "SELECT id FROM t WHERE upper(k) IN (SELECT k COLLATE NOCASE FROM u )",
    "SELECT upper(k) COLLATE NOCASE FROM t EXCEPT SELECT k FROM u WHERE k > 'a'",
    "SELECT count(*) FROM ( SELECT if(id % 2 = 0, k, upper(k)) COLLATE NOCASE AS c FROM t ) GROUP BY c",
    # apache/doris 5225, apache/gluten 6300: zeros of both signs and NaN are one value in windows and groups.
    "SELECT id, count(*) OVER (PARTITION BY x) FROM t",
    "SELECT x, n, count(*) FROM t GROUP BY x, n",
    "SELECT [x, NULL] AS l, {'v': x} AS v, count(*) FROM t GROUP BY ALL",
    # trinodb/trino 2716, prestodb/presto 11484: the empty grouping set has one row, also without rows and over groups.
    "SELECT k, count(*) FROM t WHERE hash(id) = 0 GROUP BY GROUPING SETS ( (k), () )",
    "SELECT n FROM ( SELECT n FROM ( SELECT n FROM t GROUP BY n ) GROUP BY n ) GROUP BY GROUPING SETS ( (n), () )",
    "SELECT count(*), sum(n) FROM t WHERE hash(id) = 0",
    # apache/iceberg 5739: equal values of different types, which DuckDB compares as numbers.
    "SELECT a.id FROM ( SELECT CAST(id AS VARCHAR) AS id FROM t ) a JOIN u b ON a.id = b.id",
    "SELECT a.id, b.id FROM t a FULL JOIN ( SELECT CAST(id AS DECIMAL(9, 2)) AS id FROM u ) b ON a.id = b.id",
    "SELECT a.ts, b.id FROM t a FULL JOIN u b ON a.ts = CAST(b.ts AS DATE) AND a.id = b.id",
    # apache/iceberg 2533: a side without files.
    "SELECT a.id, b.id FROM t a FULL JOIN e b ON a.id = b.id",
    "SELECT id FROM t EXCEPT SELECT id FROM e",
    # StarRocks/starrocks 67944: a key that half of the rows have.
    "SELECT id, sum(n) OVER (PARTITION BY coalesce(k, 'a') ORDER BY id) FROM t",
    # A key that cannot be computed for rows that a condition leaves out.
    "SELECT CAST(k AS INTEGER) AS i FROM t WHERE k NOT IN ('a', 'b') GROUP BY i",
]
"""Situations in which other engines gave wrong answers, or failed."""


def written(session: Session, query: str) -> list[str]:
    """The rows that a statement writes, as texts that compare."""
    session.sql("DROP TABLE IF EXISTS lake.db.new")
    names = ", ".join(f"c{number}" for number in range(session.sql(in_lake(query)).num_columns))
    session.sql(f"CREATE TABLE lake.db.new AS WITH q ( {names} ) AS ( {in_lake(query)} ) FROM q")
    return texts(session.sql("SELECT * FROM lake.db.new"))


@settings(deadline=None, max_examples=40)
@given(QUERIES)
def test_a_statement_writes_the_rows_of_its_query(
    session: Session, judge: duckdb.DuckDBPyConnection, query: str
) -> None:
    """For any query, by tasks or on the driver."""
    assert written(session, query) == texts(judge.sql(query).to_arrow_table())


@pytest.mark.parametrize("query", REPORTS)
def test_situations_of_public_reports(session: Session, judge: duckdb.DuckDBPyConnection, query: str) -> None:
    """Answers are DuckDB's."""
    assert written(session, query) == texts(judge.sql(query).to_arrow_table())
