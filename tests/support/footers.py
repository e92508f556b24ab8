"""Parquet files whose footer says something that no writer at hand says: it is decoded, changed and written anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from thrift.Thrift import TType

from metastore.lake.formats.parquet.thrift_structs import Struct, decode_struct, encode_struct

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
    footer = decode_struct(content[-8 - length : -8])
    change(footer)
    written = encode_struct(footer)
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
