"""Computes the hashes for Apache DataSketches' theta sketches from Arrow values, many at a time.

A value's hash is MurmurHash3 (128 bits, seed 9001, the upper 63 bits of the first half) over Iceberg's binary form of
the value, as Iceberg's Puffin blob ``apache-datasketches-theta-v1`` requires. So every DataSketches library can read a
sketch of these hashes, and merge it with its own; a Puffin file can hold it unchanged.

Zeros of both signs are one value here, and so are all NaNs, because SQL counts them as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes = npt.NDArray[np.uint64]

ArrowValues: TypeAlias = Any
"""An Arrow array of any type; the stubs know each only with the type of its values."""

SLICE: Final = 16_384
"""Values hashed at once: intermediate results stay in the processor's cache, which is six times faster."""

_REPEATED: Final = 5 / 8
"""Where so few of the first numbers are distinct, some 17,000 of a million may be: Arrow's look-up takes half the time
of hashing. From some 50,000 on its table leaves the cache, and it takes longer."""

_REPEATED_TEXT: Final = 15 / 16
"""The same for all else, which takes five times as long to hash: some 100,000 of a million."""

_U64 = np.uint64
_SEED: Final = 9001
_C1: Final = _U64(0x87C37B91114253D5)
_C2: Final = _U64(0x4CF5AD432745937F)
_MIX: Final = (_U64(0xFF51AFD7ED558CCD), _U64(0xC4CEB9FE1A85EC53))


def domain_of(type_: pa.DataType) -> str | None:
    """Returns the name of the values' binary form; sketches of one domain count the same values alike.

    Returns None for values that cannot be hashed.
    """
    if pa.types.is_dictionary(type_):
        return domain_of(type_.value_type)
    if pa.types.is_decimal128(type_):
        return f"decimal:{type_.scale}"
    if pa.types.is_timestamp(type_):
        return "timestamp_ns" if type_.unit == "ns" else "timestamp"
    found = (domain for is_type, domain in _DOMAINS if is_type(type_))
    return next(found, None)


_DOMAINS: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_date, "date"),
    (lambda type_: pa.types.is_time(type_) and type_ != pa.time64("ns"), "time"),
    (lambda type_: type_ == pa.time64("ns"), "time_ns"),
    (lambda type_: type_ == pa.uint64(), "uint64"),
    (lambda type_: type_ in (pa.int64(), pa.uint32()), "long"),
    (pa.types.is_integer, "int"),
    (lambda type_: type_ in (pa.float16(), pa.float32()), "float"),
    (pa.types.is_floating, "double"),
    (
        lambda type_: (
            pa.types.is_string(type_)
            or pa.types.is_large_string(type_)
            or pa.types.is_string_view(type_)
            or pa.types.is_binary(type_)
            or pa.types.is_large_binary(type_)
            or pa.types.is_binary_view(type_)
            or pa.types.is_fixed_size_binary(type_)
        ),
        "bytes",
    ),
)


def hashes_of(values: ArrowValues) -> Iterator[Hashes]:
    """Yields the hashes of ``values``, which hold no null and are of a type with a domain, one slice at a time."""
    words, width = _words(values)
    if words is not None:
        for start in range(0, len(words), SLICE):
            some = words[start : start + SLICE]
            yield _of_words(_one_zero(some) if some.dtype.kind == "f" else some, width)
        return
    if pa.types.is_decimal(values.type):
        yield from _of_decimals(values)
        return
    for start in range(0, len(values), SLICE):
        yield _of_bytes(values.slice(start, SLICE).cast(pa.large_binary()))


def _words(values: ArrowValues) -> tuple[npt.NDArray[Any] | None, int]:
    """Returns fixed-width values as numbers of up to 64 bits, and the width of their binary form; None for others."""
    domain = domain_of(values.type)
    if domain == "boolean":
        return np.asarray(values.cast(pa.uint8())), 1
    if domain in ("float", "double"):
        width = 4 if domain == "float" else 8
        return np.asarray(values.cast(pa.float32() if width == 4 else pa.float64())), width
    if domain in ("int", "date"):
        days = values.cast(pa.date32()).cast(pa.int32()) if domain == "date" else values.cast(pa.int32())
        return np.asarray(days).view(np.uint32), 4
    if domain == "timestamp":
        values = values.cast(pa.timestamp("us", values.type.tz))
    elif domain == "time":
        values = values.cast(pa.time64("us"))
    elif domain not in ("long", "uint64", "timestamp_ns", "time_ns"):
        return None, 0
    return np.asarray(values if domain == "uint64" else values.cast(pa.int64())).view(np.uint64), 8


