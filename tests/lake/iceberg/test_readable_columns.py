"""Which columns of a table and of a file can be read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from metastore.lake.iceberg.columns.readable_columns import columns_with_ids


def field(name: str, kind: Any, number: int | None) -> Any:
    """A field with an Iceberg id, or without."""
    return pa.field(name, kind, metadata=None if number is None else {"PARQUET:field_id": str(number)})


def test_a_column_whose_parts_have_no_ids_is_a_variant() -> None:
    """Iceberg for Java writes variants so, also within structs, lists and maps; other columns stay."""
    variant = pa.struct([field("metadata", pa.binary(), None), field("value", pa.binary(), None)])
    plain = pa.struct([field("a", pa.int32(), 3)])
    others = [
        field("id", pa.int64(), 1),
        field("s", plain, 2),
        field("l", pa.list_(field("element", plain, 5)), 4),
        field("m", pa.map_(field("key", pa.string(), 7).with_nullable(False), field("value", pa.int32(), 8)), 6),
    ]
    variants = [
        field("v", variant, 10),
        field("sv", pa.struct([field("v", variant, 12)]), 11),
        field("lv", pa.list_(field("element", variant, 14)), 13),
    ]
    assert columns_with_ids(pa.schema([*others, *variants])).names == ["id", "s", "l", "m"]


def test_a_file_without_any_ids_keeps_its_columns() -> None:
    """The table's names of columns apply to it, as in files that Hive wrote."""
    schema = pa.schema([field("id", pa.int64(), None), field("s", pa.struct([field("a", pa.int32(), None)]), None)])
    assert columns_with_ids(schema).equals(schema)
