"""Pointers on HDFS. The commit is a rename that the namenode refuses when the name is taken, as Hadoop tables have it.

The content is written under a name of its own first. A rename whose answer was lost is certain in the end: it needs
that file, so once the file is removed it cannot happen any more, and the target tells whether it did; where the file is
gone already, the rename took it.
"""

from __future__ import annotations

import errno
import time
import uuid
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from metastore.errors import StorageError
from metastore.stores.pointer_store import POINTER_BYTES, Entries
from metastore.stores.webhdfs import Clusters, NotDone, WebHdfs

_PAUSES_S: Final = (0.1, 0.4, 1.6)
"""Waits between renames of unknown outcome."""


class HdfsPointers:
    """Pointers on ``clusters``; ``pause`` waits between tries. Safe to share between threads."""

    def __init__(self, clusters: Clusters, pause: Callable[[float], None] = time.sleep) -> None:
        self._clusters = clusters
        self._pause = pause

    def identities(self, locations: Sequence[str]) -> list[Hashable | None]:
        """Numbers of the files, which a namenode never gives twice, in the time of one request."""
        with ThreadPoolExecutor(len(locations)) as threads:
            return list(threads.map(self._identity, locations))

    def _identity(self, location: str) -> Hashable | None:
        cluster, path = self._clusters.at(location)
        try:
            status = cluster.status(path)
        except FileNotFoundError:
            return None
        return None if status.is_folder else status.identity

    def identities_in(self, folder: str, names: Sequence[str]) -> list[Hashable | None]:
        """As :meth:`identities`."""
        return self.identities([f"{folder}/{name}" for name in names])

    def read(self, location: str, most: int = POINTER_BYTES) -> bytes:
        """One read."""
        cluster, path = self._clusters.at(location)
        return cluster.read(path, 0, most + 1)

    def create_if_absent(self, location: str, content: bytes) -> bool:
        """By rename."""
        cluster, path = self._clusters.at(location)
        temporary = f"{path}.{uuid.uuid4().hex}.tmp"
        try:
            cluster.write(temporary, content, overwrite=True)
        except OSError as error:
            _forget(cluster, temporary)
            raise StorageError(f"cannot write beside {location}: {error}; nothing was changed") from error
        unknown: OSError | None = None
        for wait in (0.0, *_PAUSES_S):
            self._pause(wait)
            try:
                cluster.rename(temporary, path)
            except FileNotFoundError as error:
                # Also the first time: a gateway may have sent the rename twice, and the first one taken the file.
                return self._took(cluster, path, content, unknown or error)
            except FileExistsError:
                return self._lost(cluster, temporary, path, content, unknown)
            except (NotDone, PermissionError) as error:
                if unknown is None:
                    _forget(cluster, temporary)
                    raise StorageError(f"cannot create {location}: {error}; nothing was changed") from error
                unknown = error
            except OSError as error:
                unknown = error
            else:
                return True
        assert unknown is not None
        if self._lost(cluster, temporary, path, content, unknown):
            return True
        raise StorageError(f"cannot create {location}: {unknown}; nothing was changed") from unknown

    def _lost(self, cluster: WebHdfs, temporary: str, path: str, content: bytes, unknown: OSError | None) -> bool:
        """False once the rename cannot happen any more; True when it has. OSError leaves that open."""
        if unknown is None:
            _forget(cluster, temporary)
            return False
        try:
            if cluster.delete(temporary):
                # A datanode that was given up on may have made it again after the rename, so the target is looked at.
                return _holds(cluster, path, content)
        except OSError as error:
            raise OSError(errno.EIO, f"it is open whether {path} was created: {unknown}") from error
        return self._took(cluster, path, content, unknown)

    def _took(self, cluster: WebHdfs, path: str, content: bytes, unknown: OSError) -> bool:
        """True when the file that is gone from its own name has become ``path``, as it must have."""
        with suppress(OSError):
            if _holds(cluster, path, content):
                return True
        raise OSError(errno.EIO, f"it is open whether {path} was created: {unknown}") from unknown

    def replace(self, location: str, content: bytes) -> None:
        """By rename."""
        cluster, path = self._clusters.at(location)
        temporary = f"{path}.{uuid.uuid4().hex}.tmp"
        try:
            cluster.write(temporary, content, overwrite=True)
            cluster.rename(temporary, path, overwrite=True)
        except OSError:
            _forget(cluster, temporary)
            raise

    def remove(self, location: str) -> None:
        """The namenode tells whether there was a file."""
        cluster, path = self._clusters.at(location)
        if not cluster.delete(path):
            raise FileNotFoundError(errno.ENOENT, "there is no file", location)

    def move(self, source: str, target: str) -> None:
        """By rename."""
        cluster, old = self._clusters.at(source)
        _, new = self._clusters.at(target)
        cluster.make_folder(new.rpartition("/")[0])
        cluster.rename(old, new)

    def entries(self, folder: str) -> Entries:
        """As the namenode has them."""
        cluster, path = self._clusters.at(folder)
        found = cluster.entries(path)
        below = frozenset(entry.name for entry in found if entry.is_folder)
        return Entries(frozenset(entry.name for entry in found) - below, below)

    def names_after(self, folder: str, name: str) -> frozenset[str]:
        """By listing the folder."""
        try:
            return frozenset(each for each in self.entries(folder).files if each > name)
        except FileNotFoundError:
            return frozenset()

    def make_folder(self, folder: str) -> None:
        """No error when it stands."""
        cluster, path = self._clusters.at(folder)
        cluster.make_folder(path)

    def remove_folder(self, folder: str) -> None:
        """Also fails when there is none."""
        cluster, path = self._clusters.at(folder)
        if not cluster.delete(path):
            raise FileNotFoundError(errno.ENOENT, "there is no folder", folder)


def _holds(cluster: WebHdfs, path: str, content: bytes) -> bool:
    try:
        return cluster.read(path, 0, len(content) + 1) == content
    except FileNotFoundError:
        return False


def _forget(cluster: WebHdfs, temporary: str) -> None:
    """Remove what never was more than a try; what stays is an orphan."""
    with suppress(OSError):
        cluster.delete(temporary)
