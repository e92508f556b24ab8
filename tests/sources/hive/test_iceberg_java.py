"""Readable is what Iceberg for Java on Spark reads: every table that is made here from others' files, row by row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from services.hive_tables import HiveMaker
from services.iceberg_java import IcebergJava
from services.spark_hive import SparkHive
from support.odd_rows import COLUMNS, TABLE, TYPES, write

from metastore.config.settings import Settings
from metastore.session import Session, connect

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


@pytest.mark.parametrize("anew", [False, True])
def test_moments_of_int96(session: Session, hive: HiveMaker, call: Call, iceberg_java: IcebergJava, anew: bool) -> None:
    """Of any year, as they are and written anew."""
    moments = [None if each is None else each.replace(tzinfo=timezone.utc) for each in FAR]
    rows = pa.table({"at": pa.array(moments, pa.timestamp("us", "UTC"))})
    name = hive.table({"at": "timestamp"})
    write(hive.folder / name / "000000_0", rows, "PARQUET", use_deprecated_int96_timestamps=True)
    call("migrate", name, rewrite_int96=anew)
    full = f"{hive.database}.{name}"
    assert canonical(iceberg_java.rows(f"SELECT * FROM lake.{full}"), rows.schema) == canonical(rows, rows.schema)
    if anew:
        iceberg_java.run(f"DELETE FROM lake.{full} WHERE at < TIMESTAMP '1000-01-01 00:00:00'")
        rows = rows.slice(1)
        assert canonical(iceberg_java.rows(f"SELECT * FROM lake.{full}"), rows.schema) == canonical(rows, rows.schema)
    assert canonical(ours(session, full), rows.schema) == canonical(rows, rows.schema)


def test_partitioned_tables(session: Session, hive: HiveMaker, call: Call, iceberg_java: IcebergJava) -> None:
    """Values of partitions that files do not have, formats mixed, and names in another case."""
    name = hive.table({"id": "bigint", "one": "struct<userName:string>"}, {"p": "string", "d": "date"})
    rows = pa.table({"ID": [1, 2], "one": [{"username": "a"}, None]})
    for values, format_ in ((("a b", "2024-01-01"), "PARQUET"), (("x/y", "__HIVE_DEFAULT_PARTITION__"), "ORC")):
        hive.write(hive.partition(name, *values, format_=format_), rows, format_=format_)
    call("migrate", name)
    full = f"{hive.database}.{name}"
    schema = ours(session, full).schema
    found = canonical(iceberg_java.rows(f"SELECT * FROM lake.{full}"), schema)
    assert len(found) == 4
    assert canonical(ours(session, full), schema) == found
    assert len(iceberg_java.rows(f"SELECT id FROM lake.{full} WHERE p = 'a b'")) == 2


def test_many_moments_of_int96(hive: HiveMaker, call: Call, iceberg_java: IcebergJava) -> None:
    """With and without a dictionary, over pages and row groups, runs of nulls and of one value among them."""
    start = datetime(2020, 1, 1, tzinfo=timezone.utc)
    moments = [None if n % 9 == 0 else start + timedelta(seconds=n * n % 53) for n in range(4_000)]
    moments += [start] * 500 + [None] * 300 + [start + timedelta(microseconds=n * 10**9) for n in range(4_000)]
    rows = pa.table({"id": range(len(moments)), "at": pa.array(moments, pa.timestamp("us", "UTC"))})
    for how in ({}, {"use_dictionary": False}, {"data_page_size": 1_000, "row_group_size": 3_000}):
        name = hive.table({"id": "bigint", "at": "timestamp"})
        write(hive.folder / name / "000000_0", rows, "PARQUET", use_deprecated_int96_timestamps=True, **how)
        call("migrate", name)
        found = iceberg_java.rows(f"SELECT * FROM lake.{hive.database}.{name}")
        assert canonical(found, rows.schema) == canonical(rows, rows.schema)


def test_partitions_of_avro(session: Session, hive: HiveMaker, call: Call, iceberg_java: IcebergJava) -> None:
    """Their values come from the metadata."""
    name = hive.table({"id": "bigint"}, {"p": "string", "n": "int"}, format_="AVRO")
    place = hive.partition(name, "a b", "3", format_="AVRO")
    write(place / "000000_0", pa.table({"id": [1, 2]}), "AVRO")
    call("migrate", name)
    expected = [{"id": 1, "p": "a b", "n": 3}, {"id": 2, "p": "a b", "n": 3}]
    query = f"SELECT * FROM lake.{hive.database}.{name} ORDER BY id"
    assert iceberg_java.rows(query).to_pylist() == session.sql(query).to_pylist() == expected


BY_HIVE = {
    "spark.sql.hive.convertMetastoreParquet": "false",
    "spark.sql.hive.convertMetastoreOrc": "false",
    "spark.sql.hive.convertInsertingPartitionedTable": "false",
}
LEGACY = {"spark.sql.hive.convertMetastoreParquet": "true", "spark.sql.parquet.writeLegacyFormat": "true"}


@pytest.mark.spark
@pytest.mark.parametrize(("format_", "conf"), [("parquet", BY_HIVE), ("parquet", LEGACY), ("orc", BY_HIVE)])
def test_tables_of_hives_own_writers(
    session: Session,
    hive: HiveMaker,
    call: Call,
    spark_hive: SparkHive,
    iceberg_java: IcebergJava,
    format_: str,
    conf: dict[str, str],
) -> None:
    """Lists in their old layouts, with nulls and empties at every place."""
    full = f"{hive.database}.t"
    spark_hive.sql(
        f"""create table {full} (id bigint, a array<int>, s array<struct<x:int,y:string>>, m map<string,struct<z:int>>,
        d decimal(9,2), at timestamp) stored as {format_}""",
        **conf,
    )
    spark_hive.sql(
        f"""insert into {full} select id, case id when 0 then null when 1 then array() else array(int(id), null) end,
        case id when 0 then null when 1 then array() when 2 then array(null)
          else array(named_struct('x', int(id), 'y', null), null) end,
        case id when 0 then null when 1 then map() else map('k', named_struct('z', int(id)), 'l', null) end,
        cast(id as decimal(9,2)) / 4, timestamp'2024-01-01 00:00:00' from range(5)"""
    )
    call("migrate", "t")
    read = ours(session, full)
    assert [(row["s"], row["m"]) for row in read.to_pylist() if row["id"] == 0] == [(None, None)]
    assert canonical(iceberg_java.rows(f"SELECT * FROM lake.{full}"), read.schema) == canonical(read, read.schema)
    found = session.call("lake.system.verify_migration", schema_name=hive.database, table_name="t").to_pylist()
    assert [row["problem"] for row in found] == [None] * 6


def test_rows_of_materialized_views(iceberg_java: IcebergJava, tmp_path: Path) -> None:
    """Spark reads the rows that SELECT gives, from the files of a refresh."""
    (tmp_path / "data/odd").mkdir(parents=True)
    write(tmp_path / "data/odd/a.parquet", TABLE, "PARQUET")
    workspaces = {"tmp": {"location": str(tmp_path / "data"), "writable": True}}
    location = {"base_path": str(tmp_path), "relative_path": "metastore"}
    given = {"iceberg.location": location, "storage.dfs.workspaces": workspaces}
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as session:
        session.analyze("dfs.tmp.odd")
        columns = ", ".join(f"`{column}`" for column in TABLE.schema.names if column not in ("by", "structs"))
        session.materialized_views.define("dfs.tmp.m", f"SELECT {columns} FROM odd")
        session.materialized_views.refresh("dfs.tmp.m")
        place = session.materialized_views.get("dfs.tmp.m").data_location
        schema = pa.schema([TABLE.schema.field(column) for column in TABLE.schema.names if f"`{column}`" in columns])
        found = iceberg_java.rows(f"SELECT * FROM parquet.`{tmp_path}/data/{place}/part-*.parquet`")
        assert canonical(found, schema) == canonical(TABLE, schema)
        assert canonical(session.sql("SELECT * FROM dfs.tmp.m"), schema) == canonical(TABLE, schema)
