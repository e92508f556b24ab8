"""Caches which locations metadata files and manifests refer to; this never changes, because they are immutable.

Before a file may be deleted, the tables of all catalogs must prove that they do not use it. A manifest always names the
same files, so a process reads it once. Later proofs only check whether a candidate is in an area that it refers to.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

_MOST: Final = 200_000
"""Most cached files, at about 300 bytes each."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The reach of a metadata file: all it names is in ``extent`` (a canonical path); None means it names nothing.

    ``folders`` are the folders that a table's metadata claims: its location, and those it writes to.
    """

    extent: str | None
    folders: tuple[str, ...] = ()


class KnownReach:
    """The reach of files by location; least recently used entries are dropped first. Threads may share it."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
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
            self._known[location] = reach
            self._known.move_to_end(location)
            while len(self._known) > self._most:
                self._known.popitem(last=False)


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
