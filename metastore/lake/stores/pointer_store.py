"""The operations that a table's pointer needs from a store: small files by location, created by only one writer.

Commits depend on :meth:`PointerStore.create_if_absent`. Its answers are certain. StorageError is certain too: the
store is unchanged. An OSError leaves open whether the file exists.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from metastore.lake.stores import local
from metastore.lake.stores.local import local_path

POINTER_BYTES: Final = 1 << 20
"""Hints and leases are read up to this size, far more than a pointer needs."""


@dataclass(frozen=True)
class Entries:
    """Names directly below a folder."""

    files: frozenset[str]
    folders: frozenset[str]


@dataclass(frozen=True)
class CreatedFile:
    """A file that was created; ``identity`` is None if the store did not return it with its answer."""

    identity: Hashable | None = None


class PointerStore(Protocol):
    """A store that can hold pointers; errors other than those named are OSErrors."""

    def identities(self, locations: Sequence[str]) -> list[Hashable | None]:
        """Return an identity for each file that no other file of the same name has; None if there is no file.

        Where requests have latency, they are sent concurrently.
        """

    def identities_in(self, folder: str, names: Sequence[str]) -> list[Hashable | None]:
        """Return the same for the files ``names`` directly below ``folder``, with as few requests as possible.

        The result is only as fresh as the store's listings; decisions about a commit use :meth:`identities`.
        """

    def read(self, location: str, most: int = POINTER_BYTES) -> bytes:
        """Return the whole file; of a larger one, only a beginning of more than ``most`` bytes.

        Raises FileNotFoundError.
        """

    def prepare(self, location: str) -> None:
        """Check ahead what :meth:`create_if_absent` depends on, and would check itself. Raises its errors."""

    def create_if_absent(self, location: str, content: bytes) -> CreatedFile | None:
        """Atomically create the file; returns None, without a change, if the name is taken.

        Raises StorageError if the file was certainly not created, or if the store cannot guarantee this. An OSError
        leaves open whether the file exists. Several writers of equal content may all have created it: there is one
        file.
        """

    def replace(self, location: str, content: bytes) -> None:
        """Write over an existing file; readers see the old content or the new, never a mixture."""

    def remove(self, location: str) -> None:
        """Delete the file. Raises FileNotFoundError if it does not exist, on stores that report that."""

    def move(self, source: str, target: str) -> None:
        """Rename ``source`` to ``target`` and create its folder; the file is always complete under one of both names.

        Raises FileExistsError if the target exists, and FileNotFoundError.
        """

    def entries(self, folder: str) -> Entries:
        """List what is directly below ``folder``. Raises FileNotFoundError if there is no such folder."""

    def files_after(self, folder: str, name: str) -> Mapping[str, Hashable | None]:
        """Return files directly below ``folder`` whose names sort after ``name``; none if there is no folder.

        Each name has its identity, or None if the store's listings do not contain it. Stores that can begin a listing
        at a name skip the others.
        """

    def make_folder(self, folder: str) -> None:
        """Create the folder and its parents. :meth:`create_if_absent` does so, too, for the folder of its file."""

    def remove_folder(self, folder: str) -> None:
        """Remove an empty folder. Raises OSError if it is not empty."""


class LocalPointers:
    """The local disk, by plain path or ``file:`` URI; see :mod:`metastore.lake.stores.local` for its guarantees."""

    def identities(self, locations: Sequence[str]) -> list[Hashable | None]:
        """Return inodes and modification times."""
        return [_identity(local_path(location)) for location in locations]

    def identities_in(self, folder: str, names: Sequence[str]) -> list[Hashable | None]:
        """As :meth:`identities`: looking at a file is cheap."""
        return self.identities([f"{folder}/{name}" for name in names])

    def read(self, location: str, most: int = POINTER_BYTES) -> bytes:
        """Read by one system call."""
        with open(local_path(location), "rb") as stream:
            return stream.read(most + 1)

    def prepare(self, location: str) -> None:
        """Do nothing: the file system keeps the promise."""

    def create_if_absent(self, location: str, content: bytes) -> CreatedFile | None:
        """Create by hard link."""
        return CreatedFile() if local.create_if_absent(location, content) else None

    def replace(self, location: str, content: bytes) -> None:
        """Replace by rename."""
        local.replace(location, content)

    def remove(self, location: str) -> None:
        """Also removes Hadoop's checksum of it."""
        local.remove(location)

    def move(self, source: str, target: str) -> None:
        """Create a hard link, and remove the old name."""
        local.make_folder(os.path.dirname(local_path(target)))
        os.link(local_path(source), local_path(target))
        local.make_durable([target])
        local.remove(source)

    def entries(self, folder: str) -> Entries:
        """Return files and folders on disk; links to folders count as folders."""
        with os.scandir(local_path(folder)) as found:
            folders = {entry.name: entry.is_dir() for entry in found}
        below = frozenset(name for name, is_folder in folders.items() if is_folder)
        return Entries(frozenset(folders) - below, below)

    def files_after(self, folder: str, name: str) -> Mapping[str, Hashable | None]:
        """List the folder, without identities."""
        try:
            with os.scandir(local_path(folder)) as found:
                return dict.fromkeys(entry.name for entry in found if entry.name > name and not entry.is_dir())
        except FileNotFoundError:
            return {}

    def make_folder(self, folder: str) -> None:
        """No error if it exists."""
        local.make_folder(folder)

    def remove_folder(self, folder: str) -> None:
        """Also fails if it does not exist."""
        os.rmdir(local_path(folder))


def _identity(path: str) -> Hashable | None:
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_ino, status.st_mtime_ns


LOCAL_POINTERS: Final = LocalPointers()
