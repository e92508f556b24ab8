"""Decoded immutable files, kept by path within a budget of bytes.

Manifests, manifest lists and data files never change once written, so an entry is never wrong, only dropped: least
recently used first. Safe across threads; a value may be loaded twice by two threads that miss at the same time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from cachetools import LRUCache

V = TypeVar("V")


class FileCache:
    """Values by path; ``hits`` and ``misses`` count look-ups since the cache was made."""

    def __init__(self, budget_bytes: int) -> None:
        self._entries: LRUCache[str, tuple[Any, int]] = LRUCache(budget_bytes, getsizeof=lambda entry: entry[1])
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    def get(self, path: str, load: Callable[[], V], size_of: Callable[[V], int]) -> V:
        """The value of ``path``, loaded on a miss; a value larger than the budget is returned and not kept."""
        with self._lock:
            entry = self._entries.get(path)
            if entry is not None:
                self.hits += 1
                value: V = entry[0]
                return value
            self.misses += 1
        value = load()
        self.put(path, value, size_of(value))
        return value

    def holds(self, paths: Iterable[str]) -> bool:
        """Whether all of ``paths`` are here now; counts as no look-up."""
        with self._lock:
            return all(path in self._entries for path in paths)

    def put(self, path: str, value: object, size: int) -> None:
        """Keep ``value``, which takes about ``size`` bytes of memory."""
        with self._lock:
            if size <= self._entries.maxsize:
                self._entries[path] = (value, size)

    @property
    def size_bytes(self) -> int:
        """Bytes held now, by the sizes that were given."""
        with self._lock:
            return int(self._entries.currsize)
