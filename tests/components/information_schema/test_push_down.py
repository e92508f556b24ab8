"""Nothing is read that was not asked for; and what is passed on to the units never costs a row."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotStartsWith,
    Or,
    StartsWith,
)
from pyiceberg.expressions.visitors import bind

from metastore.components.information_schema import InformationSchema
from metastore.components.information_schema.conditions import for_units
from metastore.components.information_schema.relations import RELATIONS
from metastore.model.mapping.arrow import plain_arrow_schema
from metastore.model.mapping.filters import bind_filter, to_arrow_filter
from metastore.model.mapping.schema import iceberg_schema
from metastore.model.table_unit import TableMetadataUnit
from metastore.session import Session


def test_names_of_tables_are_answered_from_manifests(known: InformationSchema, opened_files: list[str]) -> None:
    """No data file is opened for names, types, places and times."""
    columns = ["table_schema", "table_name", "table_type", "table_source", "location", "last_modified_time"]
    assert {"sales", "plain"} <= set(known.tables(columns)["TABLE_NAME"].to_pylist())
    assert known.schemata().num_rows > 0
    assert opened_files == []


def test_only_files_of_the_table_are_opened(known: InformationSchema, opened_files: list[str]) -> None:
    """Whatever says which table it is."""
    for condition in (
        "table_name = 'plain'",
        "table_name in ('plain', 'nothing')",
        "table_name like 'pl%'",
        "table_schema = 'dfs.shop' and not table_name = 'sales'",
    ):
        known.metastore._cache._entries.clear()
        opened_files.clear()
        assert known.row_groups(where=condition).num_rows == 2
        assert len(opened_files) == 1


def test_a_schema_that_is_not_asked_for_is_not_read(known: InformationSchema, opened_files: list[str]) -> None:
    """By its name, by names, by a prefix."""
    for condition in ("table_schema = 'dfs.tmp'", "table_schema in ('x.y', 'a')", "table_schema like 's3.%'"):
        assert known.files(where=condition).num_rows == 0
    assert opened_files == []


def test_a_segment_is_read_alone(known: InformationSchema, opened_files: list[str]) -> None:
    """Its metadata key is a partition of the component."""
    assert known.files(where="metadata_key = '2024'").num_rows == 1
    assert len(opened_files) == 1


def test_kinds_of_tables_that_are_not_asked_for_are_not_read(known: InformationSchema, opened_files: list[str]) -> None:
    """A constant of the source decides."""
    assert known.tables(where="table_type = 'SYSTEM_TABLE'").num_rows > 0
    assert known.tables(where="table_type in ('VIEW')").num_rows == 0
    assert opened_files == []


def test_newer_tables_are_found_by_bounds(session: Session, known: InformationSchema, opened_files: list[str]) -> None:
    """Times are compared in the manifests."""
    [row] = known.tables(["last_modified_time"], "table_name = 'sales'").to_pylist()
    after = (row["LAST_MODIFIED_TIME"] + timedelta(days=1)).isoformat()
    session.metastore._cache._entries.clear()
    opened_files.clear()
    assert known.tables(["num_rows"], f"last_modified_time > '{after}'").num_rows == 0
    assert opened_files == []


def test_statistics_are_not_read_for_names(known: InformationSchema, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wide columns of a unit stay on disk unless a column is made of them."""
    source = RELATIONS["COLUMNS"].sources[0]
    assert source.units_needed(["COLUMN_NAME", "DATA_TYPE"]) == ("schema",)
    assert source.units_needed(["MIN_VAL"]) == ("schema", "columnsStatistics")
    monkeypatch.setattr("metastore.model.statistics.decode", None)  # would fail if a statistic were looked at
    assert known.columns(["column_name"], "table_name = 'sales'").num_rows == 15


def test_parts_are_the_rows_wherever_they_are_read(known: InformationSchema) -> None:
    """Each part pickles; together they are the whole."""
    for name in RELATIONS:
        condition = "table_name = 'sales'" if name != "SCHEMATA" else None
        parts = pickle.loads(pickle.dumps(known.parts(name, where=condition)))  # noqa: S301 - made right here
        rows = [row for part in parts for batch in part.batches() for row in batch.to_pylist()]
        assert sorted(map(repr, rows)) == sorted(map(repr, known.read(name, where=condition).to_pylist()))


