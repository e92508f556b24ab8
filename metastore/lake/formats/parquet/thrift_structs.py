"""Structs of thrift's compact protocol, read and written without their definitions.

Promise: a decoded and unchanged struct is encoded with the same meaning, including fields that no specification names.
A struct is a dictionary of (type, value) by the numbers of its fields; a list is (type of its elements, list).
"""

from __future__ import annotations

from typing import Any, Final

from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TException, TType
from thrift.transport.TTransport import TMemoryBuffer

Struct = dict[int, tuple[int, Any]]

DAMAGED: Final = (
    TException,
    AssertionError,
    EOFError,
    LookupError,
    ValueError,
    MemoryError,
    OverflowError,
    RecursionError,
)
"""Exceptions of thrift for bytes that are not a struct."""


def decode_struct(content: bytes) -> Struct:
    """Returns the struct at the beginning of ``content``. Raises :data:`DAMAGED` if there is none."""
    return _read_struct(TCompactProtocol(TMemoryBuffer(content)))


def encode_struct(struct: Struct) -> bytes:
    """Returns ``struct`` as bytes, its fields by number."""
    buffer = TMemoryBuffer()
    _write_struct(TCompactProtocol(buffer), struct)
    written: bytes = buffer.getvalue()
    return written


def _read_struct(protocol: Any) -> Struct:
    fields: Struct = {}
    protocol.readStructBegin()
    while (field := protocol.readFieldBegin())[1] != TType.STOP:
        _, kind, number = field
        fields[number] = (kind, _read_value(protocol, kind))
        protocol.readFieldEnd()
    protocol.readStructEnd()
    return fields


def _read_value(protocol: Any, kind: int) -> Any:
    if kind == TType.STRUCT:
        return _read_struct(protocol)
    if kind in (TType.LIST, TType.SET):
        of, size = protocol.readListBegin()
        values = [_read_value(protocol, of) for _ in range(size)]
        protocol.readListEnd()
        return of, values
    return getattr(protocol, f"read{_KINDS[kind]}")()


def _write_struct(protocol: Any, fields: Struct) -> None:
    protocol.writeStructBegin("")
    for number, (kind, value) in sorted(fields.items()):
        protocol.writeFieldBegin("", kind, number)
        _write_value(protocol, kind, value)
        protocol.writeFieldEnd()
    protocol.writeFieldStop()
    protocol.writeStructEnd()


def _write_value(protocol: Any, kind: int, value: Any) -> None:
    if kind == TType.STRUCT:
        _write_struct(protocol, value)
    elif kind in (TType.LIST, TType.SET):
        of, values = value
        protocol.writeListBegin(of, len(values))
        for each in values:
            _write_value(protocol, of, each)
        protocol.writeListEnd()
    else:
        getattr(protocol, f"write{_KINDS[kind]}")(value)


_KINDS: Final = {
    TType.BOOL: "Bool",
    TType.BYTE: "Byte",
    TType.I16: "I16",
    TType.I32: "I32",
    TType.I64: "I64",
    TType.DOUBLE: "Double",
    TType.STRING: "Binary",
}
