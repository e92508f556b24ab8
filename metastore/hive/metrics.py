"""The engine task that reads metrics for Iceberg's manifests: takes a chunk of files, returns one row for each.

Rows hold plain numbers for each leaf of the table, in order, so the driver does not depend on the format. A file that
cannot be read does not end the task: its row has the error, so that all such files can be named together.

Promise: counts are exact or absent. Bounds are never too narrow (:mod:`metastore.formats.facts`); bounds of texts and
bytes are truncated to 16, as in Iceberg.
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyiceberg.utils.decimal import bytes_required
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string

from metastore.digests import digest
from metastore.epoch import EPOCH, EPOCH_DAY
from metastore.errors import FormatError, MetastoreError
from metastore.formats.avro_facts import read_avro
from metastore.formats.facts import FileFacts
from metastore.formats.orc_facts import read_orc, require_readable_times
from metastore.formats.parquet_facts import ParquetFooters
from metastore.hive.listing import Store
from metastore.hive.matching import Match, match
from metastore.hive.tables import Columns, FileFormat
from metastore.hive.types import HiveType, Leaf, leaves_of
from metastore.stores.locations import is_local

_FETCHES: Final = 16
"""Number of footers fetched concurrently from a store that is not the local disk: its latency dominates."""

_CUT: Final = 16
_MICROSECOND: Final = timedelta(microseconds=1)

_COUNTS: Final = pa.list_(pa.int64())
_BOUNDS: Final = pa.list_(pa.binary())
_FIELDS: Final[dict[str, Any]] = {
    "number": pa.int64(),
    "error": pa.string(),
    "records": pa.int64(),
    "shape": pa.string(),
    "schema": pa.binary(),
    "splits": _COUNTS,
    "sizes": _COUNTS,
    "values": _COUNTS,
    "nulls": _COUNTS,
    "lower": _BOUNDS,
    "upper": _BOUNDS,
}
FRAGMENT: Final = pa.schema(_FIELDS)
"""The task's result for each file. ``shape`` identifies its schema, which only the first row with that shape has."""


class FileToRead(NamedTuple):
    """One file of a chunk: its number in the whole listing, and its location, size and format from the listing."""

    number: int
    location: str
    size: int
    format: FileFormat


@dataclass(frozen=True)
class MetricsChunk:
    """The files of one task; plain data. ``properties`` open the store, with PyIceberg's names."""

    columns: Columns
    files: Sequence[FileToRead]
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_metrics(chunk: MetricsChunk) -> Iterator[pa.RecordBatch]:
    """Yields one batch of :data:`FRAGMENT` with a row for each file. Only footers are read."""
    reader = _MetricsReader(chunk)
    if all(is_local(file.location) for file in chunk.files):
        rows = [reader.row(file) for file in chunk.files]
    else:
        with ThreadPoolExecutor(_FETCHES) as threads:
            rows = list(threads.map(reader.row, chunk.files))
    yield pa.RecordBatch.from_pylist(rows, FRAGMENT)


class _MetricsReader:
    def __init__(self, chunk: MetricsChunk) -> None:
        self._store = Store(chunk.properties)
        self._columns = chunk.columns
        self._leaves = leaves_of(chunk.columns)
        self._encoders = [_encoder(leaf) for leaf in self._leaves]
        self._parquet = ParquetFooters(as_arrow_opens=True)
        self._shapes: dict[str, Match] = {}
        self._learning = threading.Lock()

    def row(self, file: FileToRead) -> dict[str, Any]:
        try:
            with self._store.open(file.location) as source:
                facts = self._facts(file, source)
        except (pa.ArrowException, OSError, MetastoreError, UnicodeDecodeError, KeyError, ValueError) as error:
            return {"number": file.number, "error": f"{file.location}: {_error_text(error)}"}
        return self._row(file, facts)

    def _facts(self, file: FileToRead, source: pa.NativeFile) -> FileFacts:
        if source.size() != file.size:
            raise FormatError("it has changed since it was listed")
        match file.format:
            case FileFormat.PARQUET:
                return self._parquet.read(source)
            case FileFormat.ORC:
                facts = read_orc(source, file.size)
                require_readable_times(facts)
                return facts
            case _:
                return read_avro(source, file.size)

    def _row(self, file: FileToRead, facts: FileFacts) -> dict[str, Any]:
        described = facts.schema.serialize().to_pybytes()
        shape = f"{file.format}-{digest(described).hex()}"
        with self._learning:
            is_new = shape not in self._shapes
            if is_new:
                self._shapes[shape] = match(self._columns, facts.schema)
        row: dict[str, Any] = {
            "number": file.number,
            "records": facts.records,
            "shape": shape,
            "schema": described if is_new else None,
            "splits": list(facts.splits),
        }
        places = self._shapes[shape].leaves
        count = len(self._leaves)
        for name in ("sizes", "values", "nulls", "lower", "upper"):
            row[name] = [None] * count
        for place, leaf in zip(places, facts.leaves, strict=True):
            if place is None:
                continue
            row["sizes"][place], row["values"][place], row["nulls"][place] = leaf.size, leaf.values, leaf.nulls
            if (encode := self._encoders[place]) is not None:
                row["lower"][place], row["upper"][place] = encode(leaf.low, False), encode(leaf.high, True)
        return row


