"""Parquet's bloom filters: they exclude row groups without a value where statistics cannot.

Place in the flow: the task that reads a file calls this module before it reads the row groups that statistics left
(:mod:`metastore.scan.probes` determines the values that a condition requires). Promise: a row group is excluded only if
its own filter shows that it holds none of the values, and its writer is known to write complete filters. A filter that
is not understood excludes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TException, TType
from thrift.transport.TTransport import TMemoryBuffer

from metastore.lake.formats.parquet.writer_faults import Writer

Probes = Mapping[str, Sequence[int | str]]
"""Values by column: each requested row has one of them in each of these columns."""

_WHOLE: Final = frozenset({"parquet-mr", "parquet-cpp-arrow", "parquet-rs", "DuckDB"})
"""Writers whose filters are trusted. Arrow for Go omits values (apache/arrow-go#525)."""

_HEADER_BYTES: Final = 64
_MOST_BYTES: Final = 4 << 20
_BLOCK: Final = 32
_SALT: Final = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
_ONLY: Final = 1
"""The number of the only algorithm, hash and compression in Parquet: blocks, XXH64 and none."""


def possible_groups(
    open_file: Callable[[], pa.NativeFile], metadata: pq.FileMetaData, probes: Probes, groups: Sequence[int]
) -> Sequence[int]:
    """Returns those of the row groups ``groups`` that may have rows with a value of ``probes`` in each of its columns.

    The file is opened only if it has filters. Raises pyarrow's errors and OSError if it cannot be read.
    """
    if Writer.of_parquet(metadata.created_by).name not in _WHOLE:
        return groups
    offsets: dict[int, list[tuple[int, Sequence[int]]]] = {}
    for index in range(metadata.num_columns):
        column = metadata.schema.column(index)
        hashes = _hashes(column, probes.get(column.path, ()))
        for group in groups if hashes else ():
            chunk: Any = metadata.row_group(group).column(index)  # its stubs are of an older release
            offset = getattr(chunk, "bloom_filter_offset", None)
            if offset is not None:
                offsets.setdefault(group, []).append((offset, hashes or ()))
    if not offsets:
        return groups
    with open_file() as source:
        return [group for group in groups if _may_have(source, offsets.get(group, ()))]


def _may_have(source: pa.NativeFile, filters: Iterable[tuple[int, Sequence[int]]]) -> bool:
    for offset, hashes in filters:
        blocks = _blocks(source, offset)
        if blocks is not None and not any(_is_in(blocks, each) for each in hashes):
            return False
    return True


def _hashes(column: pq.ColumnSchema, values: Sequence[int | str]) -> list[int] | None:
    """Returns hashes of ``values`` as the column stores them; None if the column may store them in another form.

    Narrower integers are not looked up: parquet-rs hashes them by their own width (apache/datafusion#9779).
    """
    if not values or column.max_repetition_level:
        return None
    width = {"INT32": 4, "INT64": 8}.get(column.physical_type, 0)
    is_plain = column.logical_type.type == "NONE" or json.loads(column.logical_type.to_json()) == _int_type(8 * width)
    hashes = []
    for value in values:
        if isinstance(value, str) and column.physical_type == "BYTE_ARRAY" and column.logical_type.type == "STRING":
            hashes.append(xxh64(value.encode()))
        elif isinstance(value, int) and width and is_plain and -(1 << 8 * width - 1) <= value < 1 << 8 * width - 1:
            hashes.append(xxh64(value.to_bytes(width, "little", signed=True)))
        else:
            return None
    return hashes


def _int_type(bits: int) -> Mapping[str, Any]:
    return {"Type": "Int", "bitWidth": bits, "isSigned": True}


def _blocks(source: pa.NativeFile, offset: int) -> bytes | None:
    """Returns the bits of the filter at ``offset``; None for a filter that is not understood.

    The length comes from the filter's header, because footers have had wrong ones (apache/parquet-java#3249).
    """
    source.seek(offset)
    head = bytes(source.read(_HEADER_BYTES))
    buffer = TMemoryBuffer(head)
    try:
        length, *kinds = _header(TCompactProtocol(buffer))
    except (TException, AssertionError, EOFError, LookupError, ValueError, TypeError):
        return None
    if kinds != [_ONLY] * 3 or not 0 < length <= _MOST_BYTES or length % _BLOCK:
        return None
    start = offset + buffer.cstringio_buf.tell()
    source.seek(start)
    bits = bytes(source.read(length))
    return bits if len(bits) == length else None


def _header(protocol: Any) -> list[int]:
    """Returns bytes, algorithm, hash and compression, each as a number."""
    found = [0, 0, 0, 0]
    protocol.readStructBegin()
    while (field := protocol.readFieldBegin())[1] != TType.STOP:
        _, kind, number = field
        if number == 1 and kind == TType.I32:
            found[0] = protocol.readI32()
        else:
            protocol.readStructBegin()  # a union: its only field determines the kind
            _, inner, found[number - 1] = protocol.readFieldBegin()
            protocol.skip(inner)
            protocol.readFieldEnd()
            protocol.readFieldBegin()
            protocol.readStructEnd()
        protocol.readFieldEnd()
    return found


def _is_in(bits: bytes, hashed: int) -> bool:
    count = len(bits) // _BLOCK
    start = ((hashed >> 32) * count >> 32) * _BLOCK
    key = hashed & 0xFFFFFFFF
    for place, salt in enumerate(_SALT):
        word = int.from_bytes(bits[start + 4 * place : start + 4 * place + 4], "little")
        if not word >> ((key * salt & 0xFFFFFFFF) >> 27) & 1:
            return False
    return True


_ALL: Final = 0xFFFFFFFFFFFFFFFF
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def xxh64(data: bytes) -> int:
    """Returns the hash XXH64 of ``data`` with the seed 0."""
    at, size = 0, len(data)
    if size >= 32:
        lanes = [(_P1 + _P2) & _ALL, _P2, 0, -_P1 & _ALL]
        while at + 32 <= size:
            for lane in range(4):
                lanes[lane] = _round(lanes[lane], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        found = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _ALL
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * _P1 + _P4) & _ALL
    else:
        found = _P5
    found = (found + size) & _ALL
    while at + 8 <= size:
        found ^= _round(0, int.from_bytes(data[at : at + 8], "little"))
        found = (_rotate(found, 27) * _P1 + _P4) & _ALL
        at += 8
    if at + 4 <= size:
        found ^= int.from_bytes(data[at : at + 4], "little") * _P1 & _ALL
        found = (_rotate(found, 23) * _P2 + _P3) & _ALL
        at += 4
    for byte in data[at:]:
        found ^= byte * _P5 & _ALL
        found = _rotate(found, 11) * _P1 & _ALL
    found = (found ^ found >> 33) * _P2 & _ALL
    found = (found ^ found >> 29) * _P3 & _ALL
    return found ^ found >> 32


def _round(lane: int, word: int) -> int:
    return _rotate((lane + word * _P2) & _ALL, 31) * _P1 & _ALL


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 64 - bits) & _ALL
