"""The reach index: in which folders each table has files, so that few tables are asked whether a file is needed.

Before a file may be deleted, all tables of all catalogs must prove that they do not use it. Metadata files and
manifests never change, so a process reads each once and keeps the folders that it names. A table is read again when its
pointer changes. For the rest, the index finds the tables with files in the folders of the candidates.
On the local disk the names never change, but links do: folders are kept as they are named, never what they lead to.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from metastore.lake.stores.local import local_path
from metastore.lake.stores.local_folders import FolderLinks, Identity, those_of
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.spelling import Spelling

_MOST: Final = 400_000
"""Most folder names kept for manifests, and as many for tables, at about 200 bytes each."""

_FOLDERS: Final = 32
"""Most folders on object stores that are kept for one manifest or table; more are put together by their parents."""

TableKey = tuple[str, str, str]
"""Catalog, schema and name of a table."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Where the files lie that a metadata file names, and all that it leads to.

    ``folders`` are canonical paths on object stores; files lie in or below them. ``local_folders`` are plain paths on
    the local disk, each exactly as the metadata names it.
    """

    folders: frozenset[str] = frozenset()
    local_folders: frozenset[str] = frozenset()

    @classmethod
    def of(cls, parts: Iterable[Reach]) -> Reach:
        """Return the reach of all ``parts`` together."""
        found = list(parts)
        folders = frozenset[str]().union(*(each.folders for each in found))
        return cls(cover(folders), frozenset[str]().union(*(each.local_folders for each in found)))

    def __len__(self) -> int:
        return len(self.folders) + len(self.local_folders)


class NamedFolders:
    """Collects the folders of files that metadata names."""

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._folders: set[str] = set()
        self._local: set[str] = set()

    def add(self, location: str) -> None:
        """Add the folder of the file at ``location``."""
        is_here = is_local(location)
        if is_here:
            self._local.add(local_path(location).rpartition("/")[0])
        if not is_here or "%" in location:  # An escaped name can lead to another folder.
            self._folders.add(self._spelling.path(location).rpartition("/")[0])

    @property
    def reach(self) -> Reach:
        """The reach of the files so far."""
        return Reach(cover(frozenset(self._folders)), frozenset(self._local))


@dataclass(frozen=True, slots=True)
class TableReach:
    """The reach of a table at ``pointer``. ``claims`` are its own folders: canonical paths, and local ones as named."""

    pointer: Hashable
    reach: Reach
    claims: Reach


@dataclass(frozen=True)
class Sought:
    """Where the candidates of a deletion lie.

    ``paths`` are their canonical folders with every folder above; ``local`` are the folders themselves on this disk,
    and ``local_above`` those with every folder above. ``claimed``: a folder that a table claims counts as well.
    """

    paths: Collection[str]
    local: Collection[Identity]
    local_above: Collection[Identity]
    claimed: bool


class ReachIndex:
    """The reach of files and tables of all catalogs; least recently used ones are dropped. Threads may share it."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._links = FolderLinks()
        self._files: OrderedDict[str, Reach] = OrderedDict()
        self._tables: OrderedDict[TableKey, TableReach] = OrderedDict()
        self._sizes = {"files": 0, "tables": 0}
        self._below: dict[str, tuple[TableKey, ...]] = {}
        self._claimed: dict[str, tuple[TableKey, ...]] = {}
        self._local: dict[str, tuple[TableKey, ...]] = {}
        self._claimed_local: dict[str, tuple[TableKey, ...]] = {}

    @contextmanager
    def reading_many(self) -> Iterator[bool]:
        """Within, no other thread reads many tables. Yields whether one did until now: then most of them are known."""
        waited = not self._reading.acquire(blocking=False)
        if waited:
            self._reading.acquire()
        try:
            yield waited
        finally:
            self._reading.release()

    def file(self, location: str) -> Reach | None:
        """Return the reach of a manifest; None if it must be read."""
        with self._lock:
            found = self._files.get(location)
            if found is not None:
                self._files.move_to_end(location)
            return found

    def add_file(self, location: str, reach: Reach) -> None:
        """Keep the reach of a manifest."""
        with self._lock:
            replaced = self._files.pop(location, None)
            self._files[location] = reach
            self._sizes["files"] += 1 + len(reach) - (0 if replaced is None else 1 + len(replaced))
            while self._sizes["files"] > self._most:
                self._sizes["files"] -= 1 + len(self._files.popitem(last=False)[1])

    def add_table(self, table: TableKey, reach: TableReach) -> None:
        """Keep the reach of a table, in place of that at its earlier pointer."""
        with self._lock:
            self._drop(table)
            self._tables[table] = reach
            self._sizes["tables"] += 1 + len(reach.reach) + len(reach.claims)
            for folders, tables in self._reverse(reach):
                for folder in folders:
                    tables[folder] = (*tables.get(folder, ()), table)
            while self._sizes["tables"] > self._most:
                self._drop(next(iter(self._tables)))

    def find_outdated(self, pointers: Mapping[TableKey, Hashable], catalogs: Collection[str]) -> list[TableKey]:
        """Return the tables whose reach at their pointer is not known. Of ``catalogs``, all pointers were listed."""
        with self._lock:
            for table in [each for each in self._tables if each[0] in catalogs and each not in pointers]:
                self._drop(table)
            known = self._tables
            return [
                table
                for table, pointer in pointers.items()
                if (found := known.get(table)) is None or found.pointer != pointer
            ]

    def near(self, sought: Sought) -> set[TableKey]:
        """Return the tables that may need a candidate: all others certainly need none of them."""
        with self._lock:
            found = [self._below.get(path, ()) for path in sought.paths]
            found += [self._local[folder] for folder in self._links.leading_to(self._local, sought.local)]
            if sought.claimed:
                found += [self._claimed.get(path, ()) for path in sought.paths]
                found += [self._claimed_local[folder] for folder in those_of(self._claimed_local, sought.local_above)]
            return {table for tables in found for table in tables}

    def may_touch(self, reach: Reach, sought: Sought) -> bool:
        """Return whether a file of ``reach`` may be a candidate."""
        if not reach.folders.isdisjoint(sought.paths):
            return True
        with self._lock:
            return next(self._links.leading_to(reach.local_folders, sought.local), None) is not None

    def _drop(self, table: TableKey) -> None:
        known = self._tables.pop(table, None)
        if known is None:
            return
        self._sizes["tables"] -= 1 + len(known.reach) + len(known.claims)
        for folders, tables in self._reverse(known):
            for folder in folders:
                if left := tuple(each for each in tables[folder] if each != table):
                    tables[folder] = left
                else:
                    del tables[folder]

    def _reverse(self, reach: TableReach) -> Iterator[tuple[Collection[str], dict[str, tuple[TableKey, ...]]]]:
        yield reach.reach.folders, self._below
        yield reach.reach.local_folders, self._local
        yield reach.claims.folders, self._claimed
        yield reach.claims.local_folders, self._claimed_local


def cover(folders: frozenset[str], most: int = _FOLDERS) -> frozenset[str]:
    """Return at most ``most`` canonical folders, in or below which all ``folders`` are; the deepest are cut first."""
    while len(folders) > most:
        deepest = max(folder.count("/") for folder in folders)
        folders = frozenset(f.rpartition("/")[0] if f.count("/") == deepest else f for f in folders)
    return folders
