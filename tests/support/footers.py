"""Parquet files whose footer says something that no writer at hand says: the footer decoded, changed and written anew.

A struct of thrift is a dictionary of (type, value) by the numbers of its fields, a list is (type of elements, list).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TType
from thrift.transport.TTransport import TMemoryBuffer

Struct = dict[int, tuple[int, Any]]

SCHEMA, _ROW_GROUPS, _KEY_VALUES = 2, 4, 5
"""Fields of a footer."""

PHYSICAL, WIDTH, REPETITION, NAME, CHILDREN, CONVERTED, SCALE, PRECISION, LOGICAL = 1, 2, 3, 4, 5, 6, 7, 8, 10
"""Fields of a schema element."""

REQUIRED, OPTIONAL, REPEATED = 0, 1, 2
MAP, MAP_KEY_VALUE, LIST = 1, 2, 3
"""Converted types."""


def change_footer(path: Path, change: Callable[[Struct], None]) -> None:
    """Let ``change`` edit the decoded footer of the Parquet file at ``path``, in place."""
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    footer = _read_struct(TCompactProtocol(TMemoryBuffer(content[-8 - length : -8])))
    change(footer)
    buffer = TMemoryBuffer()
    _write_struct(TCompactProtocol(buffer), footer)
    written = buffer.getvalue()
    path.write_bytes(content[: -8 - length] + written + len(written).to_bytes(4, "little") + b"PAR1")


def change_schema(path: Path, change: Callable[[list[Struct]], None]) -> None:
    """Let ``change`` edit the schema elements; column chunks follow by their order.

    What Arrow keeps of its own schema is dropped.
    """

    def changed(footer: Struct) -> None:
        footer.pop(_KEY_VALUES, None)
        elements = footer[SCHEMA][1][1]
        change(elements)
        paths = list(_paths(iter(elements[1:]), elements[0][CHILDREN][1], ()))
        for row_group in footer[_ROW_GROUPS][1][1]:
            for chunk, names in zip(row_group[1][1][1], paths, strict=True):
                chunk[3][1][3] = (TType.LIST, (TType.STRING, list(names)))

    change_footer(path, changed)


def _paths(elements: Iterator[Struct], count: int, above: tuple[bytes, ...]) -> Iterator[tuple[bytes, ...]]:
    """The path of each leaf among the next ``count`` elements and below."""
    for _ in range(count):
        found = next(elements)
        path = (*above, found[NAME][1])
        if CHILDREN in found:
            yield from _paths(elements, found[CHILDREN][1], path)
        elif PHYSICAL in found:
            yield path


def element(elements: list[Struct], name: str) -> Struct:
    """The first schema element called ``name``."""
    return next(each for each in elements if each[NAME][1] == name.encode())


def set_numbers(element_: Struct, **values: int | None) -> None:
    """Set integer fields of a schema element by name in lower case; None removes one."""
    for name, value in values.items():
        number = globals()[name.upper()]
        element_.pop(number, None)
        if value is not None:
            element_[number] = (TType.I32, value)


def rename(element_: Struct, name: str) -> None:
    """Give a schema element another name."""
    element_[NAME] = (TType.STRING, name.encode())


def annotate(element_: Struct, number: int, *, crs: str | None = None) -> None:
    """Give a schema element the logical type of this number, with a coordinate reference system."""
    details = {} if crs is None else {1: (TType.STRING, crs.encode())}
    element_[LOGICAL] = (TType.STRUCT, {number: (TType.STRUCT, details)})


def group(name: str, children: int, repetition: int) -> Struct:
    """A schema element of a group with so many ``children``."""
    found: Struct = {NAME: (TType.STRING, name.encode())}
    set_numbers(found, repetition=repetition, children=children)
    return found


def _read_struct(protocol: Any) -> Struct:
    fields: Struct = {}
    protocol.readStructBegin()
    while (field := protocol.readFieldBegin())[1] != TType.STOP:
        _, kind, number = field
        fields[number] = (kind, _read(protocol, kind))
        protocol.readFieldEnd()
    protocol.readStructEnd()
    return fields


def _read(protocol: Any, kind: int) -> Any:
    if kind == TType.STRUCT:
        return _read_struct(protocol)
    if kind in (TType.LIST, TType.SET):
        of, size = protocol.readListBegin()
        values = [_read(protocol, of) for _ in range(size)]
        protocol.readListEnd()
        return of, values
    return getattr(protocol, _METHODS[kind].replace("write", "read"))()


def _write_struct(protocol: Any, fields: Struct) -> None:
    protocol.writeStructBegin("")
    for number, (kind, value) in sorted(fields.items()):
        protocol.writeFieldBegin("", kind, number)
        _write(protocol, kind, value)
        protocol.writeFieldEnd()
    protocol.writeFieldStop()
    protocol.writeStructEnd()


def _write(protocol: Any, kind: int, value: Any) -> None:
    if kind == TType.STRUCT:
        _write_struct(protocol, value)
    elif kind in (TType.LIST, TType.SET):
        of, values = value
        protocol.writeListBegin(of, len(values))
        for each in values:
            _write(protocol, of, each)
        protocol.writeListEnd()
    else:
        getattr(protocol, _METHODS[kind])(value)


_METHODS: Final = {
    TType.BOOL: "writeBool",
    TType.BYTE: "writeByte",
    TType.I16: "writeI16",
    TType.I32: "writeI32",
    TType.I64: "writeI64",
    TType.DOUBLE: "writeDouble",
    TType.STRING: "writeBinary",
}
