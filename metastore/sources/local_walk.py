"""Walks the local disk below a directory: every file and directory once, even if links lead back to parent folders.

Arrow's own listing follows a link to a parent folder until the system refuses, forty levels deep; with two such links,
it visits every combination. Links to other places are followed, because a table may consist of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from errno import ELOOP

Entry = tuple[str, str, "int | None", "int | None"]
"""Path, name, size in bytes (None for a directory), time of modification in epoch nanoseconds (None if not known).

A plain tuple, since to make an object of each file costs as much as to ask the disk about it.
"""


def walk(root: str, descends: Callable[[str, str], bool], within: Sequence[str] | None = None) -> Iterator[Entry]:
    """Yields all entries below ``root``; directories that ``descends`` refuses are yielded, but not descended into.

    ``descends`` gets a directory's path and name. With ``within``, names of directories directly below ``root``, yields
    only what lies below these; one that is gone is empty. Raises OSError for a directory that cannot be listed,
    UnicodeDecodeError for a name that is not UTF-8.
    """
    whole: list[tuple[str, tuple[str, ...]]] = [(root, (os.path.realpath(root),))]
    pending = whole if within is None else _below(root, within)
    while pending:
        folder, entered = pending.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                path, name = entry.path, entry.name
                if not name.isascii():
                    os.fsencode(path).decode()
                try:
                    is_directory, stat = entry.is_dir(), entry.stat()
                except OSError as error:
                    if _leads_nowhere(error):
                        continue
                    raise
                if not is_directory:
                    yield path, name, stat.st_size, stat.st_mtime_ns
                    continue
                inside = entered
                if entry.is_symlink():
                    inside = (*entered, os.path.realpath(folder), os.path.realpath(path))
                    if any(_is_at_or_above(inside[-1], place) for place in inside[:-1]):
                        continue
                yield path, name, None, stat.st_mtime_ns
                if descends(path, name):
                    pending.append((path, inside))


def _below(root: str, names: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Returns the existing directories ``names`` of ``root``, each with the places that links must not lead back to."""
    entered = (os.path.realpath(root),)
    paths = [path for path in (os.path.join(root, name) for name in names) if os.path.isdir(path)]
    return [(path, (*entered, *entered, os.path.realpath(path)) if os.path.islink(path) else entered) for path in paths]


def _leads_nowhere(error: OSError) -> bool:
    """Whether a link is broken or refers to itself, or the entry no longer exists."""
    return isinstance(error, FileNotFoundError) or error.errno == ELOOP


def _is_at_or_above(folder: str, place: str) -> bool:
    return place == folder or place.startswith(folder.rstrip("/") + "/")
