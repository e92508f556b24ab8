"""The table of what readers of Iceberg read of times in Parquet is what they read; imports decide by it.

When a reader changes, its entry in ``metastore/sources/hive/time_units.py`` and the table in the guide change with it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException, pyarrow_to_schema
from pyiceberg.table import Table
from services.clickhouse import Judge as ClickHouse
from services.duckdb_iceberg import Judge as DuckDB
from services.hive_tables import HiveMaker
from services.iceberg_java import IcebergJava

from metastore.errors import ProcedureError
from metastore.session import Session
from metastore.sources.hive.time_units import (
    CLICKHOUSE,
    DUCKDB,
    POLARS,
    PYICEBERG,
    READ_OTHERWISE,
    READERS,
    ROWS,
    VECTORS,
)

pytestmark = [pytest.mark.iceberg, pytest.mark.integration, pytest.mark.slow]

MOMENT: Final = 1_700_000_000_123_000
UNITS: Final = {
    "INT64 in milliseconds": "ms",
    "INT64 in microseconds": "us",
    "INT64 in nanoseconds": "ns",
    "INT96": "ns",
}
COLUMNS: Final = ("plain", "d")
"""Columns without and with a dictionary."""

Readers = Mapping[str, Callable[[str], int]]


@pytest.fixture
def readers(
    session: Session, hive: HiveMaker, iceberg_java: IcebergJava, duckdb_iceberg: DuckDB, clickhouse: ClickHouse
) -> Callable[[str], Readers]:
    """For a table: the readers, each a function from a column to the microseconds of its first row."""

    def of(name: str) -> Readers:
        full = f"lake.{hive.database}.{name}"

        def loaded() -> Table:
            return session.catalogs.table("lake", hive.database, name).load()

        def java(column: str, *, vectors: bool) -> int:
            flag = str(vectors).lower()
            iceberg_java.run(f"ALTER TABLE {full} SET TBLPROPERTIES ('read.parquet.vectorization.enabled' = '{flag}')")
            found = iceberg_java.rows(f"SELECT unix_micros(CAST({column} AS TIMESTAMP)) AS m FROM {full}")
            return int(found["m"][0].as_py())

        def duckdb(column: str) -> int:
            place = loaded().metadata_location.removeprefix("file:")
            return int(duckdb_iceberg([f"SELECT epoch_us({column}) FROM iceberg_scan('{place}')"])[0][0][0])

        def by_clickhouse(column: str) -> int:
            place = loaded().location().removeprefix("file:")
            moment = f"CAST(assumeNotNull({column}) AS DateTime64(6, 'UTC'))"
            query = f"SELECT toUnixTimestamp64Micro({moment}) FROM icebergLocal('{place}') LIMIT 1"
            [rows] = clickhouse([f"{query} SETTINGS session_timezone = 'UTC'"])
            return int(rows)

        def by_polars(column: str) -> int:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pl.exceptions.PerformanceWarning)  # about planning
                return _micros(pl.scan_iceberg(loaded(), reader_override="native").collect().to_arrow()[column])

        return {
            VECTORS: lambda column: java(column, vectors=True),
            ROWS: lambda column: java(column, vectors=False),
            DUCKDB: duckdb,
            PYICEBERG: lambda column: _micros(loaded().scan().to_arrow()[column]),
            POLARS: by_polars,
            CLICKHOUSE: by_clickhouse,
        }

    return of


def _micros(column: pa.ChunkedArray[Any]) -> int:
    value = column.combine_chunks()
    kind: Any = value.type
    return int(value.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())[0].as_py())


def _is_right(read: Callable[[str], int], column: str) -> bool:
    try:
        return read(column) == MOMENT
    except (RuntimeError, AssertionError, pa.ArrowException):  # the reader refuses it
        return False


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("kind", READ_OTHERWISE)
def test_what_readers_read(
    session: Session,
    hive: HiveMaker,
    iceberg_java: IcebergJava,
    readers: Callable[[str], Readers],
    tmp_path: Path,
    kind: str,
    zone: str | None,
) -> None:
    """Just the readers in the table read it otherwise; a kind is refused if Java has no other way, else told."""
    is_int96 = kind == "INT96"
    folder = tmp_path / "files"
    folder.mkdir()
    values = pa.array([MOMENT] * 3, pa.timestamp("us", zone)).cast(pa.timestamp(UNITS[kind], zone))
    pq.write_table(
        pa.table(dict.fromkeys(COLUMNS, values)),
        folder / "a.parquet",
        use_dictionary=["d"],  # type: ignore[arg-type] # the stubs know no list
        use_deprecated_int96_timestamps=is_int96,
        version="2.6",
    )
    java, own = hive.new_name(), hive.new_name()
    type_ = "TIMESTAMP" if zone or is_int96 else "TIMESTAMP_NTZ"
    for name in (java, own):
        iceberg_java.run(f"CREATE TABLE lake.{hive.database}.{name} (plain {type_}, d {type_}) USING iceberg")
    # Java's own procedure takes every unit.
    source = f"`parquet`.`{folder}`"
    iceberg_java.run(f"CALL lake.system.add_files(table => '{hive.database}.{java}', source_table => '{source}')")
    found = readers(java)
    assert list(found) == list(READERS)
    wrong = {name for name, read in found.items() if not all(_is_right(read, column) for column in COLUMNS)}
    assert wrong == set(READ_OTHERWISE[kind])

    def taken() -> str:
        asked: dict[str, Any] = {"schema": hive.database, "table_name": own, "location": str(folder)}
        return str(session.call("lake.system.add_files", **asked)["message"][0].as_py())

    if {VECTORS, ROWS} <= wrong:
        with pytest.raises(ProcedureError, match=f"Iceberg in Spark {READ_OTHERWISE[kind][ROWS]}"):
            taken()
        return
    message = taken()
    assert all(f"{reader}, {what}" in message for reader, what in READ_OTHERWISE[kind].items())
    assert bool(wrong) == ("times in milliseconds" in message)


@pytest.mark.parametrize("type_", [pa.time32("ms"), pa.time64("ns")])
def test_times_of_day_in_other_units(type_: Any) -> None:
    """PyIceberg refuses them, so ``add_files`` does; Iceberg in Spark has no times of day at all."""
    with pytest.raises(UnsupportedPyArrowTypeException):
        pyarrow_to_schema(pa.schema([pa.field("t", type_, metadata={b"PARQUET:field_id": b"1"})]))
