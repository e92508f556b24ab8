"""Files over requests: one that is written whole, and one that is read by ranges.

The FileIOs for object stores and for HDFS give these to PyIceberg and Arrow, and implement the requests. Guarantees:
nothing is sent before a file is closed, and nothing at all if the ``with`` block around it raises an exception.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from types import TracebackType
from typing import Final

WHOLE_BYTES: Final = 8 << 20
"""Data files up to this size are read by one request."""


class CreatedAtClose:
    """A stream whose ``close`` creates the file; until then the name may become somebody else's."""


class WholeFile(CreatedAtClose):
    """Collects written data; on close, ``send`` gets all of it, once, and its errors are raised."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._content = io.BytesIO()

    def write(self, b: bytes) -> int:
        """Buffer ``b``; returns its number of bytes."""
        return self._content.write(b)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._content.tell()

    @property
    def closed(self) -> bool:
        """Whether it is closed; Arrow takes a stream without this attribute for closed."""
        return self._content.closed

    def flush(self) -> None:
        """Do nothing: data is sent on close."""

    def close(self) -> None:
        """Send the file; a second call does nothing."""
        if self._content.closed:
            return
        content = self._content.getvalue()
        self._content.close()
        self._send(content)

    def __enter__(self) -> WholeFile:
        return self

    def __exit__(
        self, exctype: type[BaseException] | None, excinst: BaseException | None, exctb: TracebackType | None
    ) -> None:
        if exctype:
            self._content.close()
        self.close()


class RangedFile(io.RawIOBase):
    """A file of ``size`` bytes that is read by ranges: ``fetch(start, end)`` returns the bytes from start to end.

    ``tail`` is the end of the file, if known already.
    """

    def __init__(self, size: int, fetch: Callable[[int, int], bytes], tail: bytes = b"") -> None:
        super().__init__()
        self._size = size
        self._fetch = fetch
        self._tail = tail
        self._position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set where the next read begins; sends no request."""
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        return self._position

    def tell(self) -> int:
        """Return where the next read begins."""
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes, or all that is left, by one request; none at the end."""
        end = self._size if size < 0 else min(self._size, self._position + size)
        if end <= self._position:
            return b""
        known_from = self._size - len(self._tail)
        if self._position >= known_from:
            got = self._tail[self._position - known_from : end - known_from]
        else:
            got = self._fetch(self._position, min(end, known_from)) + self._tail[: max(0, end - known_from)]
        self._position += len(got)
        return got
