"""Facts of Avro files: the schema from the header, and a row count from the block headers, without decoding rows.

Avro keeps no statistics, so there are no bounds. A truncated file is detected, because its last block is incomplete.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from metastore.errors import FormatError
from metastore.lake.formats.avro.avro_header import MAGIC, SYNC_BYTES, entries, read_number
from metastore.lake.formats.avro.avro_schema import arrow_schema_of
from metastore.lake.formats.facts import FileFacts, LeafFacts


def read_avro(source: pa.NativeFile, size: int) -> FileFacts:
    """Returns the facts of one file of ``size`` bytes. Raises FormatError if it is not an Avro file."""
    file = _File(source, size)
    if file.take(len(MAGIC)) != MAGIC:
        raise FormatError("it does not begin as an Avro file does")
    header = dict(entries(file.take))
    sync = file.take(SYNC_BYTES)
    records = 0
    while file.at < size:
        records += file.skip_block(sync)
    try:
        written = json.loads(header[b"avro.schema"])
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

    def skip_block(self, sync: bytes) -> int:
        """Skip a block; returns the number of its rows."""
        rows, length = read_number(self.take), read_number(self.take)
        self.at += length
        if rows < 0 or length < 0 or self.at + SYNC_BYTES > self._size:
            raise FormatError("a block is cut short")
        self._source.seek(self.at)
        if self.take(SYNC_BYTES) != sync:
            raise FormatError(f"a block does not end at {self.at - SYNC_BYTES} as it should")
        return rows


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
