"""A lake to write Parquet files into, and ways to look at the units that ANALYZE makes of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, orc

from metastore.analyze.tasks.footers import FooterChunk, read_footers
from metastore.engine import LocalEngine
from metastore.mapping.arrow import plain_arrow_schema
from metastore.model.identity import TableInfo
from metastore.model.statistics import ColumnStatistics
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.tuple_schema import TupleSchema
from metastore.sources.listing import list_files

Row = dict[str, Any]
UNIT_SCHEMA = plain_arrow_schema(TableMetadataUnit)


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
        writers = {
            ".orc": _write_orc,
            ".avro": _write_avro,
            ".csv": _write_csv,
            ".tsv": _write_tsv,
            ".json": _write_json,
        }
        writers.get(path.suffix, pq.write_table)(table, path, **options)
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


class Units:
    """Unit rows by metadata type, with their JSON read."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows: list[Row] = [_plain(row) for row in rows.to_pylist()]

    def of_type(self, name: str) -> list[Row]:
        """Units of one metadata type, by identifier."""
        rows = [row for row in self.rows if row["metadataType"] == name]
        return sorted(rows, key=lambda row: (row["metadataIdentifier"], row["column"] or ""))

    def one(self, name: str) -> Row:
        """The only unit of a type."""
        (row,) = self.of_type(name)
        return row


def _plain(row: Row) -> Row:
    statistics = row["columnsStatistics"]
    return row | {
        "columnsStatistics": {key: ColumnStatistics.from_json(text) for key, text in statistics or ()},
        "schema": row["schema"] and TupleSchema.from_json(row["schema"]),
    }


@pytest.fixture(scope="session")
def as_units(as_rows: Callable[[pa.Table], list[str]]) -> Callable[[pa.Table], list[str]]:
    """Units in a form that compares by content, but for the table's leaders: these depend on what it went through."""

    def without_leaders(text: str | None) -> str | None:
        kept = json.loads(text or "{}")
        kept.get("metastore.segments", {}).pop("leaders", None)
        return json.dumps(kept, sort_keys=True)

    def rows(units: pa.Table) -> list[str]:
        at = units.schema.get_field_index("additionalMetadata")
        texts = [without_leaders(text) for text in units["additionalMetadata"].to_pylist()]
        return as_rows(units.set_column(at, "additionalMetadata", pa.array(texts, pa.string())))

    return rows


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty table directory."""
    return Lake(tmp_path / "lake")


@pytest.fixture(scope="session")
def new_lake() -> Callable[[Path], Lake]:
    """Make an empty table directory at a path."""
    return Lake


@pytest.fixture(scope="session")
def units_of() -> Callable[[pa.Table], Units]:
    """Look at unit rows."""
    return Units


@pytest.fixture
def footers() -> Callable[..., Units]:
    """What the task returns for all files of a lake, read in one chunk."""

    def read(lake: Lake, location: str = "", **options: Any) -> Units:
        location = location or str(lake.root)
        files = list_files(location).files
        chunk = FooterChunk(TableInfo("dfs", "tmp", "t"), location, UNIT_SCHEMA, files, **options)
        return Units(pa.Table.from_batches(read_footers(chunk), UNIT_SCHEMA))

    return read


@pytest.fixture(scope="session")
def engine() -> Iterator[LocalEngine]:
    """An engine without helpers: what they do is the engine's own test."""
    with LocalEngine(1) as engine:
        yield engine
