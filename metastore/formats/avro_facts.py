"""Avro files -> facts: the header's schema, and the rows counted block by block without reading one.

Avro keeps no statistics, so there are no bounds. A file that is cut short is found out: its last block does not end.
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
