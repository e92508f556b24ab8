"""Tables that others keep: what is known of them is theirs, no data is read, and pruning by it is right."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from metastore.config import Settings
from metastore.errors import EngineError, InvalidRequestError, NotFoundError
from metastore.model.statistics import ColumnStatistics
from metastore.session import Session, connect

UTC = dt.timezone.utc


def rows(start: int) -> pa.Table:
    """Four rows: of every type that the formats keep bounds of, with nulls and a long text."""
    numbers = range(start, start + 4)
    moments = [dt.datetime(2020, 1, 1, 0, 0, n, 123_456 + n, tzinfo=UTC) for n in numbers]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "small": pa.array([None, *range(start, start + 3)], pa.int32()),
            "text": [f"{n:02d}" + "x" * 40 for n in numbers],
            "price": pa.array([Decimal(n) / 4 for n in numbers], pa.decimal128(9, 2)),
            "weight": [n / 7 for n in numbers],
            "day": [dt.date(2020, 1, 1) + dt.timedelta(n) for n in numbers],
            "at": pa.array(moments, pa.timestamp("us", "UTC")),
            "flag": [True, False, None, True],
            "kind": ["a b" if start else "c"] * 4,
        }
    )


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Plugins for an Iceberg catalog, Delta tables and databases."""
    storage = {
        "lake": {"type": "iceberg", "catalog": "prod"},
        "delta": {"type": "delta", "connection": "file:///", "workspaces": {"w": {"location": f"{tmp_path}/delta"}}},
        "db": {"type": "jdbc", "connection": f"jdbc:sqlite:{tmp_path}/shop.db"},
        "pg": {"type": "jdbc", "connection": "jdbc:postgresql://nowhere/x"},
    }
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    given = {
        "drill.metastore.iceberg.location": {"base_path": str(tmp_path), "relative_path": "metastore"},
        "drill.metastore.catalogs.prod": catalog,
        "drill.metastore.storage": storage,
    }
    with connect(Settings.from_mapping(given)) as opened:
        yield opened


@pytest.fixture
def iceberg(session: Session) -> Table:
    """An Iceberg table of two files."""
    catalog: Catalog = session.catalogs.open("prod")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.sales", rows(0).schema)
    for start in (0, 10):
        table.append(rows(start))
    return table


def known(session: Session, table: str) -> dict[str, ColumnStatistics]:
    """Statistics of a table by column."""
    info = session.table_info(table)
    [unit] = [each for each in session.tables.requests.tables_metadata() if each.table_name == info.name]
    return {key.strip("`"): ColumnStatistics.from_json(text) for key, text in (unit.columns_statistics or {}).items()}


def assert_contains(found: dict[str, ColumnStatistics], data: pa.Table) -> None:
    """Bounds hold all values, exact ones are among them, counts are right."""
    assert set(found) == set(data.column_names)
    for name, told in found.items():
        asked = f'min("{name}") AS low, max("{name}") AS high, count("{name}") AS held'
        [expected] = duckdb.from_arrow(data).aggregate(asked).to_arrow_table().to_pylist()
        low: Any = told.min
        high: Any = told.max
        if low is not None and high is not None:
            assert low <= expected["low"]
            assert high >= expected["high"]
            assert low == expected["low"] or not told.min_exact
            assert high == expected["high"] or not told.max_exact
        if told.nulls is not None:
            assert (told.nulls, told.non_nulls) == (data.num_rows - expected["held"], expected["held"])


def test_an_iceberg_table_is_known_by_its_manifests(session: Session, iceberg: Table) -> None:
    """Types, bounds and counts; without its data, which may be gone; an unchanged snapshot is up to date."""
    everything = pa.concat_tables([rows(0), rows(10)])
    for path in Path(iceberg.location().removeprefix("file://")).rglob("*.parquet"):
        path.unlink()
    result = session.analyze("lake.shop.sales")
    assert (result.files, result.rows, result.engine) == (2, 8, None)
    found = known(session, "lake.shop.sales")
    assert_contains(found, everything)
    assert (found["id"].min, found["id"].max, found["small"].nulls) == (0, 13, 2)
    assert session.analyze("lake.shop.sales").status == "up to date"
    [unit] = session.tables.requests.tables_metadata()
    assert (unit.table_type, unit.partition_keys) == ("ICEBERG", {})


def test_an_iceberg_table_is_pruned_and_follows_its_snapshots(session: Session, iceberg: Table) -> None:
    """Files appended since are kept, those that were deleted are gone."""
    session.analyze("lake.shop.sales")
    assert session.prune("lake.shop.sales", "id > 11").files_count.kept == 1
    iceberg.append(rows(20))
    pruned = session.prune("lake.shop.sales", "id < 3")
    assert (pruned.files_count.kept, len(pruned.unknown)) == (2, 1)
    result = session.analyze("lake.shop.sales")
    assert (result.new, result.changed, result.rows) == (1, 0, 12)
    iceberg.delete("id >= 20")
    assert session.analyze("lake.shop.sales").removed == 1
    assert session.prune("lake.shop.sales", "id < 3").files_count.kept == 1


