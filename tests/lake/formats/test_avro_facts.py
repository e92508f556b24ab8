"""Avro files that are damaged or odd are refused, whatever stands in them; what they hold is in ``test_metrics``."""

from __future__ import annotations

import pyarrow as pa
import pytest

from metastore.errors import FormatError
from metastore.lake.formats.avro.avro_facts import read_avro
from metastore.lake.formats.orc.protobuf import varint

SYNC = b"s" * 16


def number(value: int) -> bytes:
    """As Avro writes one that is not below zero."""
    rest, written = value << 1, b""
    while rest >= 0x80:
        written += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return written + bytes([rest])


def header(schema: str) -> bytes:
    """Of a file without rows."""
    key, text = b"avro.schema", schema.encode()
    return b"Obj\x01" + number(1) + number(len(key)) + key + number(len(text)) + text + number(0) + SYNC


def read(content: bytes) -> int:
    """The rows of a file."""
    return read_avro(pa.BufferReader(content), len(content)).records


def test_a_file_without_rows() -> None:
    """It is one."""
    assert read(header('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}')) == 0


@pytest.mark.parametrize(
    "schema",
    [
        "null",
        "{}",
        "5",
        '{"type": 5}',
        '{"type": "record"}',
        '{"type": "record", "name": [], "fields": []}',
        '{"type": "record", "fields": [{"name": "a", "type": {"type": "bytes", "logicalType": "decimal"}}]}',
        "[" * 5_000 + "]" * 5_000,
        "{" * 3,
    ],
)
def test_a_schema_that_is_none(schema: str) -> None:
    """The error is one of ours."""
    with pytest.raises(FormatError, match="schema"):
        read(header(schema))


def test_a_number_that_does_not_end() -> None:
    """It is given up after as many bytes as one has, and not added up over the whole file."""
    with pytest.raises(FormatError, match="a number in it does not end"):
        read(b"Obj\x01" + b"\xff" * 400_000)
    assert varint(b"\xff" * 9 + b"\x01", 0) == (2**64 - 1, 10)
    with pytest.raises(IndexError):
        varint(b"\xff" * 400_000 + b"\x01", 0)
