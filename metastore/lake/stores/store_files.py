"""The files of a store: PyIceberg's FileIO, and what this package asks of a store beside it."""

from __future__ import annotations

import errno
from abc import abstractmethod
from collections.abc import Sequence
from typing import IO, cast

import pyarrow.fs as pafs
from pyiceberg.io import FileIO


class StoreFiles(FileIO):
    """Files of one store by location. Pickles as its properties, because tasks get it."""

    @abstractmethod
    def arrow_paths(self, locations: Sequence[str]) -> tuple[pafs.FileSystem, list[str]]:
        """Return the Arrow file system for ``locations``, and their paths in it. It lists folders, too."""

    def open_stream(self, location: str) -> IO[bytes]:
        """Open a stream into a new file; written data is not held in memory. Closing it creates the file.

        Raises FileExistsError if the name is taken, another OSError when the store fails.
        """
        return cast("IO[bytes]", self.new_output(location).create())

    def delete_together(self, locations: Sequence[str]) -> bool:
        """Remove files with few requests; False, and nothing is removed, if the store removes one file a request.

        After an OSError some may be deleted, others not.
        """
        return False

    def require_absent(self, location: str) -> None:
        """Raise FileExistsError if there is a file: for stores that cannot refuse when a stream is closed."""
        if self.new_input(location).exists():
            raise FileExistsError(errno.EEXIST, "the file is there already", location)
