"""Definitions: everything is checked before anything is stored, and what is stored says all."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.model.identity import TableInfo
from metastore.model.tuple_schema import TupleSchema
from metastore.session import Session
from metastore.sql.views.definition import Definition

Rows = Callable[..., list[dict[str, Any]]]
V = "dfs.tmp.v"


def test_what_is_stored(session: Session) -> None:
    """The text as it was written, the columns with their types, and what it depends on."""
    query = "SELECT s.id,   upper(r.name) AS Name -- why\nFROM sales s JOIN dfs.tmp.regions r ON s.Region = r.region"
    asked = Definition(query, comment="c", column_comments={"NAME": "its name"}, properties={"a": "b"}, owner="Žofie")
    session.views.define(V, asked)
    unit = session.views.get(V)
    assert unit.sql == query
    assert (unit.dialect, unit.workspace_schema_path, unit.owner, unit.comment) == (
        "spark",
        ["dfs", "tmp"],
        "Žofie",
        "c",
    )
    assert (unit.column_comments, unit.properties) == ({"Name": "its name"}, {"a": "b"})
    columns = TupleSchema.from_json(unit.schema or "").columns
    assert [(c.name, c.type) for c in columns] == [("id", "INT"), ("Name", "VARCHAR")]
    assert json.loads(unit.fields or "")[0] == {"name": "id", "type": "INTEGER", "isNullable": True}
    assert unit.dependencies == {"`dfs`.`tmp`.`regions`": "TABLE", "`dfs`.`tmp`.`sales`": "TABLE"}
    assert unit.last_modified_time == session.metastore.clock.now_ms()


def test_an_owner_without_a_name(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run under numbers that nobody has entered: the number is the owner, of either kind of view."""

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(getpass, "getuser", nameless)
    session.views.define(V, "SELECT id FROM sales")
    session.materialized_views.define("dfs.tmp.m", "SELECT id FROM sales")
    assert session.views.get(V).owner == str(os.getuid())
    assert session.materialized_views.get("dfs.tmp.m").owner == str(os.getuid())


def test_dependencies_name_what_the_query_names(session: Session) -> None:
    """Views and materialized views, not the tables behind them."""
    session.views.define(V, "SELECT id FROM sales")
    session.materialized_views.define("dfs.tmp.m", "SELECT id FROM v")
    session.views.define("dfs.tmp.w", "SELECT m.id FROM m JOIN v ON m.id = v.id")
    expected = {"`dfs`.`tmp`.`m`": "MATERIALIZED_VIEW", "`dfs`.`tmp`.`v`": "VIEW"}
    assert session.views.get("dfs.tmp.w").dependencies == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*), max(id) FROM sales",
        "SELECT region, name FROM regions",
        "SELECT * FROM regions",
        "SELECT count(*), 1 FROM sales UNION ALL SELECT 1, 2",
    ],
)
def test_columns_can_be_renamed(session: Session, rows: Rows, query: str) -> None:
    """With or without names of their own; the stored text then says it all."""
    session.views.define(V, Definition(query, columns=["a", "The B"]))
    found = rows("SELECT `The B`, a FROM v")
    assert list(found[0]) == ["The B", "a"]
    unit = session.views.get(V)
    assert [c.name for c in TupleSchema.from_json(unit.schema or "").columns] == ["a", "The B"]


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        (Definition("SELECT nope FROM sales"), "line 1, column 8: unknown column nope"),
        (
            Definition("SELECT table_name FROM information_schema.tables"),
            "views do not read the metastore's own tables, as information_schema.tables",
        ),
        (
            Definition("SELECT owner FROM metastore.components.tables"),
            "views do not read the metastore's own tables, as components.tables",
        ),
        (Definition("SELECT id\nFROM saless"), "line 2, column 6: unknown table or view dfs.tmp.saless; did you mean"),
        (Definition("SELECT id FROM sales", "klingon"), "no SQL dialect 'klingon'"),
        (Definition("SELECT id FROM sales", columns=["a", "b"]), "2 column names for 1 columns"),
        (Definition("SELECT * FROM regions", columns=["a"]), "1 column names for 2 columns"),
        (Definition("SELECT id FROM sales", columns=["a"], column_comments={"id": "x"}), "no column id to comment on"),
        (Definition("SELECT id FROM v"), "line 1, column 16: dfs.tmp.v reads itself"),
        (Definition("SELECT 1 AS a, 2 AS A"), "two columns called"),
        (Definition("SELECT"), "gives no columns"),
        (Definition("SELECT FROM sales"), "gives no columns"),
    ],
)
@pytest.mark.parametrize("component", ["views", "materialized_views"])
def test_what_is_wrong_is_refused(session: Session, component: str, definition: Definition, said: str) -> None:
    """With its place where it has one; nothing is stored."""
    with pytest.raises(InvalidRequestError) as raised:
        getattr(session, component).define(V, definition)
    assert said in str(raised.value)
    assert session.views.list() == []
    assert session.materialized_views.list() == []


