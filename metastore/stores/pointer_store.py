"""What a table's pointer asks of a store: small files by location, one of them created by one writer only.

A commit stands on :meth:`PointerStore.create_if_absent`. Its outcomes are told apart with care: True and False are
certain, StorageError is certain too (the store is as it was), and an OSError leaves open whether the file is there.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from metastore.stores import local
from metastore.stores.local import local_path

POINTER_BYTES: Final = 1 << 20
"""Far more than a pointer has: hints and leases are read up to this size."""


@dataclass(frozen=True)
class Entries:
    """Names directly below a folder."""

    files: frozenset[str]
    folders: frozenset[str]


class PointerStore(Protocol):
    """A store that can hold pointers; errors other than those named are OSErrors."""

    def identities(self, locations: Sequence[str]) -> list[Hashable | None]:
        """What tells each file from any other that had its name or will have it; None where there is no file.

        All are asked for at the same time, where asking takes long.
        """

    def identities_in(self, folder: str, names: Sequence[str]) -> list[Hashable | None]:
        """The same of the files ``names`` directly below ``folder``, by as few requests as the store has for it.

        Only as fresh as the store's listings: what decides a commit asks :meth:`identities`.
        """

    def read(self, location: str, most: int = POINTER_BYTES) -> bytes:
        """The whole file, or the first bytes of one that has more than ``most``: more than ``most`` of them.

        Raises FileNotFoundError.
        """

    def create_if_absent(self, location: str, content: bytes) -> bool:
        """Atomically create the file; False, and no change, when the name is taken.

        Raises StorageError when the file certainly was not created, and when the store cannot promise this; an OSError
        leaves open whether the file is there. Writers of equal content may all be told True: there is one file.
        """

    def replace(self, location: str, content: bytes) -> None:
        """Write over whatever stands there; readers see the old content or the new, never a mixture."""

    def remove(self, location: str) -> None:
        """Delete the file. Raises FileNotFoundError when it is gone already, on stores that tell."""

    def move(self, source: str, target: str) -> None:
        """Give the file ``source`` the name ``target``, in a folder that is made; the file is whole under one of both.

        Raises FileExistsError when the target stands, and FileNotFoundError.
        """

    def entries(self, folder: str) -> Entries:
        """What is directly below ``folder``. Raises FileNotFoundError when there is no such folder."""

    def names_after(self, folder: str, name: str) -> frozenset[str]:
        """Names of the files directly below ``folder`` that sort after ``name``; none where there is no such folder.

        Where the store can skip the others, they are not listed.
        """

    def make_folder(self, folder: str) -> None:
        """Make the folder and those above it, where a store has folders without files."""

    def remove_folder(self, folder: str) -> None:
        """Remove an empty folder. Raises OSError when it is not empty."""


class LocalPointers:
    """The local disk, by plain path or ``file:`` URI; see :mod:`metastore.stores.local` for its guarantees."""

    def identities(self, locations: Sequence[str]) -> list[Hashable | None]:
        """Inodes and modification times."""
        return [_identity(local_path(location)) for location in locations]

    def identities_in(self, folder: str, names: Sequence[str]) -> list[Hashable | None]:
        """As :meth:`identities`: looking at a file is cheap."""
        return self.identities([f"{folder}/{name}" for name in names])

    def read(self, location: str, most: int = POINTER_BYTES) -> bytes:
        """One read."""
        with open(local_path(location), "rb") as stream:
            return stream.read(most + 1)

    def create_if_absent(self, location: str, content: bytes) -> bool:
        """By hard link."""
        return local.create_if_absent(location, content)

    def replace(self, location: str, content: bytes) -> None:
        """By rename."""
        local.replace(location, content)

    def remove(self, location: str) -> None:
        """With Hadoop's checksum of it."""
        local.remove(location)

    def move(self, source: str, target: str) -> None:
        """By hard link, and removal of the old name."""
        local.make_folder(os.path.dirname(local_path(target)))
        os.link(local_path(source), local_path(target))
        local.make_durable([target])
        local.remove(source)

    def entries(self, folder: str) -> Entries:
        """Files and folders as the disk has them; links to folders are folders."""
        with os.scandir(local_path(folder)) as found:
            folders = {entry.name: entry.is_dir() for entry in found}
        below = frozenset(name for name, is_folder in folders.items() if is_folder)
        return Entries(frozenset(folders) - below, below)

    def names_after(self, folder: str, name: str) -> frozenset[str]:
        """By listing the folder."""
        try:
            with os.scandir(local_path(folder)) as found:
                return frozenset(entry.name for entry in found if entry.name > name and not entry.is_dir())
        except FileNotFoundError:
            return frozenset()

    def make_folder(self, folder: str) -> None:
        """No error when it stands."""
        local.make_folder(folder)

    def remove_folder(self, folder: str) -> None:
        """Also fails when there is none."""
        os.rmdir(local_path(folder))


def _identity(path: str) -> Hashable | None:
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_ino, status.st_mtime_ns


LOCAL_POINTERS: Final = LocalPointers()
