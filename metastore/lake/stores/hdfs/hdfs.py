"""Pointers on HDFS. A commit is a rename that the namenode refuses if the name is taken, as in Hadoop tables.

The content is first written under a temporary name. A rename without an answer can still be decided: it needs the
temporary file. Once that file is removed, the rename can no longer happen, and the target shows whether it did. If the
file is already gone, the rename took it.
"""

from __future__ import annotations

import errno
import time
import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from metastore.errors import StorageError
from metastore.lake.stores.hdfs.webhdfs import Clusters, NotDone, WebHdfs
from metastore.lake.stores.pointer_store import POINTER_BYTES, CreatedFile, Entries

_PAUSES_S: Final = (0.1, 0.4, 1.6)
"""Pauses in seconds between renames of unknown outcome."""


class HdfsPointers:
    """Pointers on ``clusters``; ``pause`` waits between tries. Threads may share it."""

    def __init__(self, clusters: Clusters, pause: Callable[[float], None] = time.sleep) -> None:
        self._clusters = clusters
        self._pause = pause

    def identities(self, locations: Sequence[str]) -> list[Hashable | None]:
        """Return file ids, which a namenode never reuses, in the time of one request."""
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
        """Read by one request."""
        cluster, path = self._clusters.at(location)
        return cluster.read(path, 0, most + 1)

    def prepare(self, location: str) -> None:
        """Do nothing: a namenode keeps the promise."""

    def create_if_absent(self, location: str, content: bytes) -> CreatedFile | None:
        """Create by rename."""
        return CreatedFile() if self._create(location, content) else None

    def _create(self, location: str, content: bytes) -> bool:
        """Write beside the location, then rename; False if another file has the name. Unclear answers are settled."""
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
                # Also at the first try: a gateway may have sent the rename twice, and the first took the file.
                return self._took(cluster, path, content, unknown or error)
            except FileExistsError:
                return self._settle_rename(cluster, temporary, path, content, unknown)
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
        if self._settle_rename(cluster, temporary, path, content, unknown):
            return True
        raise StorageError(f"cannot create {location}: {unknown}; nothing was changed") from unknown

    def _settle_rename(
        self, cluster: WebHdfs, temporary: str, path: str, content: bytes, unknown: OSError | None
    ) -> bool:
        """Return False once the rename can no longer happen, True if it happened. OSError leaves that open."""
        if unknown is None:
            _forget(cluster, temporary)
            return False
        try:
            if cluster.delete(temporary):
                # A datanode that timed out may have created it again after the rename, so check the target.
                return _holds(cluster, path, content)
        except OSError as error:
            raise OSError(errno.EIO, f"it is unknown whether {path} was created: {unknown}") from error
        return self._took(cluster, path, content, unknown)

    def _took(self, cluster: WebHdfs, path: str, content: bytes, unknown: OSError) -> bool:
        """Return True if ``path`` has ``content``, now that the temporary file is gone. OSError leaves that open."""
        with suppress(OSError):
            if _holds(cluster, path, content):
                return True
        raise OSError(errno.EIO, f"it is unknown whether {path} was created: {unknown}") from unknown

    def replace(self, location: str, content: bytes) -> None:
        """Replace by rename."""
        cluster, path = self._clusters.at(location)
        temporary = f"{path}.{uuid.uuid4().hex}.tmp"
        try:
            cluster.write(temporary, content, overwrite=True)
            cluster.rename(temporary, path, overwrite=True)
        except OSError:
            _forget(cluster, temporary)
            raise

    def remove(self, location: str) -> None:
        """The namenode reports whether there was a file."""
        cluster, path = self._clusters.at(location)
        if not cluster.delete(path):
            raise FileNotFoundError(errno.ENOENT, "there is no file", location)

    def move(self, source: str, target: str) -> None:
        """Move by rename."""
        cluster, old = self._clusters.at(source)
        _, new = self._clusters.at(target)
        cluster.make_folder(new.rpartition("/")[0])
        cluster.rename(old, new)

    def entries(self, folder: str) -> Entries:
        """Return what the namenode lists."""
        cluster, path = self._clusters.at(folder)
        found = cluster.entries(path)
        below = frozenset(entry.name for entry in found if entry.is_folder)
        return Entries(frozenset(entry.name for entry in found) - below, below)

    def files_after(self, folder: str, name: str) -> Mapping[str, Hashable | None]:
        """List the folder, without identities."""
        try:
            return dict.fromkeys(each for each in self.entries(folder).files if each > name)
        except FileNotFoundError:
            return {}

    def make_folder(self, folder: str) -> None:
        """No error if it exists."""
        cluster, path = self._clusters.at(folder)
        cluster.make_folder(path)

    def remove_folder(self, folder: str) -> None:
        """Also fails if it does not exist."""
        cluster, path = self._clusters.at(folder)
        if not cluster.delete(path):
            raise FileNotFoundError(errno.ENOENT, "there is no folder", folder)


def _holds(cluster: WebHdfs, path: str, content: bytes) -> bool:
    try:
        return cluster.read(path, 0, len(content) + 1) == content
    except FileNotFoundError:
        return False


def _forget(cluster: WebHdfs, temporary: str) -> None:
    """Remove a temporary file; if that fails, it stays as an orphan."""
    with suppress(OSError):
        cluster.delete(temporary)
