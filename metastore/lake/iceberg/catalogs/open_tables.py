"""A cache of decoded immutable files and small answers from them, by path, limited in bytes.

Manifests, manifest lists and data files never change once written, so the answers of a version do not change either.
Entries are never outdated; the least recently used are dropped first. Threads may share it; two threads that miss at
the same time may both load. A forked child starts with an empty cache.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, cast

from cachetools import LRUCache

from metastore.ground.forks import renew_in_child

V = TypeVar("V")

_ABSENT: Final = object()


class FileCache:
    """Values by path; ``hits`` and ``misses`` count look-ups since its creation."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._begin()
        renew_in_child(self._begin)

    def _begin(self) -> None:
        self._entries: LRUCache[str, tuple[Any, int]] = LRUCache(self.budget_bytes, getsizeof=lambda entry: entry[1])
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    def get(self, path: str, load: Callable[[], V], size_of: Callable[[V], int]) -> V:
        """Return the value of ``path``, loaded on a miss; a value larger than the budget is not cached."""
        found = self.find(path, _ABSENT)
        if found is not _ABSENT:
            return cast("V", found)
        value = load()
        self.put(path, value, size_of(value))
        return value

    def find(self, path: str, absent: object = None) -> object:
        """Return the value of ``path``, or ``absent``; counts as a look-up."""
        with self._lock:
            entry = self._entries.get(path)
            if entry is None:
                self.misses += 1
                return absent
            self.hits += 1
            found: object = entry[0]
            return found

    def holds(self, paths: Iterable[str]) -> bool:
        """Whether all of ``paths`` are cached; does not count as a look-up."""
        with self._lock:
            return all(path in self._entries for path in paths)

    def put(self, path: str, value: object, size: int) -> None:
        """Cache ``value``, which takes about ``size`` bytes of memory."""
        with self._lock:
            if size <= self._entries.maxsize:
                self._entries[path] = (value, size)

    @property
    def size_bytes(self) -> int:
        """Cached bytes, by the given sizes."""
        with self._lock:
            return int(self._entries.currsize)
