"""Puts shredded variants together again: columns ``value`` and ``typed_value`` become one value of bytes. Pure.

A writer may store a part of a variant in typed columns, and each file in others. Place in the flow: rewriting reads
files of all kinds, and writes variants of ``metadata`` and ``value`` only. Promises: each variant is equal to the one
in the file, by the rules of Parquet's specification of shredding; what breaks these rules is a FormatError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.errors import FormatError
from metastore.lake.formats.parquet.variant_values import (
    NULL,
    Numbers,
    Values,
    array_values,
    object_values,
    primitive_values,
)

METADATA: Final = "metadata"
VALUE: Final = "value"
TYPED: Final = "typed_value"


def assemble_variants(variants: Values) -> tuple[Values, Values]:
    """Returns ``metadata`` and ``value`` of a column of variants, both without NULL. Raises FormatError.

    What they are where the column is NULL has no meaning.
    """
    parts = _parts(variants, METADATA, VALUE, TYPED)
    metadata = pc.fill_null(parts[METADATA].cast(pa.binary()), b"\x01\x00\x00")
    if TYPED not in parts:
        return metadata, pc.fill_null(parts[VALUE].cast(pa.binary()), NULL)
    encoded = metadata.dictionary_encode()
    names = [field_names(each) for each in encoded.dictionary.to_pylist()]
    rows = _Rows(names, encoded.indices.to_numpy().astype(np.int64))
    return metadata, pc.fill_null(_values(rows, parts), NULL)


@dataclass(frozen=True)
class _Rows:
    """The dictionary of each row: ``names`` are the different ones, ``codes`` the number of each row's."""

    names: Sequence[list[str]]
    codes: Numbers

    def numbers(self, name: str, present: Values) -> Numbers:
        """Returns the number of the field ``name`` in each row's dictionary; any number where it is not present."""
        known = np.array([names.index(name) if name in names else -1 for names in self.names], dtype=np.int64)
        found: Numbers = known[self.codes]
        if (found[present.to_numpy(zero_copy_only=False)] < 0).any():
            raise FormatError(f"the metadata of a variant lacks the name of its shredded field {name!r}")
        return found


def _values(rows: _Rows, parts: dict[str, Values]) -> Values:
    """Returns one variant a row; NULL where it is missing."""
    value = parts.get(VALUE)
    if value is not None:
        value = value.cast(pa.binary())
    typed = parts.get(TYPED)
    if typed is None:
        return pa.nulls(len(rows.codes), pa.binary()) if value is None else value
    kind = typed.type
    if pa.types.is_struct(kind):
        made = _objects(rows, typed)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        made = _arrays(rows, typed)
    else:
        made = primitive_values(typed)
    if value is None:
        return made
    both = np.flatnonzero(pc.and_(value.is_valid(), made.is_valid()).to_numpy(zero_copy_only=False))
    if not len(both):
        return pc.coalesce(made, value)
    if not pa.types.is_struct(kind):
        raise FormatError(f"a variant has both a value and a typed value of {kind}, of which only one can be its value")
    merged = [
        merged_object(rows.names[code], old, new)
        for code, old, new in zip(
            rows.codes[both].tolist(), value.take(both).to_pylist(), made.take(both).to_pylist(), strict=True
        )
    ]
    places = np.arange(len(made))
    places[both] = len(made) + np.arange(len(both))
    return pc.coalesce(pa.concat_arrays([made, pa.array(merged, pa.binary())]).take(pa.array(places)), value)


def _objects(rows: _Rows, typed: Values) -> Values:
    fields = dict(zip((field.name for field in typed.type), typed.flatten(), strict=True))
    found = []
    for name in sorted(fields, key=str.encode):
        values = _values(rows, _parts(fields[name], VALUE, TYPED))
        found.append((rows.numbers(name, values.is_valid()), values))
    made = object_values(found, len(typed))
    return pc.if_else(typed.is_valid(), made, pa.scalar(None, pa.binary()))


def _arrays(rows: _Rows, typed: Values) -> Values:
    counts: Any = pc.list_value_length(typed)
    lengths = counts.fill_null(0).to_numpy().astype(np.int64)
    elements: Any = pc.list_flatten(typed)
    of_elements = _Rows(rows.names, np.repeat(rows.codes, lengths))
    made = array_values(_values(of_elements, _parts(elements, VALUE, TYPED)), lengths)
    return pc.if_else(typed.is_valid(), made, pa.scalar(None, pa.binary()))


def _parts(group: Values, *known: str) -> dict[str, Values]:
    """Returns the columns of a group, NULL where the group is. Raises FormatError for others than the ``known``."""
    names = [field.name for field in group.type] if pa.types.is_struct(group.type) else [str(group.type)]
    if not {*names} <= {*known}:
        raise FormatError(f"a part of a variant is shredded into {', '.join(names)}; expected are {', '.join(known)}")
    return dict(zip(names, group.flatten(), strict=True))


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
