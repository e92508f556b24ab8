"""PyIceberg's FileIO for HDFS over WebHDFS: metadata and data files, read whole and created whole.

Arrow reads and lists HDFS through :mod:`metastore.lake.stores.hdfs.hdfs_arrow`.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final, cast

import pyarrow.fs as pafs
from pyiceberg.io import InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.typedef import EMPTY_DICT, Properties

from metastore.lake.stores.bounded_reading import ReadLimits
from metastore.lake.stores.hdfs.hdfs_arrow import HdfsArrow, HdfsStream
from metastore.lake.stores.hdfs.webhdfs import Clusters, NotDone
from metastore.lake.stores.store_files import StoreFiles
from metastore.lake.stores.whole_files import WholeFile

_DEFAULT_LIMITS: Final = ReadLimits()


class HdfsFileIO(StoreFiles):
    """Files on HDFS by URI; ``properties`` are Hadoop's. Pickles as its properties."""

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties=properties)
        self.clusters = Clusters(properties)
        self._limits = ReadLimits.of(properties)

    def new_input(self, location: str) -> InputFile:
        """Return the file to read; sends no request yet."""
        return HdfsFile(location, self.clusters, self._limits)

    def new_output(self, location: str) -> OutputFile:
        """Return the file to create; sends no request yet."""
        return HdfsFile(location, self.clusters)

    def arrow_paths(self, locations: Sequence[str]) -> tuple[pafs.FileSystem, list[str]]:
        """Return a file system whose paths are locations."""
        return pafs.PyFileSystem(HdfsArrow(self.clusters)), list(locations)

    def open_stream(self, location: str) -> IO[bytes]:
        """Open a stream into a file. Only for names that no other writer uses: the name is checked first."""
        self.require_absent(location)
        cluster, path = self.clusters.at(location)
        return cast("IO[bytes]", HdfsStream(cluster.writing(path)))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove the file. Raises FileNotFoundError if it does not exist."""
        where = location if isinstance(location, str) else location.location
        cluster, path = self.clusters.at(where)
        if not cluster.delete(path):
            raise FileNotFoundError(errno.ENOENT, "there is no file", where)

    def __getstate__(self) -> dict[str, Any]:
        return {"properties": self.properties}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        HdfsFileIO.__init__(self, state["properties"])


class HdfsFile(InputFile, OutputFile):
    """One file, to read whole or to create."""

    def __init__(self, location: str, clusters: Clusters, limits: ReadLimits = _DEFAULT_LIMITS) -> None:
        super().__init__(location)
        self.limits = limits
        self._cluster, self._path = clusters.at(location)

    def __len__(self) -> int:
        return self._cluster.status(self._path).size

    def exists(self) -> bool:
        """Whether the file exists."""
        try:
            return not self._cluster.status(self._path).is_folder
        except FileNotFoundError:
            return False

    def open(self, seekable: bool = True) -> InputStream:
        """Read the whole file at once. Raises FileNotFoundError, FormatError for a file that is too large."""
        limit = self.limits.of_file(self.location)
        if limit is None:
            return io.BytesIO(self._cluster.read(self._path))
        content = self._cluster.read(self._path, 0, limit.most + 1)
        limit.require(self.location, len(content))
        return io.BytesIO(content)

    def create(self, overwrite: bool = False) -> OutputStream:
        """Return a stream; its close creates the file. FileExistsError if the name is taken, unless ``overwrite``.

        If a ``with`` block raises an exception, no file is created.
        """

        def send(content: bytes) -> None:
            if not self._send(content, overwrite=overwrite, is_last=False):
                self._send(content, overwrite=overwrite, is_last=True)

        return WholeFile(send)

    def _send(self, content: bytes, *, overwrite: bool, is_last: bool) -> bool:
        """Return whether the file was created; False if nothing was, so that it may be sent again."""
        try:
            self._cluster.write(self._path, content, overwrite=overwrite)
        except (PermissionError, NotDone):
            raise
        except OSError:
            # Perhaps only the answer was lost; and if a gateway sends a request twice, the second finds what
            # the first one created.
            found = self._content()
            if found is None and not is_last:
                return False
            if found != content:
                raise
        return True

    def _content(self) -> bytes | None:
        """Return the file's content, or None if it cannot be determined."""
        with suppress(OSError):
            return self._cluster.read(self._path)
        return None

    def to_input_file(self) -> InputFile:
        """Return itself, for reading."""
        return self
