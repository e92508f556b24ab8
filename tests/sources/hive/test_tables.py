"""What a description says: formats by class names, types, and why a table is no plain one."""

from __future__ import annotations

from typing import Any

import pytest
from hive_metastore.ttypes import FieldSchema, StorageDescriptor, Table

from metastore.errors import FormatError
from metastore.sources.hive.tables import HiveTable, format_of


def described(columns: dict[str, str] | None = None, parameters: dict[str, str] | None = None, **sd: Any) -> HiveTable:
    """A table by what the service would say."""
    fields = [FieldSchema(name, type_, None) for name, type_ in (columns or {"a": "int"}).items()]
    return HiveTable.of(
        Table("t", "d", parameters=parameters, sd=StorageDescriptor(fields, "file:/t/", "x", **sd), partitionKeys=[])
    )


@pytest.mark.parametrize(
    ("input_format", "expected"),
    [
        ("org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat", "PARQUET"),
        ("parquet.hive.DeprecatedParquetInputFormat", "PARQUET"),
        ("org.apache.hadoop.hive.ql.io.orc.OrcInputFormat", "ORC"),
        ("org.apache.hadoop.hive.ql.io.avro.AvroContainerInputFormat", "AVRO"),
        ("org.apache.hadoop.mapred.TextInputFormat", "TEXT"),
        ("org.apache.hudi.hadoop.HoodieParquetInputFormat", None),
        ("org.apache.hadoop.mapred.SequenceFileInputFormat", None),
        ("", None),
    ],
)
def test_formats(input_format: str, expected: str | None) -> None:
    """Known by the whole name of the class, so that what only looks alike is not taken for it."""
    found = format_of(input_format)
    assert (None if found is None else str(found)) == expected


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"transactional": "TRUE"}, "deltas"),
        ({"spark.sql.sources.provider": "DELTA"}, "Delta"),
        ({"table_type": "HUDI"}, "Hudi"),
        ({"storage_handler": "org.x.HBase"}, "org.x.hbase"),
    ],
)
def test_obstacles(parameters: dict[str, str], reason: str) -> None:
    """Parameters count in any case."""
    [obstacle] = described(parameters=parameters).obstacles()
    assert reason in obstacle


def test_a_plain_table() -> None:
    """It has no obstacle, and its location no slash at the end."""
    table = described({"a": "int", "b": "array<string>"})
    assert list(table.obstacles()) == []
    assert (table.location, [str(type_) for _, type_ in table.columns]) == ("file:/t", ["int", "array<string>"])


def test_sparks_placeholder() -> None:
    """A schema that Hive could not say: one column that no file has."""
    columns = {"col": "array<string>"}
    assert list(described(columns, {"spark.sql.sources.provider": "parquet"}).obstacles())
    assert list(described(columns).obstacles()) == []


def test_a_type_without_counterpart_names_its_column() -> None:
    """Only when the columns are asked for: such a table can still be listed."""
    table = described({"a": "int", "u": "uniontype<int,string>"})
    assert table.column_names == ["a", "u"]
    with pytest.raises(FormatError, match=r"column u of d\.t"):
        _ = table.columns
