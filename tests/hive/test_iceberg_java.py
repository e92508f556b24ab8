"""Readable is what Iceberg for Java on Spark reads: every table that is made here from others' files, row by row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from services.hive_tables import HiveMaker
from services.iceberg_java import IcebergJava
from support.odd_rows import COLUMNS, TABLE, TYPES, write

from metastore.session import Session

pytestmark = [pytest.mark.iceberg, pytest.mark.integration, pytest.mark.slow]

Call = Callable[..., dict[str, Any]]

FAR = [datetime(1, 1, 2), datetime(1500, 3, 1, 12), datetime(2024, 5, 6, 7, 8, 9, 123456), None, datetime(9999, 12, 31)]


def canonical(rows: pa.Table, schema: pa.Schema) -> list[str]:
    """Rows in a form that compares by content, sorted."""
    return sorted(repr(row) for row in rows.select(schema.names).cast(schema).to_pylist())


def ours(session: Session, name: str) -> pa.Table:
    """The rows by this package's SELECT."""
    return session.sql(f"SELECT * FROM lake.{name}")


@pytest.mark.parametrize("format_", ["PARQUET", "ORC", "AVRO"])
def test_migrated_tables(
    session: Session, hive: HiveMaker, call: Call, iceberg_java: IcebergJava, format_: str
) -> None:
    """As they were migrated, and after a rewrite of all files."""
    name = hive.table(COLUMNS, format_=format_)
    write(hive.folder / name / "000000_0", TABLE, format_)
    call("migrate", name)
    full = f"{hive.database}.{name}"
    expected = canonical(TABLE, TABLE.schema)
    assert canonical(iceberg_java.rows(f"SELECT * FROM lake.{full}"), TABLE.schema) == expected
    assert canonical(ours(session, full), TABLE.schema) == expected
    found = session.call("lake.system.verify_migration", schema_name=hive.database, table_name=name).to_pylist()
    assert [row["problem"] for row in found] == [None] * len(TYPES)
    session.call(
        "lake.system.rewrite_data_files", schema=hive.database, table_name=name, options={"rewrite-all": "true"}
    )
    assert canonical(iceberg_java.rows(f"SELECT * FROM lake.{full}"), TABLE.schema) == expected
    assert canonical(ours(session, full), TABLE.schema) == expected


@pytest.mark.parametrize("format_", ["PARQUET", "ORC", "AVRO"])
def test_added_files(session: Session, hive: HiveMaker, iceberg_java: IcebergJava, format_: str) -> None:
    """Beside rows that the table had."""
    name = hive.new_name()
    table = session.catalogs.open("lake").create_table((hive.database, name), TABLE.schema)
    table.append(TABLE.slice(1, 1))  # PyIceberg would store the nulls of other rows as empty lists
    path = hive.folder / f"added.{format_.lower()}"
    write(path, TABLE, format_)
    session.call(
        "lake.system.add_files", schema=hive.database, table_name=name, files=[f"file://{path}"], format=format_
    )
    expected = canonical(pa.concat_tables([TABLE, TABLE.slice(1, 1)]), TABLE.schema)
    full = f"{hive.database}.{name}"
    assert canonical(iceberg_java.rows(f"SELECT * FROM lake.{full}"), TABLE.schema) == expected
    assert canonical(ours(session, full), TABLE.schema) == expected


def test_moments_of_int96(session: Session, hive: HiveMaker, call: Call, iceberg_java: IcebergJava) -> None:
    """Of any year."""
    moments = [None if each is None else each.replace(tzinfo=timezone.utc) for each in FAR]
    rows = pa.table({"at": pa.array(moments, pa.timestamp("us", "UTC"))})
    name = hive.table({"at": "timestamp"})
    write(hive.folder / name / "000000_0", rows, "PARQUET", use_deprecated_int96_timestamps=True)
    call("migrate", name)
    full = f"{hive.database}.{name}"
    assert canonical(iceberg_java.rows(f"SELECT * FROM lake.{full}"), rows.schema) == canonical(rows, rows.schema)
    assert canonical(ours(session, full), rows.schema) == canonical(rows, rows.schema)