def schema_of(described: bytes) -> pa.Schema:
    """Returns the file schema from the column ``schema`` of a fragment."""
    return pa.ipc.read_schema(pa.py_buffer(described))


_Encoder = Callable[[Any, bool], bytes | None]
_Encode = Callable[[Any, bool, HiveType], bytes | None]


def _encoder(leaf: Leaf) -> _Encoder | None:
    """Returns the function that encodes bounds of a leaf for Iceberg; it takes a bound, and whether it is upper."""
    if leaf.repeated:
        return None
    kind, encode = _ENCODERS[leaf.type.name]
    type_ = leaf.type

    def bytes_of(bound: Any, is_upper: bool) -> bytes | None:
        # A bound of another type comes from a file that does not fit, which is refused as a whole.
        return encode(bound, is_upper, type_) if isinstance(bound, kind) else None

    return bytes_of


def _integer_encoder(code: str) -> _Encode:
    packer = struct.Struct(code)
    least, most = -(1 << packer.size * 8 - 1), (1 << packer.size * 8 - 1) - 1
    return lambda bound, _upper, _type: packer.pack(bound) if least <= bound <= most else None


def _floating(code: str) -> _Encode:
    packer = struct.Struct(code)
    return lambda bound, _upper, _type: None if math.isnan(bound) else packer.pack(bound)


def _text(bound: str, is_upper: bool, type_: HiveType) -> bytes | None:
    if is_upper:
        cut = bound if len(bound) <= _CUT else _next_text(bound[:_CUT])
        return None if cut is None else cut.encode()
    # Some writers pad a char, and some readers remove the padding: the unpadded text is the lower one.
    return (bound.rstrip(" ") if type_.name == "char" else bound)[:_CUT].encode()


def _next_text(text: str) -> str | None:
    """Returns the first text after all that begin with ``text``, or None. Surrogates are not valid code points."""
    kept = text.rstrip("\U0010ffff")
    if not kept:
        return None
    last = ord(kept[-1]) + 1
    return kept[:-1] + ("\ue000" if 0xD800 <= last <= 0xDFFF else chr(last))


def _bytes(bound: bytes, is_upper: bool, _type: HiveType) -> bytes | None:
    if not is_upper:
        return bound[:_CUT]
    cut: bytes | None = truncate_upper_bound_binary_string(bound, _CUT)
    return cut


def _decimal(bound: Decimal, _upper: bool, type_: HiveType) -> bytes | None:
    precision, scale = type_.arguments
    sign, digits, exponent = bound.as_tuple()
    if not isinstance(exponent, int):
        return None
    unscaled, rest = int("".join(map(str, digits))), 0
    if (shift := exponent + scale) >= 0:
        unscaled *= 10**shift
    else:
        unscaled, rest = divmod(unscaled, 10**-shift)
    if rest or unscaled >= 10**precision:
        return None
    signed: int = -unscaled if sign else unscaled
    length: int = bytes_required(signed)
    return signed.to_bytes(length, "big", signed=True)


def _date(bound: date, _upper: bool, _type: HiveType) -> bytes | None:
    return None if isinstance(bound, datetime) else struct.pack("<i", bound.toordinal() - EPOCH_DAY)


def _timestamp(bound: datetime, _upper: bool, _type: HiveType) -> bytes | None:
    return struct.pack("<q", (bound.replace(tzinfo=None) - EPOCH) // _MICROSECOND)


_INT, _TEXT, _MOMENT = (int, _integer_encoder("<i")), (str, _text), (datetime, _timestamp)
_ENCODERS: Final[Mapping[str, tuple[type, _Encode]]] = {
    "boolean": (bool, lambda bound, _upper, _type: b"\x01" if bound else b"\x00"),
    "tinyint": _INT,
    "smallint": _INT,
    "int": _INT,
    "bigint": (int, _integer_encoder("<q")),
    "float": (float, _floating("<f")),
    "double": (float, _floating("<d")),
    "string": _TEXT,
    "char": _TEXT,
    "varchar": _TEXT,
    "binary": (bytes, _bytes),
    "date": (date, _date),
    "timestamp": _MOMENT,
    "timestamptz": _MOMENT,
    "decimal": (Decimal, _decimal),
}
"""For each type, the Python type of its bounds, and the function that encodes them as Iceberg's bytes."""


def _error_text(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
