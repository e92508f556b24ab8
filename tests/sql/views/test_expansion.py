"""Views in a query become the subqueries they stand for; names of tables stay what they are in each."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from metastore.errors import InvalidRequestError
from metastore.model.identity import TableInfo
from metastore.sql.views import ViewText, expand, tables_of

VIEWS = {
    "dfs.tmp.v": ViewText("SELECT a, b FROM t WHERE a > 1", schema_path=("dfs", "tmp")),
    "dfs.tmp.over": ViewText("SELECT v.a FROM tmp.v JOIN dfs.tmp.`u/x` AS u ON v.a = u.a", schema_path=("dfs",)),
    "dfs.tmp.cte": ViewText("WITH t AS (SELECT * FROM t) SELECT * FROM t", schema_path=("dfs", "tmp")),
    "dfs.tmp.trino": ViewText('SELECT "a b" FROM "dfs"."tmp"."t"', "trino"),
    "dfs.tmp.self": ViewText("SELECT * FROM self", schema_path=("dfs", "tmp")),
    "dfs.tmp.x": ViewText("SELECT * FROM y", schema_path=("dfs", "tmp")),
    "dfs.tmp.y": ViewText("SELECT * FROM x", schema_path=("dfs", "tmp")),
}


def expanded(query: str, path: tuple[str, ...] = ("dfs", "tmp")) -> exp.Query:
    """The query with the views above."""
    return expand(query, lambda name: VIEWS.get(str(name)), schema_path=path)


def text(query: str) -> str:
    """The expanded query as Spark SQL."""
    return expanded(query).sql("spark")


def test_a_table_is_named_in_full() -> None:
    """And keeps its own name as alias, so that columns find it."""
    assert text("SELECT t.a FROM t") == "SELECT t.a FROM `dfs`.`tmp`.`t` AS t"
    assert text("SELECT x.a FROM dfs.tmp.t x") == "SELECT x.a FROM `dfs`.`tmp`.`t` AS x"


def test_a_view_becomes_a_subquery() -> None:
    """Under its own name or the alias it was given."""
    inner = "(SELECT a, b FROM `dfs`.`tmp`.`t` AS t WHERE a > 1)"
    assert text("SELECT v.a FROM v") == f"SELECT v.a FROM {inner} AS v"
    assert text("SELECT w.a FROM dfs.tmp.v AS w") == f"SELECT w.a FROM {inner} AS w"


def test_views_of_views_and_joins() -> None:
    """Down to tables; a name with a slash is one name."""
    query = expanded("SELECT * FROM over, t")
    names = [TableInfo("dfs", "tmp", "t"), TableInfo("dfs", "tmp", "u/x")]
    assert tables_of(query) == names


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("WITH v AS (SELECT 1 AS a) SELECT * FROM v", []),
        ("WITH v AS (SELECT * FROM v) SELECT * FROM v", ["t"]),
        ("WITH w AS (SELECT * FROM t), v AS (SELECT * FROM w) SELECT * FROM v, w", ["t"]),
        ("WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r) SELECT * FROM r", []),
        ("SELECT * FROM (WITH v AS (SELECT 1 AS a) SELECT * FROM v) JOIN v", ["t"]),
        ("WITH v AS (SELECT 1 AS a) SELECT (SELECT max(a) FROM v) AS m", []),
        ("WITH V AS (SELECT 1 AS a) SELECT * FROM v", []),
        ("WITH v AS (SELECT 1 AS a) SELECT * FROM dfs.tmp.v", ["t"]),
        ("SELECT * FROM u WHERE EXISTS (SELECT 1 FROM v)", ["t", "u"]),
        ("SELECT a FROM t UNION SELECT a FROM cte", ["t"]),
    ],
)
def test_a_common_table_expression_hides_a_view(query: str, tables: list[str]) -> None:
    """Where SQL says that it does, and nowhere else."""
    assert tables_of(expanded(query)) == [TableInfo("dfs", "tmp", name) for name in tables]


def test_a_name_of_the_outer_query_does_not_capture_one_of_a_view() -> None:
    """The view's ``t`` is a table, whatever the query around it calls ``t``."""
    query = expanded("WITH t AS (SELECT 7 AS a) SELECT v.a FROM v, t")
    assert tables_of(query) == [TableInfo("dfs", "tmp", "t")]


def test_columns_may_name_their_table_in_full() -> None:
    """``dfs.tmp.v.a`` is column a of the view; a field of a struct only looks like that."""
    assert text("SELECT dfs.tmp.t.a FROM dfs.tmp.t") == "SELECT t.a FROM `dfs`.`tmp`.`t` AS t"
    assert text("SELECT tmp.t.a FROM dfs.tmp.t") == "SELECT t.a FROM `dfs`.`tmp`.`t` AS t"
    assert text("SELECT s.t.a FROM dfs.tmp.t") == "SELECT s.t.a FROM `dfs`.`tmp`.`t` AS t"


def test_dialects_may_differ() -> None:
    """A view in Trino's SQL within a query in Spark's."""
    assert "`a b`" in text("SELECT * FROM trino")


def test_the_tree_that_is_given_stays_as_it_is() -> None:
    """It can be expanded again, with other views."""
    tree = parse_one("SELECT * FROM v", read="spark")
    assert isinstance(tree, exp.Query)
    before = tree.sql()
    expand(tree, lambda name: VIEWS.get(str(name)), schema_path=("dfs", "tmp"))
    assert tree.sql() == before


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT *\nFROM t,\n     self", "line 3, column 6: dfs.tmp.self reads itself: dfs.tmp.self -> dfs.tmp.self"),
        ("SELECT * FROM x", "line 1, column 15: dfs.tmp.x reads itself: dfs.tmp.x -> dfs.tmp.y -> dfs.tmp.x"),
        ("SELECT * FROM range(10)", "is no table of the metastore"),
        ("SELECT *\nFROM t VERSION AS OF 3", "line 2, column 6: a view always reads the newest version"),
        ("SELECT FROM WHERE", "line 1, column"),
        ("SELECT 'a", "is a quote not closed"),
        ("SELECT 1 AS a; SELECT 2 AS a", "one query"),
        ("DROP TABLE t", "one query"),
        ("", "one query"),
    ],
)
def test_what_cannot_be_expanded_says_where(query: str, said: str) -> None:
    """With line and column where there is one."""
    with pytest.raises(InvalidRequestError) as raised:
        expanded(query)
    assert said in str(raised.value)


def test_a_short_name_needs_a_path() -> None:
    """There is no place to look for it otherwise."""
    with pytest.raises(InvalidRequestError, match="line 1, column 15: t has no storage plugin and workspace"):
        expanded("SELECT * FROM t", ())
