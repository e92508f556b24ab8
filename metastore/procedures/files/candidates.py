"""Candidates for deletion, from which needed files are struck.

Place in the flow: a procedure has files that its own table does not need. The proof (:mod:`proof`) goes through
everything else in the configuration, and strikes the files that are needed there. No I/O except the links that
:class:`Spelling` resolves.

Promise: a file is struck in any spelling of its location. Two locations that differ in scheme or bucket count as the
same file, unless it is certain that they are not.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cached_property
from urllib.parse import unquote

from metastore.lake.iceberg.rows.reach_index import Sought
from metastore.lake.stores.local import local_path
from metastore.lake.stores.local_folders import identities, with_those_above
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.spelling import Place, Spelling, surely_apart


class Candidates:
    """The candidates by canonical path. Those that remain may be deleted."""

    def __init__(self, locations: Iterable[str], spelling: Spelling) -> None:
        self.spelling = spelling
        self._left: dict[str, dict[str, Place]] = {}
        self._folders: set[str] = set()
        for location in locations:
            place = spelling.place(location)
            self._left.setdefault(place.path, {})[location] = place
            self._folders.add(location.rpartition("/")[0])
        self._paths = sorted(self._left)

    def __len__(self) -> int:
        return sum(map(len, self._left.values()))

    def __iter__(self) -> Iterator[str]:
        for locations in self._left.values():
            yield from locations

    @cached_property
    def folders(self) -> frozenset[str]:
        """The canonical folders of all original candidates."""
        return frozenset(path.rpartition("/")[0] for path in self._paths)

    def sought(self, *, claimed: bool) -> Sought:
        """Returns where all original candidates lie now. ``claimed``: folders that tables claim count as well."""
        local = {local_path(folder) for folder in self._folders if is_local(folder)}
        real = {os.path.realpath(name) for folder in local if claimed for name in (folder, unquote(folder))}
        return Sought(with_those_above(self.folders), identities(local), identities(with_those_above(real)), claimed)

    def strike(self, location: str) -> int:
        """Strike the file at ``location``. Returns the number of struck candidates."""
        place = self.spelling.place(location)
        return self._strike(place.path, place)

    def strike_below(self, folder: Place) -> int:
        """Strike every file in or below ``folder``. Returns the number of struck candidates."""
        return sum(self._strike(path, folder) for path in self._below(folder.path))

    def _below(self, folder: str) -> Iterator[str]:
        prefix = f"{folder.rstrip('/')}/"
        for at in range(bisect_left(self._paths, prefix), len(self._paths)):
            if not self._paths[at].startswith(prefix):
                return
            if self._paths[at] in self._left:
                yield self._paths[at]

    def _strike(self, path: str, needed: Place) -> int:
        found = self._left.get(path)
        if found is None:
            return 0
        struck = [location for location, place in found.items() if not surely_apart(place, needed)]
        for location in struck:
            del found[location]
        if not found:
            del self._left[path]
        return len(struck)
