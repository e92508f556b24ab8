"""One data file of a table as its listing found it, the fingerprint of its state, and the suffixes of its name."""

from __future__ import annotations

from typing import Final, NamedTuple

_COMPRESSIONS: Final = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}


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


def suffix_of(name: str) -> str:
    """Returns a file name's suffix in lower case, ignoring a compression suffix; empty for none."""
    stem, _, suffix = name.lower().rpartition(".")
    if stem and suffix in _COMPRESSIONS:
        stem, _, suffix = stem.rpartition(".")
    return suffix if stem else ""


def compression_of_suffix(name: str) -> str | None:
    """Returns Arrow's name of a text file's compression, by the suffix of its name in any case.

    Returns None for no compression.
    """
    return _COMPRESSIONS.get(name.lower().rpartition(".")[2])
