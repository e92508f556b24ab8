"""Which queries can be kept up to date by new files alone; and that it gives what reading everything gives."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.session import Session
from metastore.sql.views.binding import bind
from metastore.sql.views.expansion import expand
from metastore.sql.views.incremental import FullRefresh, IncrementalState, Rowwise, Way, is_steady, way_of
from metastore.sql.views.text import parse_query

T = TupleSchema(
    (
        SchemaColumn("k", "INT"),
        SchemaColumn("G", "VARCHAR"),
        SchemaColumn("d", "DECIMAL(9, 2)"),
        SchemaColumn("x", "DOUBLE"),
        SchemaColumn("u", "UINT8"),
        SchemaColumn("at", "TIMESTAMP"),
    )
)


def way(query: str) -> Way:
    """How the query over ``t`` and ``o``, both with the columns above, can be refreshed."""
    bound = bind(expand(query, lambda _: None, schema_path=("dfs", "tmp")), lambda _: T)
    return way_of(bound, dict.fromkeys(bound.tables, T))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, G FROM t",
        "SELECT k + 1 AS a, upper(g) AS b FROM t WHERE x > 1 AND G LIKE 'a%'",
        "SELECT a FROM (SELECT k AS a, d FROM t WHERE k > 1) s WHERE a < 5",
        "WITH c AS (SELECT k FROM t) SELECT k FROM c",
        "SELECT k FROM t ORDER BY k",
        "SELECT CASE WHEN k > 1 THEN 'a' END AS c, cast(at AS date) AS day FROM t",
    ],
)
def test_projections_and_filters_are_rowwise(query: str) -> None:
    """Through subqueries too; an order is nothing that stored rows keep."""
    assert isinstance(way(query), Rowwise)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM t",
        "SELECT G, count(k) AS n, sum(k) AS s, min(x) AS a, max(d) AS b, avg(x) AS c FROM t GROUP BY G",
        "SELECT year(at) AS y, sum(d) * 2 + count(*) AS s FROM t GROUP BY 1 HAVING count(*) > 1 ORDER BY y",
        "SELECT g FROM t GROUP BY g",
        "SELECT b, sum(a) AS s FROM (SELECT k AS a, G AS b FROM t WHERE k > 1) s GROUP BY b",
        "SELECT G, sum(CASE WHEN k > 1 THEN k END) AS s FROM t GROUP BY G",
    ],
)
def test_mergeable_aggregates_keep_a_state(query: str) -> None:
    """Grouped or not, with expressions over them, and conditions on them."""
    assert isinstance(way(query), IncrementalState)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT DISTINCT k FROM t", "it has DISTINCT"),
        ("SELECT k FROM t ORDER BY k LIMIT 3", "it has LIMIT"),
        ("SELECT a.k FROM t a JOIN o b ON a.k = b.k", "it joins"),
        ("SELECT a.k FROM t a, o b", "it joins"),
        ("SELECT k FROM t UNION ALL SELECT k FROM o", "it is a set operation"),
        ("SELECT k FROM t WHERE k IN (SELECT k FROM o)", "it reads several tables"),
        ("SELECT k FROM (SELECT DISTINCT k FROM t) s", "it has a subquery"),
        ("SELECT row_number() OVER (ORDER BY k) AS r FROM t", "it has a window"),
        ("SELECT count(DISTINCT k) AS n FROM t", "cannot be merged from parts"),
        ("SELECT stddev(k) AS n FROM t", "cannot be merged from parts"),
        ("SELECT avg(d) AS a FROM t", "engines differ on the average"),
        ("SELECT sum(u) AS s FROM t", "the type of"),
        ("SELECT sum(k / 2) AS s FROM t", "the type of"),
        ("SELECT sum(k) FILTER (WHERE k > 1) AS s FROM t", "filters within an aggregate"),
        ("SELECT G, count(*) AS n FROM t GROUP BY ROLLUP (G)", "grouping sets"),
        ("SELECT k, rand() AS r FROM t", "may return another result each time"),
        ("SELECT k, current_date() AS r FROM t", "may return another result each time"),
        ("SELECT k, my_function(k) AS r FROM t", "may return another result each time"),
        ("SELECT 1 AS a", "it reads no table"),
    ],
)
def test_everything_else_is_read_whole_and_says_why(query: str, reason: str) -> None:
    """The reason is what REFRESH tells."""
    found = way(query)
    assert isinstance(found, FullRefresh)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("query", "steady"),
    [
        ("SELECT k, upper(G) AS u, count(*) OVER () AS n FROM t", True),
        ("SELECT row_number() OVER (ORDER BY k) AS n FROM t", True),
        ("SELECT k FROM t WHERE at < current_timestamp()", False),
        ("SELECT uuid() AS id FROM t", False),
        ("SELECT unknown_function(k) AS a FROM t", False),
    ],
)
def test_steady_queries(query: str, steady: bool) -> None:
    """What answers by the clock, by chance, or nobody knows how, is never fresh."""
    assert is_steady(parse_query(query)) is steady


COLUMNS: list[pa.Field[Any]] = [
    pa.field("k", pa.int32()),
    pa.field("g", pa.string()),
    pa.field("d", pa.decimal128(9, 2)),
    pa.field("x", pa.float64()),
    pa.field("big", pa.int64()),
]
QUERIES = [
    "SELECT k, g, d FROM t WHERE k > 0",
    "SELECT count(*) AS n, count(x) AS nx, sum(k) AS s, sum(d) AS sd, sum(big) AS sb, min(g) AS a, max(x) AS b FROM t",
    "SELECT g, avg(k) AS mean, sum(x) AS sx, min(d) AS a, max(big) AS b, count(d) * 2 AS nd FROM t GROUP BY g",
    "SELECT k % 2 AS odd, g, sum(k) + count(*) AS s FROM t WHERE x IS NOT NULL GROUP BY k % 2, g HAVING count(*) > 1",
]
ROW = st.fixed_dictionaries(
    {
        "k": st.none() | st.integers(-3, 3),
        "g": st.none() | st.sampled_from(["a", "b", "ü"]),
        "d": st.none()
        | st.integers(-999, 999).map(lambda n: Decimal(n) / 4).map(lambda d: d.quantize(Decimal("0.01"))),
        # Halves and quarters, so that sums of them are exact in any order.
        "x": st.none() | st.integers(-8, 8).map(lambda n: n / 4),
        "big": st.none() | st.integers(-(2**40), 2**40),
    }
)


@settings(max_examples=8)
@given(files=st.lists(st.lists(ROW, max_size=6), min_size=1, max_size=4), query=st.sampled_from(QUERIES))
def test_incremental_equals_full_equals_duckdb(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[dict[str, Any]]], query: str
) -> None:
    """After every appended file, empty ones too: the kept-up view, one made anew, and DuckDB's own answer."""
    folder = tmp_path_factory.mktemp("appends")
    (folder / "data/t").mkdir(parents=True)
    with _session(folder) as session:
        for number, rows in enumerate(files):
            pq.write_table(pa.Table.from_pylist(rows, pa.schema(COLUMNS)), folder / f"data/t/{number}.parquet")
            if number == 0:
                session.analyze("dfs.tmp.t")
                session.materialized_views.define("dfs.tmp.m", query)
            result = session.materialized_views.refresh("dfs.tmp.m")
            assert result.mode == ("incremental" if number else "full")
            stored = _stored(session)
            expected = duckdb.execute(query.replace("FROM t", f"FROM '{folder}/data/t/*.parquet'")).fetchall()
            assert _values(stored) == sorted(map(_comparable, expected), key=repr)
        kept_up = _stored(session)
        session.materialized_views.refresh("dfs.tmp.m", "full")
        assert _values(_stored(session)) == _values(kept_up)
        assert _stored(session).schema == kept_up.schema


def _session(folder: Path) -> Session:
    workspaces = {"tmp": {"location": str(folder / "data"), "writable": True}}
    location = {"base_path": str(folder), "relative_path": "m"}
    given_settings = {"iceberg.location": location, "storage.dfs.workspaces": workspaces}
    return Session(Metastore.open(Settings.from_mapping({"drill.metastore": given_settings}, environ={})))


def _stored(session: Session) -> pa.Table:
    unit = session.materialized_views.get("dfs.tmp.m")
    return session.tables.scan(f"dfs.tmp.`{unit.data_location}`").to_arrow()


def _values(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((_comparable(tuple(row.values())) for row in table.to_pylist()), key=repr)


def _comparable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(Decimal(value) if isinstance(value, (int, Decimal)) else value for value in row)