def test_directories_of_an_iceberg_table_say_nothing(session: Session, iceberg: Table) -> None:
    """A partition's directory keeps its name when its column gets another."""
    with iceberg.update_spec() as update:
        update.add_identity("kind")
    iceberg.append(rows(30))
    with iceberg.update_schema() as update:
        update.rename_column("kind", "sort")
    session.analyze("lake.shop.sales")
    assert session.prune("lake.shop.sales", "sort = 'a b'").files_count.kept == 2
    with pytest.raises(InvalidRequestError, match="unknown column 'kind'"):
        session.prune("lake.shop.sales", "kind = 'c'")


def test_a_delta_table_is_known_by_its_log(session: Session, tmp_path: Path) -> None:
    """Moments that were cut to milliseconds are bounded by what they may have been; partitions bound their rows."""
    place = str(tmp_path / "delta/sales")
    for start in (0, 10):
        write_deltalake(place, rows(start), partition_by=["kind"], mode="append")
    assert session.analyze("delta.w.sales").files == 2
    found = known(session, "delta.w.sales")
    assert_contains(found, pa.concat_tables([rows(0), rows(10)]))
    assert (found["at"].min_exact, found["kind"].min, found["kind"].max) == (False, "a b", "c")
    [file] = session.prune("delta.w.sales", "kind = 'c' AND at >= TIMESTAMP '2020-01-01 00:00:03.123459Z'").files
    assert "kind=c" in file.path
    assert Path(file.path).exists()
    DeltaTable(place).delete("kind = 'c'")
    result = session.analyze("delta.w.sales")
    assert (result.removed, result.rows) == (1, 4)
    with pytest.raises(NotFoundError, match="no Delta table"):
        session.analyze("delta.w.nope")


def test_a_table_of_a_database_is_read(session: Session, tmp_path: Path) -> None:
    """SQLite by Python itself; what it found is its state, so that a change is seen and nothing else is."""
    database = sqlite3.connect(tmp_path / "shop.db")
    with database:
        database.execute("CREATE TABLE sales (id INTEGER, name TEXT, price REAL, odd)")
        database.executemany("INSERT INTO sales VALUES (?, ?, ?, ?)", [(1, "a", 1.5, 1), (2, None, 2, "x")])
    assert session.analyze("db.main.sales").rows == 2
    found = known(session, "db.main.sales")
    assert (found["id"].min, found["id"].max, found["name"].nulls) == (1, 2, 1)
    assert (found["price"].type, found["price"].max, found["odd"].min) == ("FLOAT8", 2.0, None)
    assert session.analyze("db.main.sales").status == "up to date"
    with database:
        database.execute("UPDATE sales SET price = 9 WHERE id = 1")
    assert session.analyze("db.main.sales").changed == 1
    assert known(session, "db.main.sales")["price"].max == 9
    database.close()
    with pytest.raises(NotFoundError, match=r"nope.*cannot be read"):
        session.analyze("db.main.nope")


def test_integers_that_no_double_holds_are_not_rounded(session: Session, tmp_path: Path) -> None:
    """Beside fractions they make a column of which nothing is said; those that a double holds make no trouble."""
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE big (held, lost)")
        database.executemany("INSERT INTO big VALUES (?, ?)", [(1.5, 1.5), (2**60, 2**53 + 1), (None, None)])
    database.close()
    session.analyze("db.main.big")
    found = known(session, "db.main.big")
    assert (found["held"].type, found["held"].max, found["held"].nulls) == ("FLOAT8", 2.0**60, 1)
    assert (found["lost"].type, found["lost"].max, found["lost"].nulls) == ("VARCHAR", None, None)


def test_what_cannot_be_done_is_said(session: Session, iceberg: Table) -> None:
    """Databases other than SQLite without Spark, statistics of tables of others."""
    assert iceberg.name() == ("shop", "sales")
    with pytest.raises(EngineError, match="through Spark"):
        session.analyze("pg.public.t")
    with pytest.raises(InvalidRequestError, match="ICEBERG"):
        session.analyze("lake.shop.sales", statistics=True)
    with pytest.raises(NotFoundError, match="nope"):
        session.analyze("lake.shop.nope")


def test_a_partition_by_doubles_of_iceberg_is_found(session: Session) -> None:
    """What the manifest says of the partition is read as another number; the file's own bounds are right."""
    catalog: Catalog = session.catalogs.open("prod")
    catalog.create_namespace("shop")
    sold = pa.table({"id": [1, 2], "weight": [0.1, 0.3]})
    table = catalog.create_table("shop.weighed", sold.schema)
    with table.update_spec() as spec:
        spec.add_identity("weight")
    table.append(sold)
    session.analyze("lake.shop.weighed")
    assert len(session.prune("lake.shop.weighed", "weight = 0.1").files) == 1
