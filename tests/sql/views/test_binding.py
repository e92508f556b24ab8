"""Columns of a query: checked against the schemas of what it reads, named as written, typed where that is certain."""

from __future__ import annotations

import pytest

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.model.identity import TableInfo
from metastore.model.tuple_schema import TIME_ZONE, SchemaColumn, TupleSchema
from metastore.sql.views.binding import ResolvedQuery, bind
from metastore.sql.views.text import parse_query

TABLES = {
    "t": TupleSchema(
        (
            SchemaColumn("Id", "INT"),
            SchemaColumn("big", "BIGINT"),
            SchemaColumn("money", "DECIMAL(9, 2)"),
            SchemaColumn("part", "DOUBLE"),
            SchemaColumn("odd name.x", "VARCHAR"),
            SchemaColumn("day", "DATE"),
            SchemaColumn("at", "TIMESTAMP", properties={TIME_ZONE: "UTC"}),
            SchemaColumn("s", "STRUCT<`a` INT, `B` STRUCT<`c` DOUBLE>>"),
        )
    ),
    "u": TupleSchema((SchemaColumn("id", "BIGINT"), SchemaColumn("v", "VARCHAR"))),
}


def schema_of(name: TableInfo) -> TupleSchema:
    """The tables above."""
    if name.name not in TABLES:
        raise NotFoundError(f"unknown table or view {name}")
    return TABLES[name.name]


def bound(query: str) -> ResolvedQuery:
    """The query, bound to the tables above."""
    return bind(parse_query(query), schema_of, schema_path=("dfs", "tmp"))


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT id, BIG FROM t", "id INT, BIG BIGINT"),
        ("SELECT * FROM u", "id BIGINT, v VARCHAR"),
        ("SELECT t.Id AS `The Id`, `odd name.x` FROM t", "The Id INT, odd name.x VARCHAR"),
        ("SELECT a.id, b.v FROM t a JOIN u b ON a.id = b.id", "id INT, v VARCHAR"),
        ("SELECT a.* FROM u a JOIN t b ON a.id = b.id", "id BIGINT, v VARCHAR"),
        ("SELECT count(*) AS n, sum(id) s, sum(money) m FROM t", "n BIGINT, s BIGINT, m DECIMAL(19, 2)"),
        ("SELECT avg(big) a FROM t", "a DOUBLE"),
        ("SELECT min(day) d, max(`odd name.x`) x, avg(money) m FROM t", "d DATE, x VARCHAR, m ANY"),
        ("SELECT id + 1 AS a, id * big AS b, part - 1 AS c, id / 2 AS d FROM t", "a INT, b BIGINT, c DOUBLE, d ANY"),
        ("SELECT cast(id AS string) AS a, id > 1 AS b, 'x' AS c FROM t", "a VARCHAR, b BOOLEAN, c VARCHAR"),
        ("SELECT 1 AS d, 3000000000 AS e", "d INT, e BIGINT"),
        ("SELECT upper(v) AS a, coalesce(v, 'x') AS b FROM u", "a VARCHAR, b VARCHAR"),
        ("SELECT coalesce(id, 1) AS c, foo(v) AS d FROM u", "c ANY, d ANY"),
        ("SELECT CASE WHEN id > 1 THEN 'a' ELSE 'b' END AS a FROM t", "a VARCHAR"),
        ("SELECT x.K FROM (SELECT id AS K FROM t) x", "K INT"),
        ("WITH c AS (SELECT id AS k FROM t) SELECT k FROM c", "k INT"),
        ("SELECT id FROM u UNION ALL SELECT big FROM t", "id BIGINT"),
        ("SELECT id FROM t UNION ALL SELECT id FROM u", "id ANY"),
        ("SELECT s.a, s.b.c AS d FROM t", "a ANY, d ANY"),
        ("SELECT dfs.tmp.t.id FROM dfs.tmp.t", "id INT"),
        ("SELECT cast(day AS timestamp) AS x FROM t", "x ANY"),
    ],
)  # fmt: skip
def test_the_columns_of_a_query(query: str, columns: str) -> None:
    """Spelled as the query spells them, or as the schema does for a star; ANY where engines may differ."""
    assert ", ".join(f"{column.name} {column.type}" for column in bound(query).columns) == columns


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT COUNT(*), sum(t.Id), v FROM t, u GROUP BY v", "count(*) BIGINT, sum(t.Id) BIGINT, v VARCHAR"),
        ("SELECT a.id, b.id FROM t a, u b", "id INT, id BIGINT"),
        ("SELECT id + 1 FROM t UNION ALL SELECT 2", "id + 1 INT"),
        ("SELECT * FROM (SELECT max(v) FROM u) x", "max(v) VARCHAR"),
        ("SELECT count(*) FROM t ORDER BY 1", "count(*) BIGINT"),
    ],
)  # fmt: skip
def test_a_query_that_is_no_views_needs_no_names(query: str, columns: str) -> None:
    """Its columns are called by their text."""
    found = bind(parse_query(query), schema_of, schema_path=("dfs", "tmp"), is_view=False)
    assert ", ".join(f"{column.name} {column.type}" for column in found.columns) == columns


def test_a_timestamp_keeps_its_zone() -> None:
    """Through an aggregate too."""
    [column] = bound("SELECT max(at) AS latest FROM t").columns
    assert (column.type, dict(column.properties)) == ("TIMESTAMP", {TIME_ZONE: "UTC"})


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT idd FROM t", "line 1, column 8: unknown column idd; did you mean Id?"),
        ("SELECT id,\n       zzz\nFROM t", "line 2, column 8: unknown column zzz"),
        ("SELECT a.zzz FROM t a", "line 1, column 8: unknown column zzz of a"),
        ("SELECT id FROM t WHERE zzz > 1", "line 1, column 24: unknown column zzz"),
        ("SELECT id FROM t GROUP BY id HAVING max(zzz) > 1", "line 1, column 41: unknown column zzz"),
        ("SELECT id FROM t WHERE id IN (SELECT u.zzz FROM u)", "line 1, column 38: unknown column zzz of u"),
        ("SELECT a.id FROM t a JOIN u b ON a.id = b.zzz", "line 1, column 41: unknown column zzz of b"),
        ("SELECT id FROM t, u", "line 1, column 8: column id is in several tables"),
        ("SELECT q.* FROM t", "the query reads no table or subquery called q"),
        ("SELECT 1 AS a\nFROM\n  nothing", "line 3, column 3: unknown table or view dfs.tmp.nothing"),
        ("SELECT a.*, b.* FROM t a, u b", "two columns called 'Id'"),
        ("SELECT count(*) FROM t", "COUNT(*) has no name; give it one with AS"),
    ],
)  # fmt: skip
def test_what_does_not_fit_says_where(query: str, said: str) -> None:
    """Line and column are those of the query as it was written."""
    with pytest.raises(InvalidRequestError) as raised:
        bound(query)
    assert said in str(raised.value)
