"""Files that statements write have bounds and counts of the columns within structs; judged by PyIceberg and DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import duckdb
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import GreaterThan, IsNull
from pyiceberg.table import Table
from pyiceberg.types import PrimitiveType
from support.lake_table import TABLE, Lake

from metastore.errors import InvalidRequestError

ROWS = (
    "SELECT * FROM (VALUES "
    "(1, {'a': 1, 'b': {'c': 'first of all the texts', 'd': 1.5::DOUBLE}}, [1], MAP {'k': 1}), "
    "(1, NULL, NULL, NULL), "
    "(2, {'a': 20, 'b': {'c': 'second', 'd': 'nan'::DOUBLE}}, [20, 30], MAP {'k': 2}), "
    "(2, {'a': 25, 'b': {'c': 'third', 'd': 2.5::DOUBLE}}, [], MAP {}), "
    "(3, {'a': NULL, 'b': NULL}, [NULL], NULL), "
    "(4, {'a': -7, 'b': {'c': NULL, 'd': NULL}}, [5], MAP {'z': 9})) v(p, s, l, m)"
)
CONDITIONS = {
    # a condition: the files that may have its rows, by their values of p
    "s.a = 20": [2],
    "s.a < 0": [4],
    "s.a > 100": [],
    "s.b.c = 'third'": [2],
    "s.b.c >= 'first of all the texts'": [1, 2],
    "s.b.d > 100": [2],  # NaN is above all numbers, and a file has the count of its own
    "s.b.d = 1.5": [1],
    "s.a IS NULL": [1, 3],
    "s.b.d IS NOT NULL": [1, 2],
    "NOT (s.a > 0)": [4],
    "l[1] = 5": [1, 2, 3, 4],
}


def made(lake: Lake, more: str = "") -> None:
    """Create the table, with a file for each ``p``."""
    columns = (
        "p INTEGER, s STRUCT<a: INTEGER, b: STRUCT<c: STRING, d: DOUBLE>>, l ARRAY<INTEGER>, m MAP<STRING, INTEGER>"
    )
    lake.sql(f"CREATE TABLE {TABLE} ({columns}) PARTITIONED BY (p) {more}")
    lake.sql(f"INSERT INTO {TABLE} {ROWS}")


def test_conditions_on_fields_skip_files(lake: Lake) -> None:
    """Rows are those of DuckDB, null structs and NaN too; files are skipped as their bounds allow."""
    made(lake)
    with duckdb.connect() as judge:
        judge.execute(f"CREATE TABLE t AS {ROWS}")
        for condition, files in CONDITIONS.items():
            expected = judge.execute(f"SELECT p, s FROM t WHERE {condition}").fetchall()
            found = lake.session.sql(f"SELECT p, s FROM {TABLE} WHERE {condition}").to_pylist()
            assert sorted(map(repr, (tuple(row.values()) for row in found))) == sorted(map(repr, expected)), condition
            plan = lake.session.sql(f"EXPLAIN SELECT p FROM {TABLE} WHERE {condition}")["plan"]
            [line] = [each for each in map(str, plan) if each.strip().startswith("files: ")]
            assert f"{len(files)} of 4" in line, (condition, line)
    scan = lake.load().scan(row_filter=GreaterThan("s.a", 19))
    assert [task.file.partition[0] for task in scan.plan_files()] == [2]
    assert {task.file.partition[0] for task in lake.load().scan(row_filter=IsNull("s.a")).plan_files()} == {1, 3}


def _bound(table: Table, path: str, bounds: Mapping[int, bytes]) -> Any:
    """A bound of a column, as PyIceberg has it; None if there is none."""
    field = table.schema().find_field(path)
    value = bounds.get(field.field_id)
    return None if value is None else from_bytes(cast("PrimitiveType", field.field_type), value)


def test_every_statement_writes_them(lake: Lake) -> None:
    """CREATE TABLE AS, INSERT, UPDATE: PyIceberg and readable_metrics agree; elements of lists and maps have none."""
    made(lake)
    lake.sql(f"CREATE TABLE lake.db.made AS {ROWS}")
    lake.sql(f"UPDATE {TABLE} SET s = {{'a': 77, 'b': {{'c': 'u', 'd': 0.25::DOUBLE}}}} WHERE p = 4")
    expected: dict[str, list[Any]] = {
        "made": [(-7, 25, 2, "first of all the", "third"), (None, None), (None, None)],
        "t": [(77, 77, 0, "u", "u"), (None, None), (None, None)],
    }
    for name, (fields, *nested) in expected.items():
        table = lake.session.catalogs.target("lake", "db", name).load()
        files = [task.file for task in table.scan().plan_files() if name == "made" or task.file.partition[0] == 4]
        number = table.schema().find_field("s.a").field_id
        file = max(files, key=lambda each: each.lower_bounds[number])
        bound = partial(_bound, table)
        low, high = file.lower_bounds, file.upper_bounds
        nulls = file.null_value_counts[number]
        assert (bound("s.a", low), bound("s.a", high), nulls, bound("s.b.c", low), bound("s.b.c", high)) == fields
        assert [(bound(path, low), bound(path, high)) for path in ("l.element", "m.value")] == nested
        [shown] = [
            row["readable_metrics"]
            for row in lake.session.sql(f'SELECT * FROM lake.db."{name}$files"').to_pylist()
            if row["file_path"] == file.file_path
        ]
        assert (shown["s.a"]["lower_bound"], shown["s.a"]["upper_bound"], shown["s.a"]["null_value_count"]) == fields[
            :3
        ]
        assert shown["l.element"]["lower_bound"] is None


@pytest.mark.parametrize(
    ("key", "mode", "kept"),
    [
        ("write.metadata.metrics.default", "counts", (True, False)),
        ("write.metadata.metrics.default", "none", (False, False)),
        ("write.metadata.metrics.column.s.a", "counts", (True, False)),
        ("write.metadata.metrics.column.s.b.c", "truncate(2)", (True, True)),
    ],
)
def test_the_tables_properties_say_which(lake: Lake, key: str, mode: str, kept: tuple[bool, bool]) -> None:
    """As for columns at the top; a field of a struct is named by its path."""
    made(lake, f"TBLPROPERTIES ('{key}' = '{mode}')")
    [row] = lake.session.sql('SELECT * FROM lake.db."t$files"').to_pylist()[1:2]
    shown = row["readable_metrics"]
    path = "s.b.c" if key.endswith("s.b.c") else "s.a"
    assert (shown[path]["value_count"] is not None, shown[path]["lower_bound"] is not None) == kept
    if path == "s.b.c":
        assert len(shown[path]["lower_bound"]) == 2


def test_a_table_may_limit_the_columns_with_metrics(lake: Lake) -> None:
    """The first two columns have them, and one that is named; as Iceberg for Java counts columns."""
    lake.sql(f"CREATE TABLE {TABLE} (p INTEGER, s STRUCT<a: INTEGER, b: STRING>, late INTEGER)")
    lake.sql(
        f"ALTER TABLE {TABLE} SET PROPERTIES \"write.metadata.metrics.max-inferred-column-defaults\" = '2', "
        "\"write.metadata.metrics.column.late\" = 'full'"
    )
    lake.sql(f"INSERT INTO {TABLE} SELECT 1, {{'a': 2, 'b': 'x'}}, 3")
    table = lake.load()
    [file] = [task.file for task in table.scan().plan_files()]
    assert {table.schema().find_column_name(key) for key in file.lower_bounds} == {"p", "s.a", "late"}
    assert {table.schema().find_column_name(key) for key in file.value_counts} == {"p", "s.a", "late"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("write.metadata.metrics.max-inferred-column-defaults", "many"),
        ("write.metadata.metrics.max-inferred-column-defaults", "-1"),
        ("write.metadata.metrics.default", "nonsense"),
        ("write.target-file-size-bytes", "large"),
        ("write.parquet.row-group-limit", "0"),
        ("write.parquet.compression-level", "high"),
    ],
)
def test_a_property_without_sense_is_refused_by_its_name(lake: Lake, key: str, value: str) -> None:
    """Before anything is committed; whoever set it, since other engines set what they like. No file is left."""
    lake.sql(f"CREATE TABLE {TABLE} (p INTEGER)")
    lake.sql(f"ALTER TABLE {TABLE} SET PROPERTIES \"{key}\" = '{value}'")
    with pytest.raises(InvalidRequestError, match="table property"):
        lake.sql(f"INSERT INTO {TABLE} VALUES (1)")
    assert lake.load().metadata.current_snapshot() is None
    assert not list(lake.folder.rglob("*.parquet"))
