"""Checks whether a file is below a folder, or below one of the roots of a deletion, however its location is spelled.

Metadata lists a table's files, but metadata can be damaged or forged. Deletions check here first, so that no foreign
file is deleted. On the local disk, links are followed and their targets count. On an object store keys are compared as
they are; only the scheme has several spellings.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import unquote

from metastore.errors import MetastoreError
from metastore.lake.stores.local import local_path
from metastore.lake.stores.locations import StoreLocation, is_known, is_local


@dataclass(frozen=True)
class ContainingFolder:
    """The folder ``root``. Facts about local folders are cached: links are not expected to change."""

    root: str
    _known: dict[str, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    def holds(self, location: str) -> bool:
        """Whether ``location`` is a file below the root; False if it cannot be parsed."""
        if is_local(self.root) != is_local(location):
            return False
        try:
            return self._holds_local(location) if is_local(location) else self._holds_remote(location)
        except (MetastoreError, ValueError):
            return False

    def _holds_local(self, location: str) -> bool:
        folder, name = os.path.split(local_path(location))
        if name in ("", ".", ".."):
            return False
        if folder not in self._known:
            self._known[folder] = os.path.join(os.path.realpath(folder), "").startswith(self._real_root)
        return self._known[folder]

    @cached_property
    def _real_root(self) -> str:
        return os.path.join(os.path.realpath(local_path(self.root)), "")

    def _holds_remote(self, location: str) -> bool:
        store, key = _store_and_key(location)
        root_store, root_key = _store_and_key(self.root)
        if store != root_store:
            return False
        prefix = root_key.strip("/")
        return key.strip("/").startswith(f"{prefix}/" if prefix else "")


def _store_and_key(location: str) -> tuple[tuple[str, str], str]:
    """Return kind and authority of the store, and the key. A store that only PyIceberg knows has its scheme as kind."""
    scheme, _, rest = location.partition("://")
    if is_known(scheme):
        place = StoreLocation.parse(location)
        return (place.kind, place.authority), place.key
    authority, _, key = rest.partition("/")
    return (scheme, authority), key


@dataclass(frozen=True)
class Roots:
    """The folders that the operator gave: only below them may one run delete files."""

    folders: tuple[str, ...]

    def hold(self, location: str) -> bool:
        """Whether ``location`` is a file below one of the folders.

        A remote location with a step ``..`` is not: some clients follow it, and to others it is part of the name.
        """
        if not is_local(location) and ".." in unquote(location).split("/"):
            return False
        return any(place.holds(location) for place in self._places)

    def hold_folder(self, folder: str) -> bool:
        """Whether all files in ``folder`` are below one of the folders."""
        return self.hold(f"{folder.rstrip('/')}/_")

    @cached_property
    def _places(self) -> tuple[ContainingFolder, ...]:
        return tuple(map(ContainingFolder, self.folders))
