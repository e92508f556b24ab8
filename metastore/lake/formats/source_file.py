"""One data file of a table as its listing found it, and the fingerprint of its state."""

from __future__ import annotations

from typing import NamedTuple


class Fingerprint(NamedTuple):
    """Identifies one state of a file: its size in bytes and its modification time in epoch ns.

    On object stores, the digits of the time below milliseconds are made from the ETag.
    """

    size: int
    mtime_ns: int


class SourceFile(NamedTuple):
    """One data file. ``path`` has the form of the table's location: a plain absolute path, or a URI off the local disk.

    ``directories`` lead from the table to the file; ``name`` is the file's own.
    """

    directories: tuple[str, ...]
    name: str
    path: str
    size: int
    mtime_ns: int

    @property
    def fingerprint(self) -> Fingerprint:
        """Size and modification time."""
        return Fingerprint(self.size, self.mtime_ns)
