"""A Parquet file whose footer Arrow refuses, with another footer at its end: for whoever reads its rows by Arrow.

Place in the flow: scans and ANALYZE read a file as it is, and come here when Arrow has refused it.
Promise: the bytes of column chunks are those of the file, read when they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from typing import Any, Final, NamedTuple

import pyarrow as pa

from metastore.formats.parquet_footer import read_footer

_LENGTH, _MAGIC = 4, b"PAR1"


class AcceptedFile(NamedTuple):
    """A file as Arrow accepts it, and the columns that must not be read, each with the reason."""

    content: pa.NativeFile
    unread: Mapping[str, str]


def accepted_file(source: pa.NativeFile) -> AcceptedFile | None:
    """``source`` with a footer that Arrow accepts; None where it accepts the file's own.

    Raises pyarrow's errors and OSError where the footer is refused for anything else.
    """
    footer = read_footer(source)
    if footer.accepted is None:
        return None
    end = source.size() - len(footer.content) - _LENGTH - len(_MAGIC)
    content = footer.accepted.content
    ending = content + len(content).to_bytes(_LENGTH, "little") + _MAGIC
    return AcceptedFile(pa.PythonFile(_WithEnding(source, end, ending), mode="r"), footer.accepted.unread)


class _WithEnding(RawIOBase):
    """The first bytes of a file, and then others."""

    def __init__(self, source: Any, end: int, ending: bytes) -> None:
        self._source: Final = source
        self._end: Final = end
        self._ending: Final = ending
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        origin = {SEEK_SET: 0, SEEK_CUR: self._position, SEEK_END: self._end + len(self._ending)}[whence]
        self._position = origin + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        found = b""
        if self._position < self._end:
            self._source.seek(self._position)
            found = self._source.read(min(len(view), self._end - self._position))
        if self._position + len(found) >= self._end:  # Arrow takes what is short for the end of the file
            start = self._position + len(found) - self._end
            found += self._ending[start : start + len(view) - len(found)]
        view[: len(found)] = found
        self._position += len(found)
        return len(found)

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()
