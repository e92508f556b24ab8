"""Marks columns of a new Parquet file as variants or geometries, which Arrow's writer cannot say.

Place in the flow: a writer of Parquet writes through :class:`FooterHeld`, so that the end of the file stays in memory,
and gets it back with the marks. Everything before the footer stays as Arrow wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import RawIOBase
from typing import IO, Any, Final, TypeAlias

from thrift.Thrift import TType

from metastore.lake.formats.parquet.thrift_structs import Struct, decode_struct, encode_struct

Mark: TypeAlias = Struct
"""A logical type of Parquet, as the union of its specification."""

_SCHEMA, _FIELD_ID, _LOGICAL, _CONVERTED = 2, 9, 10, 6
_VARIANT, _GEOMETRY, _GEOGRAPHY = 16, 17, 18
_ALGORITHMS: Final = ("spherical", "vincenty", "thomas", "andoyer", "karney")
_DEFAULT_CRS: Final = "OGC:CRS84"
_ENDING: Final = 8
_MAGIC: Final = b"PAR1"


def variant_mark() -> Mark:
    """Returns the mark of a group that is a variant, in version 1 of its specification."""
    return {_VARIANT: (TType.STRUCT, {1: (TType.BYTE, 1)})}


def geometry_mark(crs: str) -> Mark:
    """Returns the mark of a geometry with its coordinate reference system."""
    return {_GEOMETRY: (TType.STRUCT, _crs(crs))}


def geography_mark(crs: str, algorithm: str) -> Mark:
    """Returns the mark of a geography; ``algorithm`` interpolates its edges."""
    number = _ALGORITHMS.index(algorithm.lower())
    return {_GEOGRAPHY: (TType.STRUCT, {**_crs(crs), 2: (TType.I32, number)})}


def _crs(crs: str) -> Struct:
    return {} if crs == _DEFAULT_CRS else {1: (TType.STRING, crs.encode())}


class FooterHeld(RawIOBase):
    """A stream into a new Parquet file that holds back its end, from :meth:`hold` on."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream: Final = stream
        self._held: bytearray | None = None
        self._position = 0

    def writable(self) -> bool:
        """It is written only."""
        return True

    def tell(self) -> int:
        """The number of bytes so far, those held included."""
        return self._position

    def write(self, content: Any) -> int:
        """Write or hold bytes; returns their number."""
        data = bytes(content)
        self._position += len(data)
        if self._held is None:
            self._stream.write(data)
        else:
            self._held += data
        return len(data)

    def hold(self) -> None:
        """Keep what is written from now on: at most the end of the file, as the writer is about to close it."""
        self._held = bytearray()

    def release(self, marks: Mapping[int, Mark]) -> None:
        """Write what was held, with ``marks`` by field id in the footer. Nothing is held if nothing was written."""
        held, self._held = bytes(self._held or b""), None
        if held:
            self._stream.write(_mark_columns(held, marks))


def _mark_columns(end: bytes, marks: Mapping[int, Mark]) -> bytes:
    length = int.from_bytes(end[-_ENDING : -len(_MAGIC)], "little")
    footer = decode_struct(end[-_ENDING - length : -_ENDING])
    for element in footer[_SCHEMA][1][1]:
        mark = marks.get(element.get(_FIELD_ID, (0, None))[1])
        if mark is not None:
            element.pop(_CONVERTED, None)
            element[_LOGICAL] = (TType.STRUCT, mark)
    content = encode_struct(footer)
    return end[: -_ENDING - length] + content + len(content).to_bytes(4, "little") + _MAGIC
