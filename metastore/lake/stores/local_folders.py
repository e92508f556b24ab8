"""Folders of the local disk, compared by what they are: a name can lead elsewhere tomorrow, through a link.

Place in the flow: :mod:`metastore.lake.iceberg.rows.reach_index` keeps which folders a metadata file names, since the
file never changes. What the names lead to does change: somebody moves a folder to another disk and leaves a link, or
puts a link in place of a file. So each proof that files may be deleted asks anew, by device and inode.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Final
from urllib.parse import unquote

from metastore.lake.stores.local import local_path
from metastore.lake.stores.locations import is_local

Identity = tuple[int, int]
"""Device and inode."""

_MOST: Final = 200_000


def with_link_target(location: str) -> tuple[str, ...]:
    """Returns the location and, if it is a symbolic link on the local disk, what it leads to: both are needed."""
    if is_local(location) and os.path.islink(path := local_path(location)):
        return location, os.path.realpath(path)
    return (location,)


def identities(folders: Iterable[str]) -> frozenset[Identity]:
    """Returns what the plain paths ``folders`` lead to now, without those that do not exist."""
    return frozenset((state.st_dev, state.st_ino) for folder in folders for _, state in _spellings(folder))


def those_of(folders: Iterable[str], identities: Collection[Identity]) -> Iterator[str]:
    """Yields those of the plain paths ``folders`` that lead to a folder of ``identities`` now."""
    for folder in folders if identities else ():
        if any((state.st_dev, state.st_ino) in identities for _, state in _spellings(folder)):
            yield folder


def with_those_above(folders: Iterable[str]) -> frozenset[str]:
    """Returns ``folders`` with every folder above each of them, to the root, which is empty."""
    found: set[str] = set()
    for folder in folders:
        above = folder.rstrip("/")
        while above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return frozenset(found)


class FolderLinks:
    """Knows which folders have links in them, until their time of modification changes. Not for threads to share."""

    def __init__(self) -> None:
        self._known: dict[Identity, tuple[int, bool]] = {}

    def leading_to(self, folders: Iterable[str], identities: Collection[Identity]) -> Iterator[str]:
        """Yields those of ``folders`` in which a named file may lie in a folder of ``identities``.

        Also yields a folder that has links in it, and one that is not there: somebody may have moved it.
        """
        for folder in folders if identities else ():
            states = list(_spellings(folder))
            if not states or any(
                (state.st_dev, state.st_ino) in identities or self._has_links(path, state) for path, state in states
            ):
                yield folder

    def _has_links(self, path: str, state: os.stat_result) -> bool:
        identity = state.st_dev, state.st_ino
        modified, has_links = self._known.get(identity, (None, True))
        if modified != state.st_mtime_ns:
            try:
                with os.scandir(path) as entries:
                    has_links = any(entry.is_symlink() for entry in entries)
            except OSError:
                return True
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[identity] = state.st_mtime_ns, has_links
        return has_links


def _spellings(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yields the folders that the name can mean: as it is, and without escapes."""
    for path in (folder, unquote(folder)) if "%" in folder else (folder,):
        with suppress(OSError, ValueError):
            yield path, os.stat(path or "/")
