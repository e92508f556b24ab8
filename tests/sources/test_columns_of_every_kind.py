"""Every door tells the same columns of a table, in the same order and of the same types, with rows and without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.tables_of_kinds import make_tables, settings_of_kinds

from metastore.session import Session, connect


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, dict[str, dict[str, Any]]]]:
    """A session, and analyzed tables of every kind."""
    folder = tmp_path_factory.mktemp("kinds")
    with connect(settings_of_kinds(folder)) as session:
        tables = make_tables(session, folder)
        for table, options in tables.items():
            session.analyze(table, **options)
        yield session, tables


def told(session: Session, table: str) -> dict[str, list[tuple[str, str]]]:
    """Names and types by door: DESCRIBE and INFORMATION_SCHEMA in the metastore's words."""
    described = session.sql(f"DESCRIBE {table}").to_pylist()
    schema, _, name = table.rpartition(".")
    where = f"TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{name}' AND IS_NESTED = false"
    known = session.information_schema.columns(["COLUMN_NAME", "ORDINAL_POSITION", "DATA_TYPE"], where).to_pylist()
    return {
        "DESCRIBE": [(row["COLUMN_NAME"], row["DATA_TYPE"].partition("(")[0]) for row in described],
        "INFORMATION_SCHEMA": [
            (row["COLUMN_NAME"], row["DATA_TYPE"]) for row in sorted(known, key=lambda row: row["ORDINAL_POSITION"])
        ],
    }


def test_doors_agree_on_columns(kinds: tuple[Session, dict[str, dict[str, Any]]]) -> None:
    """Of tables with and without rows: the scan, SELECT * and views have Arrow's types of those that are described."""
    session, tables = kinds
    wrong: list[tuple[Any, ...]] = []
    for table in tables:
        doors = told(session, table)
        scan = session.tables.scan(table)
        selected = session.sql(f"SELECT * FROM {table}").schema
        if doors["DESCRIBE"] != doors["INFORMATION_SCHEMA"]:
            wrong.append((table, doors))
        if [name for name, _ in doors["DESCRIBE"]] != scan.schema.names or not scan.schema.names:
            wrong.append((table, doors["DESCRIBE"], scan.schema.names))
        if scan.to_arrow().schema != scan.schema or selected.remove_metadata() != scan.schema.remove_metadata():
            wrong.append((table, scan.schema, selected))
        view = "dfs.w.of_" + table.replace(".", "_")
        session.sql(f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {table}")
        of_view = session.sql(f"SELECT * FROM {view}").schema
        if of_view.remove_metadata() != scan.schema.remove_metadata():
            wrong.append((view, of_view, scan.schema))
        if told(session, view)["DESCRIBE"] != doors["DESCRIBE"]:
            wrong.append((view, told(session, view), doors))
    assert wrong == []


def test_a_table_without_rows_has_the_columns_of_one_with_rows(
    kinds: tuple[Session, dict[str, dict[str, Any]]],
) -> None:
    """Its keeper, its files or the declaration say them; a question about them has no rows, and is no error."""
    session, tables = kinds
    for full in (table for table in tables if "full" in table):
        empty = full.replace("full", "empty")
        if empty not in tables:  # a blank file of JSON has no columns
            continue
        known = session.tables.scan(full).schema
        other = session.tables.scan(empty).schema
        assert other.names == known.names, empty
        if "csv" not in full:  # whose types come from values
            assert other == known, empty
        first = known.names[0]
        assert session.sql(f"SELECT {first} FROM {empty} WHERE {first} IS NOT NULL").num_rows == 0
        assert session.prune(empty, f"{first} IS NOT NULL").files == []
        assert session.tables.scan(empty, f"{first} IS NOT NULL").count() == 0
        assert session.tables.aggregate(empty, [f"count({first})"])[0].to_pylist() == [0]
        assert session.analyze(empty, **tables[empty]).status == "up to date"
