"""What files of metadata are known to reach: remembered, since neither a metadata file nor a manifest ever changes.

Place in the flow: the proof that a file may be deleted goes through the tables of all catalogs. What a manifest named
once it names for ever, so a process reads it once, and later proofs ask only whether a candidate lies where it points.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

_MOST: Final = 200_000
"""Files of metadata that are remembered, at about 300 bytes each."""


@dataclass(frozen=True, slots=True)
class Reach:
    """All that a file of metadata names lies in or below ``extent``, a canonical path; None: it names nothing.

    ``folders`` are those that a table's metadata claims: its location, and where it writes.
    """

    extent: str | None
    folders: tuple[str, ...] = ()


class KnownReach:
    """The reach of files by location; what was not asked for lately is forgotten first. Shared by threads."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._known: OrderedDict[str, Reach] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, location: str) -> Reach | None:
        """What is known of the file; None: it must be read."""
        with self._lock:
            found = self._known.get(location)
            if found is not None:
                self._known.move_to_end(location)
            return found

    def remember(self, location: str, reach: Reach) -> None:
        """Keep what was found."""
        with self._lock:
            self._known[location] = reach
            self._known.move_to_end(location)
            while len(self._known) > self._most:
                self._known.popitem(last=False)


def common(one: str | None, other: str | None) -> str | None:
    """The deepest folder that holds both canonical paths of folders; None stands for no folder at all."""
    if one is None or other is None:
        return one if other is None else other
    steps = []
    for left, right in zip(one.split("/"), other.split("/"), strict=False):
        if left != right:
            break
        steps.append(left)
    return "/".join(steps)
