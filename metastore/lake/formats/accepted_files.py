"""A Parquet file whose footer Arrow refuses, presented with a changed footer, so that Arrow can read its rows.

Place in the flow: scans and ANALYZE first read a file as it is, and come here if Arrow refuses it. Promise: the bytes
of column chunks are the file's own, and are read on demand.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from typing import Any, Final, NamedTuple

import pyarrow as pa

from metastore.lake.formats.parquet.parquet_footer import read_footer

_LENGTH, _MAGIC = 4, b"PAR1"


class AcceptedFile(NamedTuple):
    """A file as Arrow accepts it, and the columns that must not be read, each with the reason."""

    content: pa.NativeFile
    unread: Mapping[str, str]


def accepted_file(source: pa.NativeFile) -> AcceptedFile | None:
    """Returns ``source`` with a footer that Arrow accepts; None if Arrow accepts the file's own footer.

    Raises pyarrow's errors and OSError if the footer is refused for another reason.
    """
    footer = read_footer(source)
    if footer.accepted is None:
        return None
    end = source.size() - len(footer.content) - _LENGTH - len(_MAGIC)
    content = footer.accepted.content
    ending = content + len(content).to_bytes(_LENGTH, "little") + _MAGIC
    return AcceptedFile(pa.PythonFile(_WithEnding(source, end, ending), mode="r"), footer.accepted.unread)


class _WithEnding(RawIOBase):
    """A file that consists of the first bytes of another file, followed by given bytes."""

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
        if self._position + len(found) >= self._end:  # Arrow takes a short read for the end of the file
            start = self._position + len(found) - self._end
            found += self._ending[start : start + len(view) - len(found)]
        view[: len(found)] = found
        self._position += len(found)
        return len(found)

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()
