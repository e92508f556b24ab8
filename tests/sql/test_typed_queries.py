"""Queries as users of Hive, Spark and Trino type them: LATERAL VIEW, table_changes, functions, literals."""

from __future__ import annotations

import re
from datetime import date, datetime, timezone
from functools import partial
from typing import Any

import pytest
from support.lake_table import Lake

from metastore.duck.typed_functions import NAMES
from metastore.errors import InvalidRequestError, MetastoreError

utc = partial(datetime, tzinfo=timezone.utc)
ROWS: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("SELECT id, e FROM t LATERAL VIEW explode(l) x AS e", [(1, 5), (1, 6)]),
    ("SELECT id, x.e FROM lake.db.t\nLATERAL VIEW OUTER explode(l) x AS e", [(1, 5), (1, 6), (2, None), (3, None)]),
    ("SELECT id, col FROM t LATERAL VIEW explode(l)", [(1, 5), (1, 6)]),
    ("SELECT id, `a b` FROM t LATERAL VIEW explode(l) AS `a b` WHERE `a b` > 5", [(1, 6)]),
    ("SELECT id, i, e FROM t LATERAL VIEW posexplode(l) x AS i, e", [(1, 0, 5), (1, 1, 6)]),
    (
        "SELECT id, pos, col FROM t LATERAL VIEW OUTER posexplode(l) WHERE id < 3",
        [(1, 0, 5), (1, 1, 6), (2, None, None)],
    ),
    ("SELECT id, k, v FROM t LATERAL VIEW explode(m) x AS k, v", [(1, "a", 7)]),
    ("SELECT id, k, v FROM t LATERAL VIEW OUTER explode(m) AS k, v", [(1, "a", 7), (2, None, None), (3, None, None)]),
    (
        """SELECT t.id, e, f FROM t LATERAL VIEW explode(l) x AS e LATERAL VIEW explode(array(e, 0)) y AS f
        JOIN t u ON u.id = t.id + 1 AND u.id < 3""",
        [(1, 5, 0), (1, 5, 5), (1, 6, 0), (1, 6, 6)],
    ),
    ("SELECT id, explode(l) FROM t", [(1, 5), (1, 6)]),
    ("SELECT id, explode_outer(l) FROM t WHERE id > 1", [(2, None), (3, None)]),
    ("SELECT approx_distinct(id) FROM t", [(3,)]),
    ("SELECT is_nan(nan()), is_infinite(-infinity()), is_finite(1e0)", [(True, True, True)]),
    (
        "SELECT sequence(1, 3), sequence(3, 1), sequence(1, 9, 4), truncate(-1.7)",
        [([1, 2, 3], [3, 2, 1], [1, 5, 9], -1)],
    ),
    (
        "SELECT bitwise_and(6, 3), bitwise_or(6, 3), bitwise_xor(6, 3), nvl(NULL, 7), nvl2(NULL, 1, 2)",
        [(2, 7, 5, 7, 2)],
    ),
    ("SELECT collect_list(l[1]), array_join([1, NULL, 2], '-') FROM t", [([5], "1-2")]),
    ("SELECT regexp_like('abc', 'b.'), locate('c', 'abc'), levenshtein_distance('abc', 'adc')", [(True, 3, 1)]),
    ("SELECT to_unixtime(TIMESTAMP '1970-01-01 00:00:01.5'), day_of_week(DATE '2024-01-07')", [(1.5, 7)]),
    (
        "SELECT to_date('2024-01-31'), add_months(DATE '2024-01-31', 1), last_day_of_month(DATE '2024-02-01')",
        [(date(2024, 1, 31), date(2024, 2, 29), date(2024, 2, 29))],
    ),
    (
        """SELECT json_extract_scalar('{"a": {"b": 1}}', '$.a'), json_extract_scalar('{"a": {"b": 1}}', '$.a.b'),
        get_json_object('{"a": {"b": 1}}', '$.a')""",
        [(None, "1", '{"b":1}')],
    ),
    ("SELECT X'00ff' AS b FROM t WHERE id = 1 AND x'ab' > X'01'", [(b"\x00\xff",)]),
    ("SELECT TIMESTAMP '2024-03-10 03:30:00 America/New_York'", [(utc(2024, 3, 10, 7, 30),)]),
    ("SELECT TIMESTAMP '2024-03-10 03:30:00.25+02:00'", [(utc(2024, 3, 10, 1, 30, 0, 250000),)]),
    (
        """SELECT TIMESTAMP '1880-01-01 00:00 Europe/Berlin', TIMESTAMP '2024-03-10 03:30:00.2EST',
        TIMESTAMP '2024-03-10 03:30EST'""",
        [(utc(1879, 12, 31, 23, 6, 32), utc(2024, 3, 10, 8, 30, 0, 200000), utc(2024, 3, 10, 8, 30))],
    ),
    (
        "SELECT rand() < 1, approx_percentile(id, 0.5), percentile_approx(id, 0.5), collect_set(l[1]) FROM t",
        [(True, 2, 2, [5])],
    ),
    (
        "SELECT day_of_year(DATE '2024-02-01'), week_of_year(DATE '2024-12-30'), year_of_week(DATE '2024-12-30')",
        [(32, 1, 2025)],
    ),
    (
        """SELECT from_iso8601_date('2024-02-01'), from_iso8601_timestamp('2024-02-01T02:30:00Z'),
        json_format(json_parse('{"a": 1}')), infinity()""",
        [(date(2024, 2, 1), utc(2024, 2, 1, 2, 30), '{"a": 1}', float("inf"))],
    ),
    (
        "SELECT timestamp '2024-03-10 03:30 -08', TIMESTAMP '2024-03-10T03:30:00+2'",
        [(utc(2024, 3, 10, 11, 30), utc(2024, 3, 10, 1, 30))],
    ),
    (
        "SELECT id FROM t WHERE id = 1 AND TIMESTAMP '2024-03-10 03:30:00+02:00' = TIMESTAMP '2024-03-10 01:30:00 UTC'",
        [(1,)],
    ),
    ("TABLE lake.db.t", [(1, [5, 6], [("a", 7)]), (2, [], []), (3, None, None)]),
    ("SELECT current_catalog(), current_schema(), current_database()", [("lake", "db", "db")]),
    ("SELECT current_schema", [("db",)]),
]
"""Each over three rows, after USE lake.db, with its rows in order."""


