"""Avro files -> facts: the header's schema, and the rows counted block by block without reading one.

Avro keeps no statistics, so there are no bounds. A file that is cut short is found out: its last block does not end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from metastore.errors import FormatError
from metastore.hive.facts import FileFacts, LeafFacts

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_PRIMITIVES: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_MOMENTS: Final = {"timestamp-millis": "ms", "timestamp-micros": "us", "timestamp-nanos": "ns"}


def read_avro(source: pa.NativeFile, size: int) -> FileFacts:
    """The facts of one file of ``size`` bytes. FormatError for what is no Avro file."""
    file = _File(source, size)
    if file.take(len(_MAGIC)) != _MAGIC:
        raise FormatError("it does not begin as an Avro file does")
    header = dict(file.header())
    sync = file.take(_SYNC_BYTES)
    records = 0
    while file.at < size:
        records += file.skip_block(sync)
    try:
        schema = _schema(json.loads(header["avro.schema"]))
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise FormatError(f"its header has no schema of Avro's: {error}") from error
    return FileFacts(records, schema, [LeafFacts() for _ in _leaves(schema)])


class _File:
    def __init__(self, source: pa.NativeFile, size: int) -> None:
        self._source = source
        self._size = size
        self.at = 0

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        taken = bytes(self._source.read(count))
        if len(taken) != count:
            raise FormatError(f"it ends within {count} bytes that begin at {self.at}")
        self.at += count
        return taken

    def header(self) -> Iterator[tuple[str, str]]:
        """The header's entries; a count below zero is followed by the length of the entries."""
        while count := self._number():
            if count < 0:
                self._number()
            for _ in range(abs(count)):
                key = self.take(self._number()).decode()
                yield key, self.take(self._number()).decode("utf-8", "replace")

    def skip_block(self, sync: bytes) -> int:
        """Pass over a block; the number of its rows."""
        rows, length = self._number(), self._number()
        self.at += length
        if rows < 0 or length < 0 or self.at + _SYNC_BYTES > self._size:
            raise FormatError("a block is cut short")
        self._source.seek(self.at)
        if self.take(_SYNC_BYTES) != sync:
            raise FormatError(f"a block does not end at {self.at - _SYNC_BYTES} as it should")
        return rows

    def _number(self) -> int:
        result = 0
        for shift in range(0, 64, 7):
            byte = self.take(1)[0]
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (result >> 1) ^ -(result & 1)
        raise FormatError(f"a number before {self.at} does not end")


def _schema(root: Any) -> pa.Schema:
    named: dict[str, pa.DataType] = {}
    type_ = _type(root, named)
    if not pa.types.is_struct(type_):
        raise FormatError("its rows are no records")
    return pa.schema([type_.field(index) for index in range(type_.num_fields)])


def _type(avro: Any, named: dict[str, pa.DataType]) -> Any:
    """The Arrow type of an Avro schema; a union of null and one other type is that type."""
    if isinstance(avro, str):
        found = named.get(avro) or _PRIMITIVES.get(avro)
        if found is None:
            raise FormatError(f"its schema speaks of {avro!r}, which is not defined")
        return found
    if isinstance(avro, list):
        others = [each for each in avro if each != "null"]
        if len(others) != 1:
            raise FormatError(f"its schema has the union {json.dumps(avro)}, which Iceberg has no counterpart for")
        return _type(others[0], named)
    type_ = _complex(avro, named)
    if "name" in avro:
        named[avro["name"]] = type_
        named[f"{avro.get('namespace', '')}.{avro['name']}"] = type_
    return type_


def _complex(avro: Mapping[str, Any], named: dict[str, pa.DataType]) -> Any:
    match avro.get("logicalType"), avro["type"]:
        case "decimal", "bytes" | "fixed":
            return pa.decimal128(avro["precision"], avro.get("scale", 0))
        case "date", "int":
            return pa.date32()
        case str() as name, "long" if name in _MOMENTS:
            return pa.timestamp(_MOMENTS[name], "UTC")
        case _, "record":
            return pa.struct([pa.field(each["name"], _type(each["type"], named)) for each in avro["fields"]])
        case _, "array":
            return pa.list_(_type(avro["items"], named))
        case _, "map":
            return pa.map_(pa.string(), _type(avro["values"], named))
        case _, "fixed":
            return pa.binary(avro["size"])
        case _, inner:
            return _type(inner, named)


def _leaves(schema: pa.Schema) -> Iterator[pa.DataType]:
    for each in schema:
        yield from _leaves_of(each.type)


def _leaves_of(type_: pa.DataType) -> Iterator[pa.DataType]:
    if not pa.types.is_nested(type_):
        yield type_
        return
    for index in range(type_.num_fields):
        inner = type_.field(index).type
        yield from _leaves_of(inner)
