"""Rows at which readers are known to err, as Hive, Arrow and Avro have them, in files of every format."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

COLUMNS = {
    "id": "bigint",
    "small": "smallint",
    "f": "float",
    "d": "double",
    "dec": "decimal(10,2)",
    "big": "decimal(30,5)",
    "s": "string",
    "bin": "binary",
    "b": "boolean",
    "day": "date",
    "texts": "array<string>",
    "structs": "array<struct<x:bigint,y:array<struct<z:string>>>>",
    "by": "map<string,struct<x:bigint>>",
    "numbers": "map<string,bigint>",
    "one": "struct<x:bigint,inner:struct<y:string>>",
}
INNER: pa.DataType = pa.struct([("x", pa.int64()), ("y", pa.list_(pa.struct([("z", pa.string())])))])
TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "small": pa.int32(),
    "f": pa.float32(),
    "d": pa.float64(),
    "dec": pa.decimal128(10, 2),
    "big": pa.decimal128(30, 5),
    "s": pa.string(),
    "bin": pa.binary(),
    "b": pa.bool_(),
    "day": pa.date32(),
    "texts": pa.list_(pa.string()),
    "structs": pa.list_(INNER),
    "by": pa.map_(pa.string(), pa.struct([("x", pa.int64())])),
    "numbers": pa.map_(pa.string(), pa.int64()),
    "one": pa.struct([("x", pa.int64()), ("inner", pa.struct([("y", pa.string())]))]),
}
NAN = float("nan")
ROWS: list[dict[str, Any]] = [
    dict.fromkeys(TYPES),
    {
        "id": 1,
        "small": -5,
        "f": NAN,
        "d": -0.0,
        "dec": Decimal("-1.50"),
        "big": Decimal("123456789012345678901234.56789"),
        "s": "",
        "bin": b"",
        "b": False,
        "day": date(1500, 3, 1),
        "texts": [],
        "structs": [],
        "by": [],
        "numbers": [],
        "one": {"x": None, "inner": None},
    },
    {
        "id": 2,
        "small": 7,
        "f": -0.0,
        "d": NAN,
        "dec": Decimal("99999999.99"),
        "big": Decimal("-0.00001"),
        "s": "é" * 40,
        "bin": b"\x00\xff",
        "b": True,
        "day": date(9999, 12, 31),
        "texts": [None, "", "a"],
        "structs": [None, {"x": None, "y": None}, {"x": 1, "y": []}, {"x": 2, "y": [None, {"z": None}, {"z": "z"}]}],
        "by": [("k", None), ("l", {"x": None}), ("m", {"x": 3})],
        "numbers": [("k", None), ("l", 4)],
        "one": {"x": 1, "inner": {"y": None}},
    },
]
"""Nulls and empties wherever they can be, and values at which readers are known to err."""
TABLE = pa.Table.from_pylist(ROWS, pa.schema(list(TYPES.items())))


def _avro_of(rows: pa.Table) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An Avro schema for the columns, and their rows as fastavro takes them."""
    count = 0

    def of(type_: Any) -> Any:
        nonlocal count
        count += 1
        if pa.types.is_struct(type_):
            inner = [{"name": type_.field(n).name, "type": of(type_.field(n).type)} for n in range(type_.num_fields)]
            return ["null", {"type": "record", "name": f"r{count}_{inner[0]['name']}", "fields": inner}]
        if pa.types.is_map(type_):
            return ["null", {"type": "map", "values": of(type_.item_type)}]
        if pa.types.is_list(type_):
            return ["null", {"type": "array", "items": of(type_.value_type)}]
        if pa.types.is_decimal(type_):
            logical = {"logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}
            return ["null", {"type": "bytes", **logical}]
        if pa.types.is_date(type_):
            return ["null", {"type": "int", "logicalType": "date"}]
        return ["null", AVRO[type_]]

    fields = [{"name": field.name, "type": of(field.type)} for field in rows.schema]
    return {"type": "record", "name": "row", "fields": fields}, rows.to_pylist(maps_as_pydicts="strict")


AVRO: dict[pa.DataType, str] = {
    pa.int64(): "long",
    pa.int32(): "int",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.bool_(): "boolean",
}


def write(path: Path, rows: pa.Table, format_: str, **how: Any) -> None:
    """A file without column ids."""
    if format_ == "PARQUET":
        pq.write_table(rows, path, **how)
    elif format_ == "ORC":
        orc.write_table(rows, path)
    else:
        schema, values = _avro_of(rows)
        with path.open("wb") as file:
            fastavro.writer(file, schema, values)
