"""An Avro file whose header is reduced to what the reader needs.

Header values may be arbitrary bytes: writers store texts, numbers and pictures in them. fastavro decodes all of them as
UTF-8. So the reader gets a header that holds only the schema and the codec.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any, Final

from metastore.errors import EngineError, FormatError
from metastore.ground.distribution import install_command

MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16
_NEEDED: Final = (b"avro.schema", b"avro.codec")
_LONGEST: Final = 64 << 20
"""The most bytes of a header entry; a longer one cannot be of an Avro file."""


class PlainHeader:
    """The bytes of an open Avro file with a plain header. Raises FormatError if it is not an Avro file."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._at = 0
        if self._take(len(MAGIC)) != MAGIC:
            raise FormatError("it does not begin as an Avro file does")
        kept = [(key, value) for key, value in entries(self._take) if key in _NEEDED]
        body = b"".join(_number(len(part)) + part for entry in kept for part in entry)
        count = _number(len(kept)) if kept else b""
        self._head = BytesIO(MAGIC + count + body + b"\0" + self._take(SYNC_BYTES))

    def read(self, size: int = -1) -> bytes:
        """Returns the next ``size`` bytes, or all remaining ones."""
        taken = self._head.read(size)
        if size < 0 or len(taken) < size:
            taken += self._source.read(size - len(taken) if size >= 0 else -1)
        self._at += len(taken)
        return taken

    def tell(self) -> int:
        """Returns how many bytes were read."""
        return self._at

    def _take(self, count: int) -> bytes:
        taken: bytes = self._source.read(count)
        if len(taken) != count:
            raise FormatError("it ends within its header")
        return bytes(taken)


def fastavro() -> Any:
    """Returns the library that decodes rows. Raises EngineError if it is not installed."""
    try:
        return importlib.import_module("fastavro")
    except ImportError as error:
        raise EngineError(f"Avro files are read by fastavro: {install_command('avro')}") from error


def require_whole(block: Any) -> None:
    """Raise FormatError if a block of fastavro, whose records were read, has bytes left: it states too few records."""
    if block.num_records < 0 or block.bytes_.read(1):
        raise FormatError(f"a block says that it has {block.num_records} rows, and has more")


def entries(take: Callable[[int], bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yields the keys and values of the header that follows the magic bytes; ``take`` returns the next bytes."""
    while count := read_number(take):
        if count < 0:
            read_number(take)  # the length of the entries in bytes
        for _ in range(abs(count)):
            yield _text(take), _text(take)


def read_number(take: Callable[[int], bytes]) -> int:
    """Returns the next number in Avro's encoding. Raises FormatError if it has more bytes than a number may have."""
    result = 0
    for shift in range(0, 64, 7):
        byte = take(1)[0]
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1)
    raise FormatError("a number in it does not end")


def _text(take: Callable[[int], bytes]) -> bytes:
    length = read_number(take)
    if not 0 <= length <= _LONGEST:
        raise FormatError("its header is damaged")
    return take(length)


def _number(value: int) -> bytes:
    """Returns a non-negative number in Avro's encoding."""
    rest, out = value << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
