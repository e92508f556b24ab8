"""Deletes files of the local disk by descriptor: only below given roots, and only files that are still the listed ones.

A path can change its meaning between the listing and the deletion: a folder is replaced by a link, or a name gets
another file. So each folder is opened step by step from its root, and no step follows a link. Device and inode of the
file are compared with those of the listing before its name is removed from the opened folder.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from metastore.errors import StorageError
from metastore.lake.stores.local import local_path
from metastore.lake.stores.locations import is_local

_MACHINE: Final = os.uname().nodename
_LINKS: Final = (errno.ELOOP, errno.ENOTDIR)
_MOST_OPEN: Final = 64
_FOLDER: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


def identity_of(status: os.stat_result) -> str:
    """Return a text that is the same for one file on one machine: machine, device and inode."""
    return f"{_MACHINE}:{status.st_dev}:{status.st_ino}"


def identities(locations: Iterable[str]) -> dict[str, str]:
    """Return the identities of the files at those ``locations`` that are on the local disk and exist now."""
    found: dict[str, str] = {}
    for location in filter(is_local, locations):
        with suppress(OSError, ValueError, StorageError):
            found[location] = identity_of(os.lstat(local_path(location)))
    return found


def is_same(listed: str, status: os.stat_result) -> bool:
    """Whether ``status`` is of the file with the identity ``listed``.

    Machines number the devices of a network disk differently, so only the inode counts if another one listed it.
    """
    machine, device, inode = listed.rsplit(":", 2)
    return inode == str(status.st_ino) and (machine != _MACHINE or device == str(status.st_dev))


def _leads_to_file(link: str, folder: int) -> bool:
    """Whether the ``link`` in the opened ``folder`` leads to a file that exists."""
    try:
        return stat.S_ISREG(os.stat(link, dir_fd=folder).st_mode)
    except OSError:
        return False


class OpenedFolders:
    """Removes files below ``roots``, local folders that links may lead to; each folder is opened once. A context."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = [os.path.realpath(local_path(root)) for root in roots]
        self._folders: dict[str, int] = {}

    def __enter__(self) -> OpenedFolders:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def remove(self, path: str, identity: str | None) -> None:
        """Remove the name ``path``, and the checksum that Hadoop keeps beside it.

        Raises StorageError if it is not below a root, a folder has become a link, the file is not the one with
        ``identity``, or it is a link to a folder or to nothing: what it led to may come back, and files are named
        through it. Then nothing is deleted. FileNotFoundError and other OSErrors are those of the disk.
        """
        folder, name = os.path.split(path)
        opened = self._folder(folder)
        status = os.lstat(name, dir_fd=opened)
        if stat.S_ISDIR(status.st_mode) or (identity is not None and not is_same(identity, status)):
            raise StorageError(f"kept: another file has the name {path} since it was listed")
        if stat.S_ISLNK(status.st_mode) and not _leads_to_file(name, opened):
            raise StorageError(f"kept: {path} is a link to no file; files may be named through it")
        os.unlink(name, dir_fd=opened)
        with suppress(FileNotFoundError):
            os.unlink(f".{name}.crc", dir_fd=opened)

    def remove_tree(self, path: str) -> None:
        """Remove the folder ``path`` with all of its content; links in it are removed, and not followed.

        ``path`` is absolute and normal. Raises StorageError if a step to it is a link or it is no folder, and
        FileNotFoundError if there is none. Other OSErrors are those of the disk.
        """
        folder, name = os.path.split(path)
        if (real := os.path.realpath(folder)) != folder:
            raise StorageError(f"kept: {folder} leads to {real}")
        above = self._folder(folder)
        if not stat.S_ISDIR(os.lstat(name, dir_fd=above).st_mode):
            raise StorageError(f"kept: {path} is no folder")
        for _, folders, files, opened in os.fwalk(name, topdown=False, follow_symlinks=False, dir_fd=above):
            for each in files:
                os.unlink(each, dir_fd=opened)
            for each in folders:
                is_link = stat.S_ISLNK(os.lstat(each, dir_fd=opened).st_mode)
                (os.unlink if is_link else os.rmdir)(each, dir_fd=opened)
        os.rmdir(name, dir_fd=above)

    def _folder(self, folder: str) -> int:
        if folder not in self._folders:
            if len(self._folders) >= _MOST_OPEN:
                self._close()
            self._folders[folder] = self._open(folder)
        return self._folders[folder]

    def _open(self, folder: str) -> int:
        """A descriptor of ``folder``, opened from its root without following a link. StorageError outside the roots."""
        real = os.path.realpath(folder)
        root = next((root for root in self._roots if os.path.join(real, "").startswith(os.path.join(root, ""))), None)
        if root is None:
            raise StorageError(f"kept: {folder} leads to {real}, outside of the places where deletion is allowed")
        opened = os.open(root, _FOLDER)
        for step in os.path.relpath(real, root).split("/"):
            above = opened
            try:
                opened = os.open(step, _FOLDER, dir_fd=above)
            except OSError as error:
                if error.errno in _LINKS:
                    raise StorageError(f"kept: {folder} has become a link since it was looked at") from error
                raise
            finally:
                os.close(above)
        return opened

    def _close(self) -> None:
        for opened in self._folders.values():
            os.close(opened)
        self._folders.clear()
