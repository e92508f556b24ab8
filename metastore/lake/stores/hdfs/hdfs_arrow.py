"""The Arrow file system for HDFS, over WebHDFS: read, write, list.

Reading a file takes one request to a namenode and one to a datanode; only larger files are read by ranges. Paths are
whole locations, as in metadata and storage plugins. Tasks use it to list and read tables, so it is separate from
:mod:`metastore.lake.stores.hdfs.hdfs_io`, which needs PyIceberg.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.fs as pafs

from metastore.lake.stores.hdfs.webhdfs import Clusters, Status
from metastore.lake.stores.whole_files import WHOLE_BYTES, RangedFile


class HdfsStream(io.RawIOBase):
    """A file of any size, sent piece by piece. If its ``with`` block fails, the sent data is removed."""

    def __init__(self, writing: AbstractContextManager[Callable[[bytes], None]]) -> None:
        super().__init__()
        self._writing = writing
        self._send = writing.__enter__()
        self._position = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Return the number of bytes sent."""
        return self._position

    def write(self, content: Any) -> int:
        """Send ``content``; returns its number of bytes."""
        self._send(bytes(content))
        self._position += len(content)
        return len(content)

    def close(self) -> None:
        """Complete the file."""
        if not self.closed:
            super().close()
            self._writing.__exit__(None, None, None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or self.closed:
            self.close()
        else:
            super().close()
            self._writing.__exit__(kind, error, trace)


class HdfsArrow(pafs.FileSystemHandler):
    """HDFS for ``pyarrow.fs.PyFileSystem``, by location."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a small file with one read; a larger one by ranges."""
        cluster, inside = self._clusters.at(path)
        start = cluster.read(inside, 0, WHOLE_BYTES)
        if len(start) < WHOLE_BYTES:
            return pa.BufferReader(start)

        def fetch(begin: int, end: int) -> bytes:
            return cluster.read(inside, begin, end - begin)

        return pa.PythonFile(RangedFile(cluster.status(inside).size, fetch), mode="r")

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """As :meth:`open_input_file`."""
        return self.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Mapping[str, str]) -> pa.NativeFile:
        """Open a file that replaces an existing one, sent as it is written."""
        cluster, inside = self._clusters.at(path)
        return pa.PythonFile(HdfsStream(cluster.writing(inside)), mode="w")

    def get_file_info(self, paths: Sequence[str]) -> list[pafs.FileInfo]:
        """Return the type of each path."""
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> pafs.FileInfo:
        cluster, inside = self._clusters.at(path)
        try:
            return _file_info(path, cluster.status(inside))
        except FileNotFoundError:
            return pafs.FileInfo(path, pafs.FileType.NotFound)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        """List a folder, with one request for each folder."""
        cluster, _ = self._clusters.at(selector.base_dir)
        found: list[pafs.FileInfo] = []
        todo = [selector.base_dir.rstrip("/")]
        while todo:
            folder = todo.pop()
            try:
                entries = cluster.entries(self._clusters.at(folder)[1])
            except FileNotFoundError:
                if folder == selector.base_dir.rstrip("/") and not selector.allow_not_found:
                    raise
                continue
            infos = [_file_info(f"{folder}/{entry.name}", entry) for entry in entries]
            found += infos
            if selector.recursive:
                todo += [info.path for info in infos if info.type == pafs.FileType.Directory]
        return found

    def create_dir(self, path: str, recursive: bool) -> None:
        """Create the folder and its parents."""
        cluster, inside = self._clusters.at(path)
        cluster.make_folder(inside)

    def delete_dir(self, path: str) -> None:
        """Delete the folder with its content."""
        self._delete(path, recursive=True)

    def delete_file(self, path: str) -> None:
        """Delete the file."""
        self._delete(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        """Delete the content of the folder."""
        cluster, inside = self._clusters.at(path)
        try:
            for entry in cluster.entries(inside):
                cluster.delete(f"{inside}/{entry.name}", recursive=True)
        except FileNotFoundError:
            if not missing_dir_ok:
                raise

    def move(self, src: str, dest: str) -> None:
        """Move; replaces an existing file, as Arrow requires."""
        cluster, source = self._clusters.at(src)
        cluster.rename(source, self._clusters.at(dest)[1], overwrite=True)

    def _delete(self, path: str, *, recursive: bool = False) -> None:
        cluster, inside = self._clusters.at(path)
        if not cluster.delete(inside, recursive=recursive):
            raise FileNotFoundError(errno.ENOENT, "there is no such file", path)

    def get_type_name(self) -> str:
        """Return the name for Arrow's messages."""
        return "webhdfs"

    def normalize_path(self, path: str) -> str:
        """Return the location unchanged."""
        return path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HdfsArrow) and other._clusters is self._clusters

    def __hash__(self) -> int:
        return hash(id(self._clusters))

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise io.UnsupportedOperation("this file system does neither copy nor append, nor empty a whole cluster")

    delete_root_dir_contents = copy_file = open_append_stream = _refuse


def _file_info(path: str, status: Status) -> pafs.FileInfo:
    kind = pafs.FileType.Directory if status.is_folder else pafs.FileType.File
    return pafs.FileInfo(
        path, kind, size=None if status.is_folder else status.size, mtime_ns=status.modified_ms * 1_000_000
    )
