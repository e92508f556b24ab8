"""Encodes columns as variants: the binary values of Parquet's variant type. Pure.

Each function returns one variant a row, as an array of bytes; NULL means that the row has none. Arrow and NumPy encode
whole columns at once. :mod:`metastore.lake.formats.parquet.shredded_variants` puts the values of shredded columns
together with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from metastore.errors import FormatError

Values = Any
"""An Arrow array of variants' bytes, or of any other type."""

Numbers = npt.NDArray[np.int64]

NULL: Final = b"\x00"
"""The variant that is null, which is not a missing one."""

_TRUE, _FALSE, _BINARY, _STRING, _UUID = 1, 2, 15, 16, 20
_DECIMALS: Final = ((9, 8, 4), (18, 9, 8), (38, 10, 16))
"""For each kind of decimals: the most digits, the number of the type, and the bytes of a value."""

_SHORT: Final = 64
"""A string of fewer bytes has its length in its first byte."""

_NUMBERS: Final[Mapping[pa.DataType, tuple[int, str]]] = {
    pa.int8(): (3, "<i1"),
    pa.int16(): (4, "<i2"),
    pa.int32(): (5, "<i4"),
    pa.int64(): (6, "<i8"),
    pa.float64(): (7, "<f8"),
    pa.date32(): (11, "<i4"),
    pa.timestamp("us", "UTC"): (12, "<i8"),
    pa.timestamp("us"): (13, "<i8"),
    pa.float32(): (14, "<f4"),
    pa.time64("us"): (17, "<i8"),
    pa.timestamp("ns", "UTC"): (18, "<i8"),
    pa.timestamp("ns"): (19, "<i8"),
}
"""The types of fixed width: the number of each in variants, and its form there, which is Arrow's own."""


def primitive_values(values: Values) -> Values:
    """Returns a column of plain values as variants. Raises FormatError for a type that variants do not have."""
    types = pa.types
    stored = values.dictionary_decode() if types.is_dictionary(values.type) else values
    stored = stored.storage if isinstance(stored.type, pa.BaseExtensionType) else stored
    kind, valid = stored.type, _valid(stored)
    if types.is_timestamp(kind) and kind.tz is not None:
        kind = pa.timestamp(kind.unit, "UTC")
    if kind in _NUMBERS:
        number, form = _NUMBERS[kind]
        return _encode_fixed(number, _content(stored, np.dtype(form).itemsize), valid)
    if types.is_boolean(kind):
        numbers = np.where(pc.fill_null(stored, False).to_numpy(zero_copy_only=False), _TRUE, _FALSE)
        return _of_rows((numbers << 2).astype(np.uint8).reshape(-1, 1), valid)
    if types.is_decimal128(kind):
        number, width = next(found for digits, *found in _DECIMALS if kind.precision <= digits)
        scale = np.full((len(stored), 1), kind.scale, dtype=np.uint8)
        return _encode_fixed(number, np.hstack([scale, _content(stored, 16)[:, :width]]), valid)
    if types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        return _encode_fixed(_UUID, _content(stored, 16), valid)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return _texts(stored.cast(pa.binary()))
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        content = stored.cast(pa.binary())
        return join_parts([_with_length(_BINARY, content), content])
    raise FormatError(f"a variant is shredded into {kind}, which is no type of variants")


def object_values(fields: Sequence[tuple[Numbers, Values]], length: int) -> Values:
    """Returns an object for each of ``length`` rows, with ``fields`` in the order of their names.

    Each field has its number in the dictionary of each row, and its variants; a row without one lacks the field.
    """
    present = [_valid(values) for _, values in fields]
    sizes = [_lengths(values) for _, values in fields]
    ends = np.cumsum([np.zeros(length, np.int64), *sizes], axis=0)
    numbers = [np.where(has, own, 0) for (own, _), has in zip(fields, present, strict=True)]
    id_bytes = _width(max((int(own.max(initial=0)) for own in numbers), default=0))
    offset_bytes = _width(int(ends.max(initial=0)))
    count = np.sum([np.zeros(length, np.int64), *present], axis=0)
    large = len(fields) > 0xFF
    header = 2 | (offset_bytes - 1) << 2 | (id_bytes - 1) << 4 | large << 6
    ids = [_optional(_integers(own, id_bytes), has) for own, has in zip(numbers, present, strict=True)]
    starts = [_optional(_integers(own, offset_bytes), has) for own, has in zip(ends[:-1], present, strict=True)]
    contents = [pc.fill_null(values, b"") for _, values in fields]
    head = [_repeat_byte(header, length), _integers(count, 4 if large else 1)]
    return join_parts([*head, *ids, *starts, _integers(ends[-1], offset_bytes), *contents])


