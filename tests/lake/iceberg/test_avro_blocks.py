"""Avro files: damage is told by the checksum, and where there is none, no length leads out of the file."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.avro.decoder import StreamingBinaryDecoder, new_decoder
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import construct_reader, construct_writer
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType

from metastore.lake.iceberg.manifests.avro_blocks import CHECKSUM, CheckedDecoder, open_blocks, schema_of
from metastore.lake.iceberg.manifests.avro_file import avro_file, encode, schema_text

SCHEMA = Schema(
    NestedField(1, "path", StringType(), required=True),
    NestedField(2, "rows", LongType(), required=False),
    NestedField(3, "sizes", MapType(5, IntegerType(), 6, LongType(), value_required=True), required=False),
    NestedField(4, "offsets", ListType(7, LongType(), element_required=True), required=False),
)
TEXT = schema_text(SCHEMA, "entry")
ROWS = [("a", 1, {1: 2, 3: 4}, [4, 8]), ("b", None, None, None), ("a long path", -5, {}, [])]
READER = construct_reader(SCHEMA.as_struct())
PADDING = 16
CALLS = st.sampled_from(["read_int", "skip_int", "read_bytes", "skip_bytes", "read_boolean", "read_utf8", "skip_utf8"])


def content_of(rows: list[tuple[Any, ...]], **metadata: str) -> bytes:
    """A file with these records."""
    writer = construct_writer(SCHEMA)
    return avro_file(TEXT, metadata, [encode(writer, Record(*row)) for row in rows])


def without_checksum(content: bytes) -> bytes:
    """The same file as another tool would have written it: the checksum is under a name that means nothing."""
    assert content.count(CHECKSUM.encode()) == 1
    return content.replace(CHECKSUM.encode(), CHECKSUM.upper().encode())


def records(content: bytes, reader: Reader = READER) -> list[Record]:
    """All records of the file."""
    return [record for block in open_blocks(content)[1] for record in block.records(reader)]


def records_if_any(content: bytes) -> list[Record] | None:
    """The records of the file; None where it cannot be read."""
    try:
        return records(content)
    except Exception:  # noqa: BLE001 - the decoder has no error of its own
        return None


@pytest.mark.parametrize("written_by", [lambda content: content, without_checksum], ids=["us", "others"])
def test_what_was_written_is_read(written_by: Callable[[bytes], bytes]) -> None:
    """With the checksum and without it."""
    assert records(written_by(content_of(ROWS))) == [Record(*row) for row in ROWS]


@pytest.mark.parametrize("written_by", [lambda content: content, without_checksum], ids=["us", "others"])
@given(number=st.floats())
def test_a_double_has_64_bits(written_by: Callable[[bytes], bytes], number: float) -> None:
    """A partition's value may be one; PyIceberg's compiled decoder would give 0.10000000149 for 0.1."""
    schema = Schema(NestedField(1, "value", DoubleType(), required=True))
    rows = [encode(construct_writer(schema), Record(number))]
    content = written_by(avro_file(schema_text(schema, "entry"), {}, rows))
    [found] = records(content, construct_reader(schema.as_struct()))
    assert struct.pack("<d", found[0]) == struct.pack("<d", number)


@given(number=st.floats())
def test_pyiceberg_reads_all_of_a_double(number: float) -> None:
    """Its compiled decoder, which plans the scans of catalogs' tables, too."""
    reader = construct_reader(DoubleType())
    assert struct.pack("<d", reader.read(new_decoder(struct.pack("<d", number)))) == struct.pack("<d", number)


def test_no_damage_of_ours_goes_unnoticed() -> None:
    """Every single bit that is turned, and every cut: an error, or the very same records."""
    content = content_of(ROWS)
    whole = records(content)
    damaged = [content[:end] for end in range(len(content))]
    for position in range(len(content)):
        for bit in range(8):
            turned = bytearray(content)
            turned[position] ^= 1 << bit
            damaged.append(bytes(turned))
    found = [records_if_any(each) for each in damaged]
    # What nothing depends on, such as the letters of the checksum's name, may change.
    assert all(each in (None, whole) for each in found)
    assert found.count(None) > 0.9 * len(damaged)


@given(st.binary(max_size=40), st.lists(CALLS, max_size=8))
def test_nothing_is_read_that_is_not_there(content: bytes, calls: list[str]) -> None:
    """What is answered within the content is what PyIceberg's plain decoder, which reads from a stream, answers."""
    checked, plain = CheckedDecoder(content), StreamingBinaryDecoder(content)
    for call in calls:
        before = checked.tell()
        try:
            found = getattr(checked, call)()
        except (EOFError, UnicodeDecodeError):
            return
        assert before < checked.tell() <= len(content) + PADDING
        if checked.tell() > len(content):
            return
        expected = getattr(plain, call)()
        assert checked.tell() == plain.tell()
        if call in ("read_bytes", "read_utf8"):
            assert found == expected


@pytest.mark.parametrize(
    "length", [b"\x40", b"\x03", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"], ids=["32", "-2", "2^63 - 1"]
)
@pytest.mark.parametrize("call", ["read_bytes", "skip_bytes", "read_utf8", "skip_utf8"])
def test_a_length_beyond_the_end_is_an_error(length: bytes, call: str) -> None:
    """As is one below zero; nothing is read then."""
    with pytest.raises(EOFError):
        getattr(CheckedDecoder(length + b"ab"), call)()


def test_records_that_cannot_be_are_refused_before_they_are_counted() -> None:
    """A block that claims billions of records, or a list of billions of things that take no bytes."""
    nothing = {"type": "record", "name": "r5", "fields": []}
    listed = {"type": "array", "items": nothing, "element-id": 5}
    fields = [{"name": "all", "type": listed, "field-id": 1}]
    with pytest.raises(ValueError, match="a list without elements' type"):
        schema_of(json.dumps({"type": "record", "name": "t", "fields": fields}))
    assert schema_of(TEXT).as_struct() == SCHEMA.as_struct()
    empty = construct_reader(StructType())
    content = without_checksum(avro_file(json.dumps(nothing), {}, [b""] * 3))
    with pytest.raises(ValueError, match="3 records do not fit into 0 bytes"):
        records(content, empty)
