"""Parquet that DuckDB writes and Arrow does not read answers at every door, as DuckDB reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.tables_of_kinds import settings_of_kinds

from metastore.errors import FormatError
from metastore.session import Session, connect

QUERY = (
    "SELECT i::INT AS id, (CASE WHEN i % 2 = 0 THEN i - 2**31 ELSE 2**31 - i END)::INT AS x FROM range(1, 5001) t(i)"
)


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[Session]:
    """A session over a table of two files: row groups of the first are read by Arrow, those of the second are not."""
    table = tmp_path / "lake" / "t"
    table.mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array([-1], pa.int32()), "x": pa.array([7], pa.int32())}), table / "a.parquet")
    with duckdb.connect() as engine:
        engine.execute(f"COPY ({QUERY}) TO '{table}/b.parquet' (PARQUET_VERSION V2, ROW_GROUP_SIZE 2048)")
    with pytest.raises(OSError, match="InitBlock EOF"):
        pq.read_table(table / "b.parquet")
    with connect(settings_of_kinds(tmp_path)) as session:
        session.analyze("dfs.w.t")
        yield session


def test_every_door_answers_as_duckdb_does(tmp_path: Path, ms: Session) -> None:
    """Rows, conditions, aggregates and row ids, in the order of files and rows."""
    with duckdb.connect() as engine:
        rows = engine.execute(f"FROM '{tmp_path}/lake/t/*.parquet' ORDER BY id").fetchall()
    scan = ms.tables.scan("dfs.w.t")
    assert [tuple(row.values()) for row in scan.to_arrow().to_pylist()] == rows
    assert [tuple(row.values()) for batch in scan.to_batches() for row in batch.to_pylist()] == rows
    assert ms.tables.scan("dfs.w.t", "x > 0 AND id >= 3000", ["id"]).to_arrow().num_rows == 1000
    assert ms.sql("SELECT sum(x) AS s FROM dfs.w.t WHERE id BETWEEN 2040 AND 2060").to_pylist() == [
        {"s": sum(x for id_, x in rows if 2040 <= id_ <= 2060)}
    ]
    assert ms.tables.scan("dfs.w.t", "id >= 0").aggregate(["min(x)", "count(x)"]).to_pylist() == [
        {"min(x)": 2 - 2**31, "count(x)": 5000}
    ]
    ids = ms.tables.scan("dfs.w.t", "id = 4999", row_id=True).to_arrow()["$row_id"]
    assert ms.tables.scan("dfs.w.t", "id = 4999", among=ids).to_arrow()["x"].to_pylist() == [2**31 - 4999]


def test_damaged_files_are_not_given_to_duckdb(tmp_path: Path, ms: Session) -> None:
    """It might read them as something; the error is Arrow's."""
    path = tmp_path / "lake" / "t" / "a.parquet"
    pq.write_table(pa.table({"id": list(range(999)), "x": list(range(999))}), path, use_dictionary=False)
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * 64 + content[68:])
    with pytest.raises(FormatError, match=r"a\.parquet"):
        ms.tables.scan("dfs.w.t").to_arrow()