def array_values(elements: Values, lengths: Numbers) -> Values:
    """Returns an array for each row, of as many ``elements`` as ``lengths`` says. An element without value is null."""
    content = pc.fill_null(elements, NULL)
    borders = np.concatenate([[0], np.cumsum(lengths)])
    ends = np.concatenate([[0], np.cumsum(_lengths(content))])
    total = ends[borders[1:]] - ends[borders[:-1]]
    offset_bytes, large = _width(int(total.max(initial=0))), bool((lengths > 0xFF).any())
    # Each array has one offset more than elements; they count from the array's first element.
    rows = np.repeat(np.arange(len(lengths)), lengths + 1)
    places = np.arange(len(rows)) - rows
    offsets = _bytes(ends[places] - ends[borders[rows]], offset_bytes)
    header = 3 | (offset_bytes - 1) << 2 | large << 4
    return join_parts(
        [
            _repeat_byte(header, len(lengths)),
            _integers(lengths, 4 if large else 1),
            _binary((borders + np.arange(len(borders))) * offset_bytes, offsets),
            _binary(ends[borders], _concat_values(content)),
        ]
    )


def join_parts(parts: Sequence[Values]) -> Values:
    """Returns the ``parts`` of each row as one text of bytes; NULL if a part is NULL."""
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))


def _texts(content: Values) -> Values:
    lengths = _lengths(content)
    short = pa.array(lengths < _SHORT)
    first = (lengths % _SHORT << 2 | 1).astype(np.uint8)
    head = pc.if_else(short, _of_rows(first.reshape(-1, 1), np.ones(len(first), bool)), _with_length(_STRING, content))
    return join_parts([head, content])


def _with_length(number: int, content: Values) -> Values:
    return _encode_fixed(number, _bytes(_lengths(content), 4), _valid(content))


def _encode_fixed(number: int, content: npt.NDArray[np.uint8], valid: npt.NDArray[np.bool_]) -> Values:
    """Returns values of one width behind the first byte of the type ``number``."""
    head = np.full((len(content), 1), number << 2, dtype=np.uint8)
    return _of_rows(np.hstack([head, content]), valid)


def _of_rows(rows: npt.NDArray[np.uint8], valid: npt.NDArray[np.bool_]) -> Values:
    made = _binary(np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1], rows)
    return made if valid.all() else pc.if_else(pa.array(valid), made, pa.scalar(None, pa.binary()))


def _integers(numbers: Numbers, width: int) -> Values:
    return _of_rows(_bytes(numbers, width), np.ones(len(numbers), bool))


def _bytes(numbers: Numbers, width: int) -> npt.NDArray[np.uint8]:
    """Returns the lowest ``width`` bytes of each number, the lowest one first."""
    return np.ascontiguousarray(numbers, dtype="<i8").view(np.uint8).reshape(-1, 8)[:, :width]


def _binary(offsets: Numbers, content: npt.NDArray[np.uint8]) -> Values:
    arrays: list[Any] = [offsets.astype(np.int32), np.ascontiguousarray(content)]
    buffers = [None, *map(pa.py_buffer, arrays)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _concat_values(content: Values) -> npt.NDArray[np.uint8]:
    """Returns the bytes of an array without NULL, one value behind the other."""
    _, offsets, held = content.buffers()
    borders = np.frombuffer(offsets, np.int32)[content.offset : content.offset + len(content) + 1]
    return np.frombuffer(held, np.uint8)[borders[0] : borders[-1]] if held else np.empty(0, np.uint8)


def _content(values: Values, width: int) -> npt.NDArray[np.uint8]:
    """Returns the bytes of values of fixed width, a line a value."""
    held = np.frombuffer(values.buffers()[1] or b"", np.uint8)
    return held[values.offset * width : (values.offset + len(values)) * width].reshape(len(values), width)


def _optional(values: Values, present: npt.NDArray[np.bool_]) -> Values:
    return values if present.all() else pc.if_else(pa.array(present), values, pa.scalar(b"", pa.binary()))


def _repeat_byte(byte: int, length: int) -> Values:
    return pa.repeat(pa.scalar(bytes([byte]), pa.binary()), length)


def _valid(values: Values) -> npt.NDArray[np.bool_]:
    return values.is_valid().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _lengths(values: Values) -> Numbers:
    lengths: Values = pc.binary_length(values)
    return lengths.fill_null(0).to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _width(largest: int) -> int:
    """Returns the fewest bytes that store numbers up to ``largest``."""
    return max(1, -(-largest.bit_length() // 8))
