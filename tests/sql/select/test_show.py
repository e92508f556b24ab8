"""SHOW and DESCRIBE: what there is."""

from __future__ import annotations

from typing import Any

import pytest
from support.sales_lake import Lake

from metastore.errors import InvalidRequestError, NotFoundError


def listed(lake: Lake, statement: str) -> list[Any]:
    """The rows of a statement as plain tuples, or values where there is one column."""
    rows = [tuple(row.values()) for row in lake.session.sql(statement).to_pylist()]
    return [row[0] if len(row) == 1 else row for row in rows]


def test_catalogs_and_schemas(lake: Lake) -> None:
    """The metastore's own without FROM; a catalog's when it is named."""
    assert listed(lake, "SHOW CATALOGS") == ["metastore", "lake"]
    assert listed(lake, "SHOW SCHEMAS LIKE 'dfs.%'") == ["dfs.root", "dfs.shop", "dfs.tmp"]
    assert listed(lake, "show databases from LAKE") == ["LAKE.default"]
    assert listed(lake, "SHOW SCHEMAS IN metastore") == ["metastore.components"]
    assert listed(lake, "SHOW SCHEMAS FROM metastore LIKE 'comp%'") == ["metastore.components"]


def test_tables(lake: Lake) -> None:
    """Of plugins, catalogs, components and INFORMATION_SCHEMA."""
    assert listed(lake, "SHOW TABLES IN dfs.shop") == [("dfs.shop", "sales")]
    assert listed(lake, "SHOW TABLES FROM lake.default LIKE 's_les'") == [("lake.default", "sales")]
    assert listed(lake, "SHOW TABLES FROM metastore.components") == [("metastore.components", "tables")]
    assert ("information_schema", "FILES") in listed(lake, "SHOW TABLES FROM INFORMATION_SCHEMA LIKE 'F%'")
    assert {("dfs.shop", "sales"), ("information_schema", "TABLES")} <= set(listed(lake, "SHOW TABLES"))
    assert listed(lake, "SHOW TABLES IN dfs.tmp") == []


def test_columns(lake: Lake) -> None:
    """Of a catalog's table in Iceberg's types, of an analyzed one in Drill's."""
    iceberg = {row[0]: row[1:] for row in listed(lake, "DESCRIBE lake.default.sales")}
    assert iceberg["price"] == ("decimal(9, 2)", "YES", None)
    analyzed = {row[0]: row[1] for row in listed(lake, "DESC TABLE `dfs`.shop.sales")}
    assert analyzed["price"] == "DECIMAL(9, 2)"
    assert list(analyzed) == list(iceberg) == lake.data.column_names
    assert [row[0] for row in listed(lake, "DESCRIBE information_schema.schemata")][:2] == [
        "CATALOG_NAME",
        "SCHEMA_NAME",
    ]
    assert ("snapshot_id", "int64", "YES", None) in listed(lake, 'DESCRIBE lake.default."sales$snapshots"')


@pytest.mark.parametrize(
    ("statement", "kind", "said"),
    [
        ("SHOW TABLES FROM dfs.shp", NotFoundError, "column 18: unknown schema dfs.shp; did you mean dfs.shop"),
        ("SHOW TABLES FROM lake.defualt", NotFoundError, "column 18: schema lake.defualt does not exist; did you mean"),
        ("SHOW SCHEMAS FROM lak", NotFoundError, "column 19: catalog lak does not exist"),
        ("SHOW TABLES LIKE x", InvalidRequestError, "column 18: a pattern in single quotes is expected"),
        ("DESCRIBE dfs.shop.sale", NotFoundError, "column 10: .*did you mean dfs.shop.sales"),
        ("DESCRIBE lake.default.sale", NotFoundError, "column 10: table lake.default.sale does not exist"),
        ("DESCRIBE salez", NotFoundError, "column 10: .*did you mean dfs.shop.sales"),
        ("SHOW NOTHING", InvalidRequestError, "column 1: no statement begins with SHOW"),
    ],
)
def test_what_is_not_there_is_said_at_its_place(lake: Lake, statement: str, kind: type[Exception], said: str) -> None:
    """With what is near."""
    with pytest.raises(kind, match=said):
        lake.session.sql(statement)


def test_views(lake: Lake) -> None:
    """Of plugins, with their schemas; of a catalog that has none."""
    lake.session.sql("CREATE VIEW dfs.tmp.shown AS SELECT id FROM dfs.shop.sales")
    try:
        assert ("dfs.tmp", "shown") in listed(lake, "SHOW VIEWS")
        assert listed(lake, "SHOW VIEWS IN dfs.tmp LIKE 'sh%'") == [("dfs.tmp", "shown")]
        assert listed(lake, "SHOW VIEWS FROM dfs.shop") == []
        assert listed(lake, "SHOW VIEWS FROM lake.default") == []
        with pytest.raises(NotFoundError, match=r"column 17: schema lake\.no does not exist"):
            lake.session.sql("SHOW VIEWS FROM lake.no")
    finally:
        lake.session.sql("DROP VIEW dfs.tmp.shown")


def test_functions_are_those_of_queries(lake: Lake) -> None:
    """Each that is listed can be called, and none reads files."""
    assert listed(lake, "SHOW FUNCTIONS LIKE 'approx_count_d%'") == ["approx_count_distinct"]
    assert len(listed(lake, "SHOW FUNCTIONS")) > 500


def test_namespaces_are_schemas(lake: Lake) -> None:
    """The word of Spark."""
    assert listed(lake, "SHOW NAMESPACES IN lake") == listed(lake, "SHOW SCHEMAS IN lake")


def test_properties_and_facts_of_a_table(lake: Lake) -> None:
    """DESCRIBE EXTENDED has the columns first, then what Iceberg's metadata says."""
    table = lake.session.catalogs.open("lake").load_table("default.sales")
    properties = sorted(table.properties.items())
    assert listed(lake, "SHOW TBLPROPERTIES lake.default.sales") == properties
    assert listed(lake, "SHOW TBLPROPERTIES lake.default.sales ('no')") == []
    plain = lake.session.sql("DESCRIBE lake.default.sales").to_pylist()
    for words in ("DESCRIBE EXTENDED", "DESC TABLE FORMATTED"):
        found = lake.session.sql(f"{words} lake.default.sales").to_pylist()
        assert found[: len(plain)] == plain
        facts = {row["COLUMN_NAME"]: row["DATA_TYPE"] for row in found[len(plain) :]}
        assert facts["# Location"] == table.location()
        assert facts["# Snapshot"] == str(table.metadata.current_snapshot_id)
    of_files = {row[0]: row[1] for row in listed(lake, "DESCRIBE EXTENDED dfs.shop.sales")}
    assert of_files["# Name"] == "dfs.shop.sales"
    assert "# Location" in of_files