@pytest.fixture
def filled(lake: Lake) -> Lake:
    """The table ``lake.db.t`` with three rows in two files."""
    lake.sql("CREATE TABLE lake.db.t (id BIGINT, l ARRAY<INTEGER>, m MAP<VARCHAR, INTEGER>)")
    lake.sql("INSERT INTO lake.db.t VALUES (1, [5, 6], MAP {'a': 7}), (2, [], MAP {})")
    lake.sql("INSERT INTO lake.db.t (id) VALUES (3)")
    lake.sql("USE lake.db")
    return lake


@pytest.mark.parametrize(("query", "expected"), ROWS)
def test_a_query_has_these_rows(filled: Lake, query: str, expected: list[tuple[Any, ...]]) -> None:
    """As in the engine that has the words."""
    found = [tuple(row.values()) for row in filled.session.sql(query).to_pylist()]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT * FROM t LATERAL VIEW json_tuple(s) x AS a",
            "column 30: LATERAL VIEW takes explode and posexplode here",
        ),
        ("SELECT nope FROM t LATERAL VIEW OUTER explode(l) x AS e", "column 8: there is no column nope"),
        (
            "SELECT 1 FROM db.t LATERAL VIEW OUTER explode(l) x AS e WHERE nope = 1",
            "column 63: there is no column",
        ),
        ("SELECT 1 FROM t LATERAL VIEW OUTER explode(l) x AS e JOIN u ON true", "column 59: unknown table u"),
        ("SELECT 1 FROM t LATERAL VIEW explode l", "column 38: ( is expected"),
        (
            "SELECT TIMESTAMP '2024-03-10 03:30:00 Foo/Bar'",
            "column 18: 2024-03-10 03:30:00 Foo/Bar is no time: 'No time",
        ),
        ("SELECT TIMESTAMP '0001-01-01 00:00:00+14:00'", "column 18: 0001-01-01 00:00:00+14:00 is no time: date value"),
        (
            "SELECT TIMESTAMP '2024-03-10 25:30:00+02', nope FROM t",
            "column 18: 2024-03-10 25:30:00+02 is no time: hour",
        ),
        ("SELECT TIMESTAMP '2024-03-10 23:30:00+02', nope FROM t", "column 44: there is no column nope"),
    ],
)
def test_errors_have_their_places(filled: Lake, query: str, message: str) -> None:
    """What is written in other words keeps its place."""
    with pytest.raises(MetastoreError, match=f"line 1, {re.escape(message)}"):
        filled.sql(query)


