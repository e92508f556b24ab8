"""Reads protocol buffers without their definitions: numbered fields with their encoded values.

ORC's footers are protocol buffers, and Arrow's reader does not expose their statistics. This small reader avoids
another dependency.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from metastore.errors import FormatError

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5

Value = int | bytes | float


class Message:
    """One message: the values of each field, in order. Raises FormatError for invalid bytes."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[Value]] = {}
        try:
            for number, value in _fields_in(data):
                self._fields.setdefault(number, []).append(value)
        except (IndexError, struct.error) as error:
            raise FormatError("a message in its footer is cut short") from error

    def __contains__(self, field: int) -> bool:
        return field in self._fields

    def number(self, field: int, default: int = 0) -> int:
        """Returns an unsigned number."""
        value = self._last(field, default)
        if not isinstance(value, int):
            raise FormatError(f"field {field} in its footer is no number")
        return value

    def count(self, field: int) -> int:
        """Returns a number of objects. Raises FormatError for an impossible one."""
        value = self.number(field)
        if value >= 1 << 63:
            raise FormatError(f"field {field} in its footer claims {value} elements")
        return value

    def signed_number(self, field: int) -> int | None:
        """Returns a signed number in zigzag form; None if it is not set."""
        if field not in self._fields:
            return None
        value = self.number(field)
        return (value >> 1) ^ -(value & 1)

    def text(self, field: int) -> str | None:
        """Returns a text; None if it is not set. Raises UnicodeDecodeError."""
        value = self._last(field, None)
        return value.decode() if isinstance(value, bytes) else None

    def message(self, field: int) -> Message | None:
        """Returns a nested message; None if it is not set."""
        value = self._last(field, None)
        return Message(value) if isinstance(value, bytes) else None

    def messages(self, field: int) -> list[Message]:
        """Returns all messages of a repeated field."""
        return [Message(value) for value in self._fields.get(field, ()) if isinstance(value, bytes)]

    def texts(self, field: int) -> list[str]:
        """Returns all texts of a repeated field. Raises UnicodeDecodeError."""
        return [value.decode() for value in self._fields.get(field, ()) if isinstance(value, bytes)]

    def numbers(self, field: int) -> list[int]:
        """Returns all numbers of a repeated field, packed or not."""
        found: list[int] = []
        for value in self._fields.get(field, ()):
            if isinstance(value, bytes):
                at = 0
                while at < len(value):
                    number, at = varint(value, at)
                    found.append(number)
            elif isinstance(value, int):
                found.append(value)
        return found

    def _last(self, field: int, default: Value | None) -> Value | None:
        values = self._fields.get(field)
        return values[-1] if values else default


def _fields_in(data: bytes) -> Iterator[tuple[int, Value]]:
    """Each field's number with its undecoded value. IndexError or struct.error if the data end too early."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = varint(data, at)
            yield tag >> 3, value
        elif kind == _BYTES:
            length, at = varint(data, at)
            if at + length > len(data):
                raise IndexError
            yield tag >> 3, data[at : at + length]
            at += length
        elif kind == _FIXED_64:
            yield tag >> 3, struct.unpack_from("<d", data, at)[0]
            at += 8
        elif kind == _FIXED_32:
            yield tag >> 3, struct.unpack_from("<f", data, at)[0]
            at += 4
        else:
            raise FormatError(f"its footer has a field of the unknown kind {kind}")


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the unsigned number at ``at``, of up to 64 bits, and its end. Raises IndexError."""
    result = 0
    for shift in range(0, 64, 7):
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
    raise IndexError