def test_a_view_that_would_read_itself_through_others_is_refused(session: Session) -> None:
    """Materialized views among them."""
    session.views.define(V, "SELECT id FROM sales")
    session.materialized_views.define("dfs.tmp.m", "SELECT id FROM v")
    session.views.define("dfs.tmp.w", "SELECT id FROM m")
    with pytest.raises(InvalidRequestError, match=r"dfs.tmp.w -> dfs.tmp.m -> dfs.tmp.v -> dfs.tmp.w"):
        session.views.define(V, "SELECT id FROM w", replace=True)
    assert session.views.get(V).sql == "SELECT id FROM sales"


def test_a_name_means_one_thing(session: Session) -> None:
    """A table, a view or a materialized view."""
    session.views.define(V, "SELECT id FROM sales")
    session.materialized_views.define("dfs.tmp.m", "SELECT id FROM sales")
    for component, name, what in (
        (session.views, "dfs.tmp.sales", "table"),
        (session.views, "dfs.tmp.m", "materialized view"),
        (session.materialized_views, V, "view"),
    ):
        with pytest.raises(InvalidRequestError, match=f"{name} is the name of a {what} already"):
            component.define(name, "SELECT 1 AS a", replace=True)


def test_other_dialects_can_be_stored_too(session: Session) -> None:
    """A stored one is given as it stands; what cannot be said is refused, or told on request."""
    session.views.define(V, Definition('SELECT "item name" AS x FROM dfs.tmp.sales', "trino", translations=["spark"]))
    unit = session.views.get(V)
    assert unit.representations == {
        "trino": 'SELECT "item name" AS x FROM dfs.tmp.sales',
        "spark": "SELECT `item name` AS x FROM dfs.tmp.sales",
    }
    assert session.views.in_dialect(V, "Spark").sql == "SELECT `item name` AS x FROM dfs.tmp.sales"
    session.views.translate(V, ["duckdb"])
    assert set(session.views.get(V).representations or {}) == {"trino", "spark", "duckdb"}
    session.views.define("dfs.tmp.odd", "SELECT my_function(id) AS x FROM sales")
    assert session.views.in_dialect("dfs.tmp.odd", "trino").unsupported == (
        "my_function() is an unknown function and was left unchanged",
    )
    with pytest.raises(InvalidRequestError, match=r"cannot be written in trino: my_function"):
        session.views.translate("dfs.tmp.odd", ["trino"])
    with pytest.raises(NotFoundError):
        session.views.in_dialect("dfs.tmp.none", "trino")


def test_the_answer_of_a_view_is_that_of_its_query(session: Session, rows: Rows) -> None:
    """Under an alias, joined, nested, filtered."""
    session.views.define(V, "SELECT id, Region AS r FROM sales WHERE id > 3")
    session.views.define("dfs.tmp.w", "SELECT r.name, count(*) AS n FROM v JOIN regions r ON v.r = r.region GROUP BY 1")
    direct = (
        "SELECT r.name, count(*) AS n FROM (SELECT id, Region AS r FROM sales WHERE id > 3) v "
        "JOIN regions r ON v.r = r.region GROUP BY 1"
    )
    assert rows("SELECT * FROM w") == rows(direct)
    assert rows("SELECT x.n FROM w AS x WHERE x.name = 'north'") == [{"n": 2}]


def test_common_table_expressions_of_any_name(session: Session, rows: Rows) -> None:
    """Whatever tables are called on the way."""
    session.views.define(V, "WITH t0 AS (SELECT id FROM sales WHERE id > 8), t1 AS (SELECT * FROM t0) SELECT * FROM t1")
    assert rows("SELECT * FROM v") == [{"id": 9}]


def test_names_without_a_workspace_are_those_of_the_path(session: Session) -> None:
    """Which is the view's own, unless it is given."""
    with pytest.raises(InvalidRequestError, match=r"unknown table or view dfs.root.sales"):
        session.views.define("dfs.root.v", "SELECT id FROM sales")
    session.views.define("dfs.root.v", Definition("SELECT id FROM sales", schema_path=("dfs", "tmp")))
    assert TableInfo("dfs", "root", "v") in [unit.info for unit in session.views.list()]