def _one_zero(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns the bits of floating-point numbers, with one zero and one NaN."""
    numbers = numbers + numbers.dtype.type(0)  # -0.0 + 0.0 is 0.0
    numbers[np.isnan(numbers)] = np.nan
    return numbers.view(np.uint32 if numbers.itemsize == 4 else np.uint64)


def _of_words(words: npt.NDArray[Any], width: int) -> Hashes:
    """Returns hashes of the ``width`` low bytes (up to 8) of ``words``: one short block, and no second half."""
    first = _scramble(words, _C1, 31, _C2)
    first ^= _U64(_SEED)
    hashes: Hashes = _finish_hashes(first, _U64(_SEED), width)
    return hashes


def _of_decimals(values: ArrowValues) -> Iterator[Hashes]:
    """Hashes decimals.

    The binary form is the unscaled value, high byte first, in the fewest bytes that hold its sign.
    """
    raw = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * 16 : (values.offset + len(values)) * 16]
    for start in range(0, len(values), SLICE):
        digits = raw[start * 16 : (start + SLICE) * 16].reshape(-1, 16)
        fill = np.where(digits[:, 15] & 0x80, 0xFF, 0).astype(np.uint8)
        # The highest byte that does not only repeat the sign; one more is needed if it shows the wrong sign.
        differs = digits != fill[:, None]
        top = np.where(differs.any(axis=1), 15 - differs[:, ::-1].argmax(axis=1), 0)
        shown = digits[np.arange(len(digits)), top]
        lengths = np.minimum(16, top + 1 + ((shown ^ fill) >> 7))
        hashes = np.empty(len(digits), np.uint64)
        for length in np.unique(lengths):
            chosen = lengths == length
            padded = np.zeros((int(chosen.sum()), 16), np.uint8)
            padded[:, :length] = digits[chosen, :length][:, ::-1]
            halves = padded.view("<u8")
            hashes[chosen] = _of_blocks([(halves[:, 0], halves[:, 1])], int(length), remaining=int(length) % 16)
        yield hashes


def _of_bytes(values: ArrowValues) -> Hashes:
    """Returns hashes of byte strings, computed together for all of one length."""
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    data = np.zeros(last - first + 24, np.uint8)  # with space for the words that begin at the last byte
    if last > first:
        data[: last - first] = np.frombuffer(values.buffers()[2], np.uint8)[first:last]
    words = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))  # the eight bytes that begin at any position
    starts, lengths = offsets[:-1] - first, np.diff(offsets)
    hashes = np.empty(len(values), np.uint64)
    order = np.argsort(lengths, kind="stable")
    borders = np.flatnonzero(np.diff(lengths[order])) + 1
    for chosen in np.split(order, borders):
        if len(chosen):
            hashes[chosen] = _of_one_length(words, starts[chosen], int(lengths[chosen[0]]))
    return hashes


def _of_one_length(words: npt.NDArray[Any], starts: npt.NDArray[np.int64], length: int) -> Hashes:
    blocks = [(words[starts + at], words[starts + at + 8]) for at in range(0, length - 15, 16)]
    rest = length % 16
    if rest:
        at = length - rest
        low, high = words[starts + at], words[starts + at + 8]
        blocks.append((low & _first_bytes(rest), high & _first_bytes(rest - 8)))
    hashes: Hashes = _of_blocks(blocks, length, rest) if blocks else np.full(len(starts), _empty_hash(), np.uint64)
    return hashes


def _first_bytes(count: int) -> np.uint64:
    mask: np.uint64 = _U64((1 << (8 * min(8, max(0, count)))) - 1)
    return mask


def _empty_hash() -> int:
    return int(_finish_hashes(np.array([_SEED], np.uint64), _U64(_SEED), 0)[0])


def _of_blocks(blocks: list[tuple[Hashes, Hashes]], length: int, remaining: int) -> Hashes:
    """Returns the hash over blocks of 16 bytes; the last one holds only ``remaining`` bytes (0: it is full)."""
    first = np.full(len(blocks[0][0]), _SEED, np.uint64)
    second = first.copy()
    for number, (low, high) in enumerate(blocks):
        first ^= _scramble(low, _C1, 31, _C2)
        is_tail = remaining and number == len(blocks) - 1
        if not is_tail:
            _rotate(first, 27)
            first += second
            first *= _U64(5)
            first += _U64(0x52DCE729)
        second ^= _scramble(high, _C2, 33, _C1)
        if not is_tail:
            _rotate(second, 31)
            second += first
            second *= _U64(5)
            second += _U64(0x38495AB5)
    return _finish_hashes(first, second, length)


def _scramble(words: npt.NDArray[Any], before: np.uint64, turn: int, after: np.uint64) -> Hashes:
    block: Hashes = np.multiply(words, before, dtype=np.uint64)
    _rotate(block, turn)
    block *= after
    return block


def _rotate(block: Hashes, turn: int) -> None:
    low = block >> _U64(64 - turn)
    block <<= _U64(turn)
    block |= low


def _finish_hashes(first: Hashes, second: Hashes | np.uint64, length: int) -> Hashes:
    first ^= _U64(length)
    other = second ^ _U64(length)
    first += other
    other = first + other
    spare = np.empty_like(first)
    _mix(first, spare)
    _mix(other, spare)
    first += other
    first >>= _U64(1)
    return first


def _mix(half: Hashes, spare: Hashes) -> None:
    for factor in _MIX:
        half ^= np.right_shift(half, _U64(33), out=spare)
        half *= factor
    half ^= np.right_shift(half, _U64(33), out=spare)


def distinct_first(values: ArrowValues) -> ArrowValues:
    """Returns ``values`` without duplicates, if the first of them show that this is cheaper than hashing all."""
    if len(values) <= SLICE:
        return values
    is_number = pa.types.is_primitive(values.type)
    head = pc.unique(values.slice(0, SLICE))
    return pc.unique(values) if len(head) < SLICE * (_REPEATED if is_number else _REPEATED_TEXT) else values
