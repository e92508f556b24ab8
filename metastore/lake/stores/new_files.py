"""The files that one attempt creates, so that a clean-up removes exactly these.

All data files, manifests, lists and statistics are written through the :class:`NewFiles` of an attempt. Guarantee:
:meth:`NewFiles.discard` deletes a file only if this attempt certainly created it. A file whose name was taken belongs
to another writer. A file whose creation has an unknown outcome stays; nothing refers to it, so the removal of orphan
files finds it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import IO

from pyiceberg.io import FileIO

from metastore.errors import StorageError
from metastore.lake.stores.files import DeletionResult, discard, flush, open_stream
from metastore.lake.stores.threads import for_each
from metastore.lake.stores.whole_files import CreatedAtClose


class NewFiles:
    """The files that an attempt creates through ``io``. Threads may share it."""

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._created: list[str] = []

    @property
    def created_files(self) -> list[str]:
        """The files that were certainly created, in the order of creation."""
        return list(self._created)

    def adopt(self, locations: Iterable[str]) -> None:
        """Take over files that another process has certainly created for this attempt."""
        self._created.extend(locations)

    def write(self, location: str, content: bytes) -> None:
        """Create the file at ``location`` with ``content``.

        Raises FileExistsError if the name is taken, otherwise the store's own error.
        """
        stream = self._io.new_output(location).create()
        at_once = not isinstance(stream, CreatedAtClose)
        if at_once:
            self._created.append(location)
        with stream:
            stream.write(content)
        if not at_once:
            self._created.append(location)

    def stream(self, location: str) -> IO[bytes]:
        """Open a stream into a new file; written data is not held in memory. Closing it creates the file.

        Raises FileExistsError if the name is taken, otherwise the store's own error.
        """
        stream = open_stream(self._io, location)
        self._created.append(location)
        return stream

    def discard(self, locations: Iterable[str] | None = None) -> DeletionResult:
        """Delete created files; if ``locations`` are given, only those. Never raises."""
        wanted = set(self._created if locations is None else locations)
        going = [location for location in self._created if location in wanted]
        self._created = [location for location in self._created if location not in wanted]
        return discard(self._io, going)


def write_alone(io: FileIO, location: str, content: bytes) -> None:
    """Create one durable file that a later commit refers to.

    Raises StorageError if that fails; the file is then removed.
    """
    files = NewFiles(io)
    try:
        files.write(location, content)
        flush([location])
    except OSError as error:
        files.discard()
        raise StorageError(f"cannot write {location}: {error}; nothing was changed") from error


class GatheredFiles(NewFiles):
    """New files that are collected first and then created concurrently by :meth:`create`.

    For small files that refer to each other, whose names and lengths are known before they are created.
    """

    def __init__(self, io: FileIO) -> None:
        super().__init__(io)
        self._gathered: list[tuple[str, bytes]] = []

    def write(self, location: str, content: bytes) -> None:
        """Hold the file until :meth:`create`."""
        self._gathered.append((location, content))

    def create(self) -> None:
        """Create the collected files. Raises as :meth:`NewFiles.write`, once every file is settled."""
        waiting = deque(self._gathered)
        self._gathered = []

        def create_next(_: int) -> None:
            # Create each file once, even if called again: a second request would find its name taken.
            try:
                file = waiting.popleft()
            except IndexError:
                return
            NewFiles.write(self, *file)

        for_each(range(len(waiting)), create_next)
