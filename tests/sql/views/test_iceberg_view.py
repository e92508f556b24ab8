"""Iceberg views: what a REST catalog holds goes both ways; other catalogs say that they hold none."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.session import Session
from metastore.sql.views.definition import Definition
from metastore.sql.views.iceberg_view import list_views

Rows = Callable[..., list[dict[str, Any]]]
V = "dfs.tmp.v"


@pytest.fixture
def settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """With a REST catalog ``lake`` where the test asks for one, and a SQL catalog ``plain``."""
    catalogs: dict[str, Any] = {"plain": {"type": "in-memory"}}
    if request.node.get_closest_marker("rest"):
        uri = request.getfixturevalue("rest_catalog")
        catalogs["lake"] = {"type": "rest", "uri": uri, "view-endpoints-supported": "true"}
    made = Settings.from_mapping({"drill.metastore.catalogs": catalogs}, environ={})
    return replace(settings, catalogs=made.catalogs)


@pytest.fixture
def lake(session: Session) -> tuple[Catalog, str]:
    """The REST catalog, and a namespace of its own."""
    catalog = session.catalogs.open("lake")
    assert isinstance(catalog, RestCatalog)
    namespace = f"views_{uuid.uuid4().hex[:8]}"
    catalog.create_namespace(namespace)
    return catalog, namespace


@pytest.mark.rest
@pytest.mark.integration
def test_there_and_back(session: Session, lake: tuple[Catalog, str], rows: Rows) -> None:
    """Dialects, types, comments and properties; tables are called otherwise on each side."""
    catalog, namespace = lake
    query = "SELECT s.id, s.amount, r.name AS Name FROM sales s JOIN regions r ON s.Region = r.region WHERE s.id > 5"
    asked = Definition(query, comment="late ones", column_comments={"Name": "of the region"}, properties={"a": "b"})
    session.views.define(V, replace(asked, translations=["trino"]))
    there = {"dfs.tmp.sales": f"{namespace}.sales", "dfs.tmp.regions": f"{namespace}.regions"}
    session.views.to_iceberg(V, "lake", f"{namespace}.late", tables=there)
    assert list_views(catalog, namespace) == [f"{namespace}.late"]

    view = catalog.load_view(f"{namespace}.late")
    assert [(f.name, str(f.field_type), f.doc) for f in view.schema().fields] == [
        ("id", "int", None),
        ("amount", "decimal(9, 2)", None),
        ("Name", "string", "of the region"),
    ]
    spark, trino = view.sql_for("spark"), view.sql_for("trino")
    assert spark is not None
    assert trino is not None
    assert f"`{namespace}`.`sales` AS s" in spark.sql
    assert f'"{namespace}"."regions" AS r' in trino.sql
    assert view.properties["comment"] == "late ones"

    back = {name: here for here, name in there.items()}
    session.views.from_iceberg("lake", f"{namespace}.late", "dfs.tmp.back", tables=back)
    unit = session.views.get("dfs.tmp.back")
    assert (unit.dialect, unit.comment, unit.column_comments) == ("spark", "late ones", {"Name": "of the region"})
    assert (unit.properties or {})["a"] == "b"
    assert rows("SELECT * FROM back") == rows("SELECT * FROM v")
    session.views.from_iceberg("lake", f"{namespace}.late", "dfs.tmp.trino", dialects=["trino"], tables=back)
    assert session.views.get("dfs.tmp.trino").dialect == "trino"
    assert rows("SELECT * FROM trino") == rows("SELECT * FROM v")


@pytest.mark.rest
@pytest.mark.integration
def test_names_that_are_taken_or_missing(session: Session, lake: tuple[Catalog, str]) -> None:
    """In the words of the metastore; ``replace`` takes the place of one that is there."""
    _, namespace = lake
    session.views.define(V, "SELECT id FROM sales")
    session.views.to_iceberg(V, "lake", f"{namespace}.v")
    with pytest.raises(InvalidRequestError, match="exists already in catalog lake"):
        session.views.to_iceberg(V, "lake", f"{namespace}.v")
    session.views.define(V, "SELECT id, Region FROM sales", replace=True)
    session.views.to_iceberg(V, "lake", f"{namespace}.v", replace=True)
    with pytest.raises(NotFoundError):
        session.views.from_iceberg("lake", f"{namespace}.none", "dfs.tmp.none")
    with pytest.raises(InvalidRequestError, match="unknown table"):
        session.views.from_iceberg("lake", f"{namespace}.v", "dfs.tmp.w", tables={"dfs.tmp.sales": "dfs.tmp.nothing"})


def test_a_catalog_without_views_says_so(session: Session) -> None:
    """PyIceberg's SQL catalogs, the one in memory among them, have none."""
    session.views.define(V, "SELECT id FROM sales")
    for call in (
        lambda: session.views.to_iceberg(V, "plain", "a.v"),
        lambda: session.views.from_iceberg("plain", "a.v", "dfs.tmp.w"),
    ):
        with pytest.raises(InvalidRequestError, match="catalog plain holds no views: PyIceberg serves those of REST"):
            call()


def test_a_column_of_unknown_type_is_refused(session: Session) -> None:
    """Before the catalog is asked; a cast helps."""
    session.views.define(V, "SELECT id / 2 AS half FROM sales")
    with pytest.raises(InvalidRequestError, match="column half of view dfs.tmp.v has the type ANY"):
        session.views.to_iceberg(V, "plain", "a.v")


def test_an_unknown_catalog(session: Session) -> None:
    """Is not found."""
    session.views.define(V, "SELECT id FROM sales")
    with pytest.raises(NotFoundError, match="catalog nowhere"):
        session.views.to_iceberg(V, "nowhere", "a.v")
