"""A table's directory that tests write files of every format into."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv, orc


class Lake:
    """A table's directory; every write gets a modification time of its own, so that no change goes unseen."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.root = root
        self._time = 1_700_000_000

    def write(self, name: str, columns: dict[str, Any] | pa.Table, **options: Any) -> str:
        """Write one file below the table, in the format that its suffix tells (Parquet else); its path."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        table = columns if isinstance(columns, pa.Table) else pa.table(columns)
        write: Callable[..., object] = _WRITERS.get(path.suffix, pq.write_table)
        write(table, path, **options)
        self.touch(name)
        return str(path)

    def put(self, name: str, content: bytes) -> str:
        """Write any file below the table; its path."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.touch(name)
        return str(path)

    def touch(self, name: str) -> None:
        """Give a file a new modification time."""
        self._time += 1
        os.utime(self.root / name, (self._time, self._time))

    def remove(self, name: str) -> None:
        """Remove a file, and its directory once that is empty."""
        path = self.root / name
        path.unlink()
        while path.parent != self.root and not any(path.parent.iterdir()):
            path.parent.rmdir()
            path = path.parent


def _write_orc(table: pa.Table, path: Path, **options: Any) -> None:
    typed = [field.with_type(pa.string()) if field.type == pa.null() else field for field in table.schema]
    orc.write_table(table.cast(pa.schema(typed)), str(path), **options)


def _write_csv(table: pa.Table, path: Path) -> None:
    csv.write_csv(table, path)


def _write_tsv(table: pa.Table, path: Path) -> None:
    csv.write_csv(table, path, csv.WriteOptions(delimiter="\t"))


def _write_json(table: pa.Table, path: Path) -> None:
    path.write_text("".join(f"{json.dumps(row, default=str)}\n" for row in table.to_pylist()))


_AVRO: dict[pa.DataType, Any] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
    pa.timestamp("us", "UTC"): {"type": "long", "logicalType": "timestamp-micros"},
    pa.decimal128(9, 2): {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    pa.decimal128(38, 10): {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10},
}


def _write_avro(table: pa.Table, path: Path) -> None:
    fields = [
        {"name": f.name, "type": "null" if f.type == pa.null() else ["null", _AVRO[f.type]]} for f in table.schema
    ]
    with path.open("wb") as target:
        fastavro.writer(target, {"type": "record", "name": "Row", "fields": fields}, table.to_pylist())


_WRITERS: dict[str, Callable[..., object]] = {
    ".orc": _write_orc,
    ".avro": _write_avro,
    ".csv": _write_csv,
    ".tsv": _write_tsv,
    ".json": _write_json,
}
