"""Facts of Avro files: the schema from the header, and a row count from the block headers, without decoding rows.

Avro keeps no statistics, so there are no bounds. A truncated file is detected, because its last block is incomplete.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from metastore.errors import FormatError
from metastore.formats.avro_schema import arrow_schema_of
from metastore.formats.facts import FileFacts, LeafFacts

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16


def read_avro(source: pa.NativeFile, size: int) -> FileFacts:
    """Returns the facts of one file of ``size`` bytes. Raises FormatError if it is not an Avro file."""
    file = _File(source, size)
    if file.take(len(_MAGIC)) != _MAGIC:
        raise FormatError("it does not begin as an Avro file does")
    header = dict(file.header())
    sync = file.take(_SYNC_BYTES)
    records = 0
    while file.at < size:
        records += file.skip_block(sync)
    try:
        written = json.loads(header["avro.schema"])
    except (KeyError, ValueError, RecursionError) as error:
        raise FormatError(f"its header has no Avro schema: {error}") from error
    schema = arrow_schema_of(written)
    return FileFacts(records, schema, [LeafFacts() for _ in _leaves(schema)])


class _File:
    def __init__(self, source: pa.NativeFile, size: int) -> None:
        self._source = source
        self._size = size
        self.at = 0

    def take(self, count: int) -> bytes:
        """Returns the next ``count`` bytes."""
        taken = bytes(self._source.read(count))
        if len(taken) != count:
            raise FormatError(f"it ends within {count} bytes that begin at {self.at}")
        self.at += count
        return taken

    def header(self) -> Iterator[tuple[str, str]]:
        """Returns the header's entries; if a count is negative, the length of the entries follows it."""
        while count := self._number():
            if count < 0:
                self._number()
            for _ in range(abs(count)):
                key = self.take(self._number()).decode()
                yield key, self.take(self._number()).decode("utf-8", "replace")

    def skip_block(self, sync: bytes) -> int:
        """Skip a block; returns the number of its rows."""
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


def _leaves(schema: pa.Schema) -> Iterator[pa.DataType]:
    for each in schema:
        yield from _leaves_of(each.type)


def _leaves_of(type_: Any) -> Iterator[pa.DataType]:
    if not pa.types.is_nested(type_):
        yield type_
        return
    for index in range(type_.num_fields):
        inner = type_.field(index).type
        yield from _leaves_of(inner)
