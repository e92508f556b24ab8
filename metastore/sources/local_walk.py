"""The local disk below a directory: every file and directory once, however links lead back to folders above.

Arrow's own listing follows a link to a folder above until the system refuses, forty times deep, and of two such links
every combination. Links to other places are followed, as a table may be put together of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from errno import ELOOP
from typing import NamedTuple

from pyarrow import fs

_FILE, _DIRECTORY = fs.FileType.File, fs.FileType.Directory


class Entry(NamedTuple):
    """A file or a directory, with what is asked of Arrow's ``FileInfo``; ``size`` is None for a directory."""

    path: str
    base_name: str
    size: int | None
    mtime_ns: int
    type: fs.FileType


def walk(root: str, descends: Callable[[Entry], bool]) -> Iterator[Entry]:
    """All that lies below ``root``; directories that ``descends`` refuses are yielded, and not looked into.

    Raises OSError for a directory that cannot be listed, UnicodeDecodeError for a name that is no UTF-8.
    """
    pending: list[tuple[str, tuple[str, ...]]] = [(root, (os.path.realpath(root),))]
    while pending:
        folder, entered = pending.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if not name.isascii():
                    os.fsencode(entry.path).decode()
                try:
                    is_directory, stat = entry.is_dir(), entry.stat()
                except OSError as error:
                    if _leads_nowhere(error):
                        continue
                    raise
                if not is_directory:
                    yield Entry(entry.path, name, stat.st_size, stat.st_mtime_ns, _FILE)
                    continue
                inside = entered
                if entry.is_symlink():
                    inside = (*entered, os.path.realpath(folder), os.path.realpath(entry.path))
                    if any(_is_at_or_above(inside[-1], place) for place in inside[:-1]):
                        continue
                found = Entry(entry.path, name, None, stat.st_mtime_ns, _DIRECTORY)
                yield found
                if descends(found):
                    pending.append((entry.path, inside))


def _leads_nowhere(error: OSError) -> bool:
    """Whether it is a link to nothing or to itself, or what has gone since."""
    return isinstance(error, FileNotFoundError) or error.errno == ELOOP


def _is_at_or_above(folder: str, place: str) -> bool:
    return place == folder or place.startswith(folder.rstrip("/") + "/")