@pytest.mark.parametrize(
    "where",
    [
        "min_val NOT IN ('0', 'zz')",
        "NOT (min_val IN ('0', 'zz'))",
        "min_val <> '0'",
        "NOT (min_val IN ('0', 'zz') AND table_name = 'sales')",
        "num_nulls NOT IN (5, 6)",
        "NOT (min_val IN ('0', 'zz') OR max_val = 'zz')",
    ],
)
def test_a_null_passes_no_negated_test(known: InformationSchema, where: str) -> None:
    """Judged by DuckDB: NOT IN of several values passed every column without a bound."""
    every = known.columns()
    assert every["MIN_VAL"].null_count
    with duckdb.connect() as engine:
        engine.register("given", every)
        [(right,)] = engine.execute(f"SELECT count(*) FROM given WHERE {where}").fetchall()
    assert known.columns(where=where).num_rows == right


NAMES = st.sampled_from(["a", "b", "a.b", "b.a", "a.b.a", "ab", "", "zz"])
TIMES = st.integers(0, 6_000)


def leaves() -> st.SearchStrategy[BooleanExpression]:
    """Conditions on what is passed on, and on what is not."""
    texts: list[Any] = [EqualTo, NotEqualTo, LessThan, GreaterThan, LessThanOrEqual, StartsWith, NotStartsWith]
    columns = st.sampled_from(["TABLE_SCHEMA", "TABLE_NAME", "TABLE_CATALOG", "TABLE_TYPE", "LOCATION"])
    on_texts = st.builds(
        lambda kind, column, value: kind(column, value), st.sampled_from(texts), columns, NAMES | st.just("TABLE")
    )
    on_sets = st.builds(
        lambda kind, column, values: kind(column, values),
        st.sampled_from([In, NotIn]),
        columns,
        st.sets(NAMES, min_size=1),
    )
    bounds: list[Any] = [EqualTo, NotEqualTo, LessThan, GreaterThan, LessThanOrEqual, GreaterThanOrEqual]
    on_times = st.builds(
        lambda kind, micros: kind("LAST_MODIFIED_TIME", f"1970-01-01T00:00:00.{micros:06}+00:00"),
        st.sampled_from(bounds),
        TIMES,
    )
    on_counts = st.builds(lambda kind, number: kind("NUM_ROWS", number), st.sampled_from(bounds), st.integers(0, 3))
    nulls = st.builds(IsNull, columns)
    return on_texts | on_sets | on_times | on_counts | nulls


CONDITIONS = st.recursive(
    leaves(),
    lambda inner: st.builds(And, inner, inner) | st.builds(Or, inner, inner) | st.builds(Not, inner),
    max_leaves=5,
)
UNITS = st.lists(
    st.fixed_dictionaries(
        {
            "storagePlugin": NAMES.filter(bool),
            "workspace": NAMES.filter(bool),
            "tableName": NAMES.filter(bool),
            "location": st.none() | NAMES,
            "lastModifiedTime": st.none() | st.integers(0, 6),
            "metadataStatistics": st.just(['{"statisticsValue":2,"statisticsKind":{"name":"rowCount"}}']),
        }
    ),
    max_size=6,
)


@given(CONDITIONS, UNITS)
def test_what_is_passed_on_holds_for_every_unit_of_a_matching_row(
    condition: BooleanExpression, units: list[dict[str, Any]]
) -> None:
    """Rows made of all units and tested are among the rows made of the units that pass."""
    relation = RELATIONS["TABLES"]
    source = relation.sources[0]
    schema = plain_arrow_schema(TableMetadataUnit)
    every = pa.Table.from_pylist([dict.fromkeys(schema.names) | unit for unit in units], schema)
    test = bind(relation.iceberg_schema, condition, case_sensitive=True)
    passed = every.filter(to_arrow_filter(bind_filter(iceberg_schema(TableMetadataUnit), for_units(source, test))))
    exact = source.rows(every, relation.schema).filter(to_arrow_filter(test)).to_pylist()
    narrowed = source.rows(passed, relation.schema).filter(to_arrow_filter(test)).to_pylist()
    assert narrowed == exact
