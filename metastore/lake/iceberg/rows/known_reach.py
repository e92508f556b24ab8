"""Caches which locations metadata files and manifests refer to; this never changes, because they are immutable.

Before a file may be deleted, the tables of all catalogs must prove that they do not use it. A manifest always names the
same files, so a process reads it once. Later proofs only check whether a candidate is in an area that it refers to.
On the local disk the names never change, but links do: folders are cached as they are named, never what they lead to.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from metastore.lake.stores.local_folders import FolderLinks

_MOST: Final = 400_000
"""Most cached files and folder names of them, at about 150 bytes each."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The reach of a metadata file: what it names is in ``extent`` or in ``local_folders``.

    ``extent`` is a canonical path, ``local_folders`` are plain paths on the local disk as the file names them.
    ``folders`` are the folders that a table's metadata claims: its location, and those it writes to.
    """

    extent: str | None = None
    local_folders: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()


class KnownReach:
    """The reach of files by location; least recently used entries are dropped first. Threads may share it."""

    def __init__(self, most: int = _MOST) -> None:
        self.folder_links = FolderLinks()
        self._most = most
        self._size = 0
        self._known: OrderedDict[str, Reach] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, location: str) -> Reach | None:
        """Return the reach of the file; None if it must be read."""
        with self._lock:
            found = self._known.get(location)
            if found is not None:
                self._known.move_to_end(location)
            return found

    def remember(self, location: str, reach: Reach) -> None:
        """Store the reach of a file."""
        with self._lock:
            replaced = self._known.pop(location, None)
            self._size += _size(reach) - (0 if replaced is None else _size(replaced))
            self._known[location] = reach
            while self._size > self._most:
                self._size -= _size(self._known.popitem(last=False)[1])


def _size(reach: Reach) -> int:
    return 1 + len(reach.local_folders)


def common(one: str | None, other: str | None) -> str | None:
    """Return the deepest folder that contains both canonical folders; None means no folder."""
    if one is None or other is None:
        return one if other is None else other
    steps = []
    for left, right in zip(one.split("/"), other.split("/"), strict=False):
        if left != right:
            break
        steps.append(left)
    return "/".join(steps)
