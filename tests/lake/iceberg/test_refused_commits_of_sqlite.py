"""A change that SQLite refuses because others read the file: it is not there, for anybody, then and later."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import metastore
from metastore.errors import ConflictError, MetastoreError
from metastore.session import Session

CHANGES = (
    "INSERT INTO lake.shop.sales VALUES (2)",
    "CREATE TABLE lake.shop.made (id BIGINT)",
    "DROP TABLE lake.shop.sales",
    "ALTER TABLE lake.shop.sales RENAME TO lake.shop.renamed",
    "ALTER TABLE lake.shop.sales ADD COLUMN more BIGINT",
    "CREATE SCHEMA lake.other",
    "CALL lake.system.expire_snapshots('shop', 'sales', TIMESTAMP '2100-01-01 00:00:00')",
    "CALL lake.system.rollback_to_snapshot('shop', 'sales', {first})",
)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The catalog's file."""
    return tmp_path / "lake.db"


@pytest.fixture
def session(tmp_path: Path, database: Path) -> Iterator[Session]:
    """Over a catalog in SQLite that waits 50 ms for locks, with a table of two snapshots."""
    conf = tmp_path / "metastore.conf"
    conf.write_text(f"""drill.metastore {{
        iceberg {{ location {{ base_path = "{tmp_path}", relative_path = m }}, commit.timeout = 50 ms }}
        catalogs.lake {{ type = sql, uri = "sqlite:///{database}?timeout=0.05", warehouse = "file://{tmp_path}/lake" }}
    }}""")
    with metastore.connect(conf) as opened:
        catalog = opened.catalogs.open("lake")
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.sales", pa.schema([("id", pa.int64())]))
        for value in (0, 1):
            table.append(pa.table({"id": [value]}))
        yield opened


@contextmanager
def reading(database: Path) -> Iterator[None]:
    """Somebody else is in the middle of a read: statements of others pass, their COMMIT does not."""
    with closing(sqlite3.connect(database)) as reader:
        rows = reader.execute("SELECT metadata_location FROM iceberg_tables UNION ALL SELECT 'another row'")
        rows.fetchone()
        yield
        rows.close()


def rows_of(database: Path) -> list[Any]:
    """All that the database says, by a connection of its own."""
    with closing(sqlite3.connect(database)) as other:
        tables = ("iceberg_tables", "iceberg_namespace_properties")
        return [sorted(other.execute(f"SELECT * FROM {table}").fetchall()) for table in tables]


@pytest.mark.parametrize("change", CHANGES)
def test_a_refused_change_is_seen_by_nobody_and_never_lands(session: Session, database: Path, change: str) -> None:
    """Neither this session nor others see it, and the next commit does not publish it."""
    target = session.catalogs.target("lake", "shop", "sales")
    first, before = target.load(), rows_of(database)
    statement = change.format(first=first.metadata.snapshots[0].snapshot_id)
    with reading(database):
        with pytest.raises(MetastoreError, match="database is locked"):
            session.sql(statement)
        assert rows_of(database) == before
        assert target.load().metadata_location == first.metadata_location

    session.sql("CREATE TABLE lake.shop.later (id BIGINT)")
    after = rows_of(database)
    assert [row for row in after[0] if "later" not in row] == before[0]
    assert after[1] == before[1]
    assert session.sql("SELECT id FROM lake.shop.sales ORDER BY id").to_pylist() == [{"id": 0}, {"id": 1}]


def test_the_change_lands_once_the_reader_has_gone(session: Session, database: Path) -> None:
    """Once: nothing of the first try is left."""
    with reading(database), pytest.raises(ConflictError):
        session.sql(CHANGES[0])
    session.sql(CHANGES[0])
    rows = session.sql("SELECT id FROM lake.shop.sales ORDER BY id").to_pylist()
    assert [row["id"] for row in rows] == [0, 1, 2]
