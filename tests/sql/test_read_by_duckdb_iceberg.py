"""Tables that statements and procedures made are read alike by DuckDB's own reader of Iceberg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from services.duckdb_iceberg import Judge
from support.delete_files import delete_equal, with_ids
from support.variant_lake import table_with_variants

from metastore.session import Session

pytestmark = [pytest.mark.iceberg, pytest.mark.integration, pytest.mark.slow]

COLUMNS = "id, text, CAST(day AS VARCHAR) AS day, st.a AS a, CAST(x AS VARCHAR) AS x, late"


def location(session: Session, name: str) -> str:
    """The metadata file of a table as it is now."""
    return session.catalogs.target("lake", "db", name).load().metadata_location


def seen(session: Session, name: str, columns: str) -> list[tuple[Any, ...]]:
    """The rows as a session reads them."""
    found = session.sql(f"SELECT {columns} FROM lake.db.{name} ORDER BY id").to_pylist()
    return [tuple(row.values()) for row in found]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("partitioning", ["", "day", "bucket(4, id)"])
def test_statements_and_rewriting(bare: Session, duckdb_iceberg: Judge, version: int, partitioning: str) -> None:
    """Deletes of every kind, a renamed and a new column; before and after the files are rewritten."""
    parts = f", partitioning = ARRAY['{partitioning}']" if partitioning else ""
    bare.sql("CREATE SCHEMA lake.db")
    bare.sql(
        f"CREATE TABLE lake.db.t (id BIGINT, s VARCHAR, day DATE, x DOUBLE, st ROW(a INTEGER, b VARCHAR)) "
        f"WITH (format_version = {version}{parts})"
    )
    for first in (0, 20, 40):
        bare.sql(
            "INSERT INTO lake.db.t SELECT i, 's' || i, DATE '2024-01-01' + CAST(i % 3 AS INTEGER), "
            "CASE WHEN i % 5 = 0 THEN 'NaN'::DOUBLE ELSE i::DOUBLE END, {'a': i::INT, 'b': 'q'} "
            f"FROM range({first}, {first + 20}) r(i)"
        )
    bare.sql("DELETE FROM lake.db.t WHERE id % 7 = 0")
    bare.sql("UPDATE lake.db.t SET s = 'u' WHERE id % 11 = 3")
    bare.sql("ALTER TABLE lake.db.t RENAME COLUMN s TO text")
    bare.sql("ALTER TABLE lake.db.t ADD COLUMN late BIGINT")
    bare.sql("INSERT INTO lake.db.t (id, late) VALUES (1000, 5)")
    expected = seen(bare, "t", COLUMNS)
    assert len(expected) == 52
    states = [location(bare, "t")]
    for call in (
        "rewrite_position_delete_files(table => 'db.t', options => map('rewrite-all', 'true'))",
        "rewrite_manifests('db.t')",
        "rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true', 'delete-file-threshold', '1'))",
    ):
        bare.sql(f"CALL lake.system.{call}")
        states.append(location(bare, "t"))
    found = duckdb_iceberg([f"SELECT {COLUMNS} FROM iceberg_scan('{state}') ORDER BY id" for state in states])
    assert found == [expected] * len(states)


@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_that_were_converted(bare: Session, duckdb_iceberg: Judge, version: int) -> None:
    """The same rows are left before and after."""
    bare.sql("CREATE SCHEMA lake.db")
    bare.sql("CREATE TABLE lake.db.t (id BIGINT) WITH (format_version = 2)")
    bare.sql("INSERT INTO lake.db.t SELECT i FROM range(100) r(i)")
    table = bare.catalogs.target("lake", "db", "t").load()
    delete_equal(table, with_ids(pa.table({"id": pa.array([3, 50, 99], pa.int64())}), 1), [1])
    if version == 3:
        bare.sql("CALL lake.system.upgrade_format_version(schema => 'db', table_name => 't', format_version => 3)")
    states = [location(bare, "t")]
    bare.sql("CALL lake.system.convert_equality_deletes('db', 't')")
    states.append(location(bare, "t"))
    expected = [(n,) for n in range(100) if n not in (3, 50, 99)]
    assert seen(bare, "t", "id") == expected
    found = duckdb_iceberg([f"SELECT id FROM iceberg_scan('{state}') ORDER BY id" for state in states])
    assert found == [expected, expected]


def test_variants_that_were_carried(tmp_path: Path, duckdb_iceberg: Judge) -> None:
    """Each value is read from the new file, in a column, a struct and a list."""
    with table_with_variants(tmp_path, nested=True, others=False) as session:
        session.sql("CALL lake.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")
        state = location(session, "t")
    query = f"SELECT id, v::INT, s.v::INT, lv[1]::INT FROM iceberg_scan('{state}') ORDER BY id"
    assert duckdb_iceberg([query]) == [[(n, n, n, n) for n in range(10)]]