def test_a_list_in_its_place_fetches_its_column_alone(filled: Lake) -> None:
    """LATERAL VIEW does not make a query read all columns."""
    [first, *_] = filled.session.sql("EXPLAIN SELECT id, e FROM t LATERAL VIEW explode(l) x AS e").to_pylist()
    assert first == {"plan": "Fetch t (id, l)"}


def test_changes_between_two_snapshots(filled: Lake) -> None:
    """By Trino's function: behind the first, up to the last, in any of its spellings."""
    snapshots = [each.snapshot_id for each in filled.load().metadata.snapshots]
    filled.sql("DELETE FROM t WHERE id = 1")
    last = filled.load().metadata.current_snapshot_id
    named = "schema_name => 'db', table_name => 't', start_snapshot_id"
    for call, expected in (
        (f"system.table_changes('db', 't', {snapshots[0]}, {snapshots[1]})", [(3, "INSERT")]),
        (f"lake.system.table_changes({named} => {snapshots[1]}, end_snapshot_id => {last})", [(1, "DELETE")]),
        (f"system.table_changes({named} => {snapshots[0]})", [(1, "DELETE"), (3, "INSERT")]),
    ):
        query = f"SELECT c.id, c._change_type FROM TABLE({call}) AS c ORDER BY 1"
        assert [tuple(row.values()) for row in filled.session.sql(query).to_pylist()] == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("'db', 't', 1, 2", "column 15: table db.t has no snapshot 2"),
        ("'db', 'u'", "column 15: table lake.db.u does not exist"),
        ("'db', 't', 'x'", "column 53: argument 'start_snapshot_id': Cannot cast"),
        ("schema_name => 'db'", "column 21: Required procedure argument 'table_name' is missing"),
    ],
)
def test_changes_of_wrong_arguments(filled: Lake, arguments: str, message: str) -> None:
    """The error is at the argument, or at the call."""
    with pytest.raises(MetastoreError, match=f"line 1, {re.escape(message)}"):
        filled.sql(f"SELECT * FROM TABLE(system.table_changes({arguments}))")


def test_explain_analyze_counts_what_was_read(filled: Lake) -> None:
    """Rows, bytes, seconds and opened files of each table; the file that the condition excludes is not opened."""
    size = {live.file.record_count: live.file.file_size_in_bytes for live in filled.live.data}
    lines = [row["plan"] for row in filled.session.sql("EXPLAIN ANALYZE SELECT id FROM t WHERE id > 2").to_pylist()]
    assert lines[0] == "Fetch t (id) where id > 2"
    assert f"  files opened: 1 of {size[1]} bytes" in lines
    [read] = [line for line in lines if line.startswith("Read t: 1 rows of ")]
    assert re.fullmatch(r"Read t: 1 rows of \d+ bytes in \d+\.\d{3} s", read)
    assert any(re.fullmatch(r"Total: \d+\.\d{3} s", line) for line in lines)


def test_explain_analyze_runs_queries_only(filled: Lake) -> None:
    """A statement that changes rows is not run by EXPLAIN."""
    with pytest.raises(InvalidRequestError, match="EXPLAIN ANALYZE runs a query"):
        filled.sql("EXPLAIN ANALYZE DELETE FROM t")
    assert filled.session.sql("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 3}]


OF_OTHERS = {"entries", "entries_outer", "posexplode_outer", "parse_json", "try_parse_json"}
"""LATERAL VIEW calls the first three; the others are tested with variants."""


def test_every_function_of_another_name_is_called_here() -> None:
    """So each is one that DuckDB accepts."""
    asked = " ".join(query for query, _ in ROWS)
    assert {name for name in NAMES if not re.search(rf"\b{name}\b", asked)} == OF_OTHERS
