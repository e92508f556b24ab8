"""Rows without a value under != and NOT IN: SQL's answer in our own language, Drill's through ready requests."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pytest
from pyiceberg.expressions import BooleanExpression, EqualTo, In, Not, NotEqualTo, NotIn, Or

from metastore.components.metastore import Metastore
from metastore.components.requests import Request
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
OWNERS = {"a": "x", "b": "y", "c": None, "d": "z"}
QUESTIONS: list[tuple[str | BooleanExpression, str, set[str]]] = [
    ("owner != 'x'", "owner <> 'x'", {"b", "c", "d"}),
    ("owner not in ('x', 'y')", "owner NOT IN ('x', 'y')", {"c", "d"}),
    ("not (owner = 'x')", "NOT (owner = 'x')", {"b", "c", "d"}),
    (NotEqualTo("owner", "x"), "owner <> 'x'", {"b", "c", "d"}),
    (NotIn("owner", {"x", "y"}), "owner NOT IN ('x', 'y')", {"c", "d"}),
    (Not(In("owner", {"x", "y"})), "NOT (owner IN ('x', 'y'))", {"c", "d"}),
    (Not(Or(EqualTo("owner", "x"), EqualTo("owner", "y"))), "NOT (owner = 'x' OR owner = 'y')", {"c", "d"}),
    (In("owner", {"x", "y"}), "owner IN ('x', 'y')", {"a", "b"}),
    ("owner is null", "owner IS NULL", {"c"}),
]


@pytest.mark.parametrize(("asked", "sql", "drills"), QUESTIONS)
def test_each_door_has_one_meaning_of_null(
    metastore: Metastore, unit: MakeUnit, asked: str | BooleanExpression, sql: str, drills: set[str]
) -> None:
    """``read().filter`` answers as DuckDB; ``drill_filter`` and ready requests let NULL differ from every value."""
    metastore.tables.modify().overwrite([unit(name, owner=owner) for name, owner in OWNERS.items()]).execute()
    values = ", ".join(f"('{name}', {'NULL' if owner is None else repr(owner)})" for name, owner in OWNERS.items())
    with duckdb.connect() as alone:
        found = alone.execute(f"SELECT name FROM (VALUES {values}) t(name, owner) WHERE {sql}").fetchall()
    read = metastore.tables.read().metadata_types(MetadataType.ALL)
    assert {each.table_name for each in read.filter(asked).execute()} == {name for (name,) in found}
    read = metastore.tables.read().metadata_types(MetadataType.ALL)
    assert {each.table_name for each in read.drill_filter(asked).execute()} == drills
    requests = metastore.tables.requests
    assert {each.table_name for each in requests.tables_metadata(asked)} == drills
    assert {each.table_name for each in requests.request(Request(filter=asked))} == drills
