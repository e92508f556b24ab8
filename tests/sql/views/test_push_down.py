"""Conditions that prune a table's scan: only such that leave the answer as it is."""

from __future__ import annotations

import pytest

from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.sql.views.binding import bind
from metastore.sql.views.expansion import ViewText, expand
from metastore.sql.views.push_down import conditions

T = TupleSchema(
    (
        SchemaColumn("Id", "INT"),
        SchemaColumn("odd name", "VARCHAR"),
        SchemaColumn("at", "TIMESTAMP"),
        SchemaColumn("d", "DOUBLE"),
    )
)
VIEWS = {
    "dfs.tmp.v": ViewText("SELECT Id AS k, `odd name` AS n FROM t WHERE `odd name` = 'a'", schema_path=("dfs", "tmp")),
    "dfs.tmp.grouped": ViewText("SELECT Id AS k, count(*) AS n FROM t GROUP BY Id", schema_path=("dfs", "tmp")),
    "dfs.tmp.first": ViewText("SELECT Id AS k FROM t ORDER BY at LIMIT 3", schema_path=("dfs", "tmp")),
}


def pruning(query: str) -> list[str]:
    """The conditions of the tables that the query reads, sorted."""
    expanded = expand(query, lambda name: VIEWS.get(str(name)), schema_path=("dfs", "tmp"))
    bound = bind(expanded, lambda _: T)
    return sorted(conditions(bound, dict.fromkeys(bound.tables, T)).values())


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT id FROM t WHERE ID > 3", ["(`Id` > 3)"]),
        ("SELECT x.id FROM t x WHERE x.id > 3 AND `odd name` = 'b'", ["(`Id` > 3) AND (`odd name` = 'b')"]),
        ("SELECT k FROM v", ["(`odd name` = 'a')"]),
        ("SELECT k FROM v WHERE k = 7", ["(`Id` = 7) AND (`odd name` = 'a')"]),
        ("SELECT a.id FROM t a JOIN u b ON a.id = b.id WHERE a.id > 3 AND b.id < 9", ["(`Id` < 9)", "(`Id` > 3)"]),
        ("SELECT id FROM t UNION ALL SELECT id FROM u WHERE id > 3", ["(`Id` > 3)"]),
        # Arithmetic stays as it is: i + 1 < 0 is no i < -1 where integers overflow.
        ("SELECT id FROM t WHERE id + 1 < 0", ["(`Id` + 1 < 0)"]),
        ("SELECT id FROM t WHERE NOT (id + 1 > 0 OR id - 1 > 7)", ["(NOT `Id` + 1 > 0) AND (NOT `Id` - 1 > 7)"]),
        (
            "SELECT j FROM (SELECT id + 1 AS j FROM t) x WHERE -j < 0 AND j * 2 > 1",
            ["(-(`Id` + 1) < 0) AND ((`Id` + 1) * 2 > 1)"],
        ),
        ("SELECT j FROM (SELECT id > 3 AS j FROM t) x WHERE j", ["((`Id` > 3))"]),
        ("SELECT u.id FROM u WHERE u.id IN (SELECT id FROM t WHERE id + 1 < 0)", ["(`Id` + 1 < 0)"]),
        ("SELECT a.id FROM t a JOIN u b ON a.id = b.id AND a.id + 1 < 0", ["(`Id` + 1 < 0)"]),
        ("SELECT k FROM grouped WHERE k > 3", ["(`Id` > 3)"]),
        ("SELECT k FROM grouped WHERE k > 3 AND n > 3", ["(`Id` > 3)"]),
        ("SELECT a.k FROM grouped a JOIN u b ON a.k = b.id WHERE a.k > 3 AND b.id = 1", ["(`Id` = 1)", "(`Id` > 3)"]),
        (
            "SELECT k FROM (SELECT k FROM (SELECT k, n FROM grouped WHERE n > 1) x) y WHERE k + 1 < 0",
            ["(`Id` + 1 < 0)"],
        ),
        ("SELECT k, max(n) AS m FROM grouped GROUP BY k HAVING k > 3 AND max(n) > 1", ["(`Id` > 3)"]),
        ("SELECT id, count(*) AS n FROM t GROUP BY id HAVING id > 3 OR id < 0", ["(`Id` > 3 OR `Id` < 0)"]),
        ("WITH c AS (SELECT id, count(*) AS n FROM t GROUP BY id) SELECT n FROM c WHERE id = 3", ["(`Id` = 3)"]),
        (
            "SELECT n FROM (SELECT year(at) AS y, count(*) AS n FROM t GROUP BY year(at)) v WHERE y = 2024",
            ["((YEAR(`at`)) = 2024)"],
        ),
        # Of a LEFT JOIN, the side that keeps all rows may lose those that WHERE drops.
        ("SELECT a.id FROM t a LEFT JOIN u b ON a.id = b.id WHERE a.id > 3 AND b.id > 4", ["(`Id` > 3)"]),
        (
            "SELECT a.id FROM t a JOIN w b ON b.id > 5 LEFT JOIN u c ON a.id = c.id WHERE a.id > 3",
            ["(`Id` > 3)", "(`Id` > 5)"],
        ),
        ("SELECT a.k FROM grouped a LEFT JOIN u b ON a.k = b.id WHERE a.k > 3", ["(`Id` > 3)"]),
        # Not one of these may leave rows out:
        ("SELECT a.id FROM u b LEFT JOIN t a ON a.id = b.id JOIN w c ON a.id IS NULL", []),
        ("SELECT n FROM (SELECT d, count(*) AS n FROM t GROUP BY d) v WHERE CAST(d AS STRING) = '0.0'", []),
        ("SELECT n FROM (SELECT id / 2 AS h, count(*) AS n FROM t GROUP BY id / 2) v WHERE h = 1", []),
        ("SELECT k FROM grouped WHERE k > n", []),
        ("SELECT k FROM grouped WHERE k > 3 OR n > 3", []),
        ("SELECT k FROM (SELECT id AS k, count(*) AS n FROM t GROUP BY id LIMIT 3) x WHERE k > 3", []),
        ("SELECT k FROM (SELECT id AS k, rank() OVER (ORDER BY count(*)) AS r FROM t GROUP BY id) x WHERE k > 3", []),
        ("SELECT k FROM (SELECT id AS k, count(*) AS n FROM t GROUP BY ROLLUP (id)) x WHERE k > 3", []),
        (
            "SELECT k FROM (SELECT id AS k, count(*) AS n FROM t GROUP BY GROUPING SETS ((id), ())) x WHERE k > 3",
            [],
        ),
        ("SELECT a.id FROM t a LEFT JOIN grouped b ON a.id = b.k WHERE b.k IS NULL", []),
        ("SELECT a.k FROM grouped a FULL JOIN t b ON a.k = b.id WHERE a.k IS NULL", []),
        (
            "WITH c AS (SELECT id, max(at) AS n FROM t GROUP BY id) SELECT x.n FROM c x, c y WHERE x.id = 1",
            [],
        ),
        ("SELECT k FROM (SELECT max(id) AS k FROM t GROUP BY at) x WHERE k > 3", []),
        ("SELECT k FROM grouped WHERE k > rand()", []),
        ("SELECT b FROM (SELECT rand() < 0.5 AS b, count(*) AS n FROM t GROUP BY rand() < 0.5) x WHERE b", []),
        ("SELECT id, count(*) AS n FROM t GROUP BY id HAVING max(id) > 3 OR count(id) > 3", []),
        ("SELECT id FROM t", []),
        ("SELECT k FROM first WHERE k > 3", []),
        ("SELECT k FROM grouped WHERE n > 3", []),
        ("SELECT a.id FROM t a LEFT JOIN (SELECT id FROM u) b ON a.id = b.id WHERE b.id IS NULL", []),
        ("SELECT a.id FROM t a LEFT JOIN v ON a.id = v.k WHERE v.n IS NULL", ["(`odd name` = 'a')"]),
        ("SELECT a.id FROM (SELECT id FROM t) a RIGHT JOIN u b ON a.id = b.id WHERE a.id IS NULL", []),
        ("SELECT a.id FROM (SELECT id FROM t) a FULL JOIN u b ON a.id = b.id WHERE a.id IS NULL", []),
        ("SELECT a.id FROM (SELECT id FROM t) a LEFT JOIN u b ON a.id = b.id AND a.id > 3", []),
        ("SELECT a.id FROM (SELECT id FROM t LIMIT 3) a WHERE a.id > 3", []),
        ("SELECT DISTINCT id FROM t QUALIFY row_number() OVER (ORDER BY at) = 1", []),
        ("WITH c AS (SELECT id FROM t) SELECT x.id FROM c x JOIN c y ON x.id = y.id + 1 WHERE x.id > 3", []),
        ("SELECT a.id FROM t a LEFT JOIN u b ON a.id = b.id WHERE b.id IS NULL", []),
        ("SELECT a.id FROM t a FULL JOIN u b ON a.id = b.id WHERE a.id IS NULL", []),
        ("SELECT a.id FROM t a JOIN u b ON a.id = b.id WHERE a.id > b.id OR a.id > 3", []),
        ("FROM t a RIGHT JOIN u b ON a.id = b.id SELECT a.id WHERE a.id IS NULL", []),
        ("FROM (SELECT id FROM t) a RIGHT JOIN u b ON a.id = b.id SELECT a.id WHERE a.id IS NULL", []),
        ("SELECT a.id FROM (t a LEFT JOIN u b ON a.id = b.id) WHERE b.id IS NULL", []),
        ("SELECT x.k FROM t AS x(k, id, z) WHERE x.id > 'c'", []),
        ("SELECT x.k FROM (SELECT id, at FROM t) AS x(k, id) WHERE x.id > 3", ["(`at` > 3)"]),
        ("WITH x(k, id) AS (SELECT id, at FROM t) SELECT x.k FROM x WHERE x.id > 3", ["(`at` > 3)"]),
        ("SELECT x.id FROM t TABLESAMPLE (10 ROWS) x WHERE x.id > 3", []),
        ("SELECT id FROM t WHERE `odd name` NOT LIKE 'a%'", ["(`odd name` NOT LIKE 'a%')"]),
        ("SELECT id FROM t WHERE rand() > 0.5", []),
        ("SELECT id FROM t WHERE id + rand() > 0.5", []),
        ("SELECT id FROM t WHERE id IN (SELECT id FROM u)", []),
        ("SELECT id, count(*) AS n FROM t GROUP BY id HAVING count(*) > 3", []),
        ("SELECT k FROM (SELECT id AS k, row_number() OVER (ORDER BY at) AS r FROM t) s WHERE r = 1", []),
    ],
)
def test_conditions(query: str, found: list[str]) -> None:
    """In the table's own names, through views and subqueries where SQL lets them through."""
    assert pruning(query) == found
