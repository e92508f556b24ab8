"""Takes single variants apart, and puts objects together: for partially shredded ones. Pure.

The specification is that of Parquet's variant encoding. Numbers are little-endian.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise

from metastore.errors import FormatError

_OBJECT = 2


def field_names(metadata: bytes) -> list[str]:
    """Returns the names in a variant's dictionary, in the order of their numbers. Raises FormatError if damaged."""
    if not metadata or metadata[0] & 0xF != 1:
        raise FormatError("the metadata of a variant is damaged, or of an unknown version")
    width = (metadata[0] >> 6) + 1
    count = int.from_bytes(metadata[1 : 1 + width], "little")
    first = 1 + width
    borders = [_number(metadata, first, width, place) for place in range(count + 1)]
    start = first + (count + 1) * width
    if start + borders[-1] > len(metadata):
        raise FormatError("the metadata of a variant is damaged: it ends before its names do")
    return [metadata[start + at : start + end].decode() for at, end in pairwise(borders)]


def merged_object(names: list[str], first: bytes, second: bytes) -> bytes:
    """Returns the object with the fields of both; ``second`` wins. Raises FormatError if one is no object."""
    fields = {**_fields(first), **_fields(second)}
    order = sorted(fields, key=lambda number: names[number].encode())
    return _object([(number, fields[number]) for number in order])


def _fields(value: bytes) -> Mapping[int, bytes]:
    """Returns the values of an object by their numbers in the dictionary."""
    if not value or value[0] & 3 != _OBJECT:
        raise FormatError("a variant has shredded fields beside a value that is no object")
    offset_width, id_width = (value[0] >> 2 & 3) + 1, (value[0] >> 4 & 3) + 1
    count_width = 4 if value[0] >> 6 & 1 else 1
    count = int.from_bytes(value[1 : 1 + count_width], "little")
    ids = 1 + count_width
    starts = ids + count * id_width
    offsets = [_number(value, starts, offset_width, place) for place in range(count + 1)]
    content = value[starts + (count + 1) * offset_width :]
    # Values may lie in any order.
    ends = dict(zip(ordered := sorted({*offsets}), ordered[1:], strict=False))
    numbers = [_number(value, ids, id_width, place) for place in range(count)]
    return {number: content[offset : ends[offset]] for number, offset in zip(numbers, offsets[:-1], strict=True)}


def _object(fields: list[tuple[int, bytes]]) -> bytes:
    offsets = [0, *accumulate(len(content) for _, content in fields)]
    id_width, offset_width = (
        max(1, -(-most.bit_length() // 8)) for most in (max((n for n, _ in fields), default=0), offsets[-1])
    )
    large = len(fields) > 0xFF
    header = _OBJECT | (offset_width - 1) << 2 | (id_width - 1) << 4 | large << 6
    parts = [bytes([header]), len(fields).to_bytes(4 if large else 1, "little")]
    parts += (number.to_bytes(id_width, "little") for number, _ in fields)
    parts += (offset.to_bytes(offset_width, "little") for offset in offsets)
    return b"".join([*parts, *(content for _, content in fields)])


def _number(content: bytes, start: int, width: int, place: int) -> int:
    at = start + place * width
    return int.from_bytes(content[at : at + width], "little")
