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
                if not entry.name.isascii():
                    os.fsencode(entry.path).decode()
                found = _entry(entry)
                if found is None:
                    continue
                if found.size is not None:
                    yield found
                    continue
                inside = entered
                if entry.is_symlink():
                    inside = (*entered, os.path.realpath(folder), os.path.realpath(entry.path))
                    if any(_is_at_or_above(inside[-1], place) for place in inside[:-1]):
                        continue
                yield found
                if descends(found):
                    pending.append((entry.path, inside))


def _entry(entry: os.DirEntry[str]) -> Entry | None:
    """What an entry is; None for a link to nothing, and for what has gone since."""
    try:
        is_directory = entry.is_dir()
        stat = entry.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == ELOOP:
            return None
        raise
    if is_directory:
        return Entry(entry.path, entry.name, None, stat.st_mtime_ns, _DIRECTORY)
    return Entry(entry.path, entry.name, stat.st_size, stat.st_mtime_ns, _FILE)


def _is_at_or_above(folder: str, place: str) -> bool:
    return place == folder or place.startswith(folder.rstrip("/") + "/")
