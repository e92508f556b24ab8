"""The local disk as a store: PyIceberg's FileIO for data and metadata files, and the atomic operations for commits.

Guarantees: an existing file is never overwritten by a new one. After :func:`make_durable`, files and their directory
entries survive a crash of the machine; new folders do once they are created. :func:`create_if_absent` lets exactly one
of any number of concurrent writers win, and readers never see a partial file.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import pyarrow.fs as pafs
from pyiceberg.io import InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.typedef import EMPTY_DICT, Properties

from metastore.errors import FormatError, StorageError
from metastore.lake.stores.bounded_reading import ReadLimits
from metastore.lake.stores.store_files import StoreFiles
from metastore.lake.stores.threads import KeptThreads

_DEFAULT_LIMITS: Final = ReadLimits()
_flushing: Final = KeptThreads()
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}


def local_path(location: str) -> str:
    """Return the plain path of a local ``location``, which is a path or a ``file:`` URI.

    URIs are read as Hadoop and PyIceberg write them, without escapes: a partition's folder may be named ``t=12%3A00``.
    """
    if not location.startswith("file:"):
        return location
    path = location[len("file:") :]
    if not path.startswith("//"):
        return path
    host, slash, rest = path[2:].partition("/")
    if host not in ("", "localhost"):
        raise StorageError(f"{location!r} names a host; a local location is file:///path or a plain path")
    return slash + rest


def make_durable(locations: Iterable[str]) -> None:
    """Flush files and their folders to disk; many at a time, each folder once. Raises OSError."""
    # In any order: a file survives a crash once both are flushed, and nothing refers to it before.
    paths = [local_path(location) for location in locations]
    folders = {os.path.dirname(path) for path in paths}
    _flushing.for_each((*paths, *folders), _flush)


def make_folder(location: str) -> None:
    """Create a folder and its missing parents, durable across a crash of the machine.

    No error if it exists. Raises OSError.
    """
    path = os.path.abspath(local_path(location))
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    make_folder(above)
    try:
        os.mkdir(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    # Also if another process has just created it, because that one may not have flushed it yet.
    _flush(above)


def create_if_absent(location: str, content: bytes) -> bool:
    """Atomically create a durable file with ``content``; returns False, without a change, if the name is taken.

    The content is written and flushed under a temporary name, then hard-linked to the final one: the link is the atomic
    step. Raises StorageError if it fails before that, or on a file system without hard links, which cannot guarantee
    this. An OSError leaves open whether the file exists.
    """
    final = local_path(location)
    temporary = f"{final}.{uuid.uuid4().hex}.tmp"
    try:
        make_folder(os.path.dirname(final))
        _write_new(temporary, content)
    except OSError as error:
        raise StorageError(f"cannot write {temporary}: {error.strerror}; nothing was changed") from error
    try:
        os.link(temporary, final)
    except FileExistsError:
        # A network file system may answer "exists" to its own retransmission of a successful link.
        return os.path.samefile(temporary, final)
    except OSError as error:
        if error.errno in _NO_HARD_LINKS:
            raise StorageError(
                f"the file system of {final} has no hard links, so two writers could both win a commit; "
                "keep the metastore on another file system, or configure a catalog"
            ) from error
        raise
    finally:
        # A network file system may report that the removed file was missing; the link exists anyway.
        Path(temporary).unlink(missing_ok=True)
    _flush(os.path.dirname(final))
    return True


def replace(location: str, content: bytes) -> None:
    """Write a small file over an existing one; readers see the old content or the new, never a mixture."""
    final = local_path(location)
    temporary = f"{final}.{uuid.uuid4().hex}.tmp"
    _write_new(temporary, content, durable=False)
    try:
        os.replace(temporary, final)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise
    _drop_checksum(final)


def remove(location: str) -> None:
    """Delete the file and its Hadoop checksum. Raises FileNotFoundError if it does not exist."""
    path = local_path(location)
    os.unlink(path)
    _drop_checksum(path)


def _drop_checksum(path: str) -> None:
    """Remove the ``.crc`` file of Hadoop's local file system: its readers fail on an outdated one."""
    folder, name = os.path.split(path)
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, f".{name}.crc"))


def _write_new(path: str, content: bytes, *, durable: bool = True) -> None:
    """Create ``path``; on failure, remove it if, and only if, this call created it."""
    with open(path, "xb") as stream:
        try:
            stream.write(content)
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        except OSError:
            Path(path).unlink(missing_ok=True)
            raise


def _flush(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class LocalFile(InputFile, OutputFile):
    """One file of the local disk, to read whole or to create."""

    def __init__(self, location: str, limits: ReadLimits = _DEFAULT_LIMITS) -> None:
        super().__init__(location)
        self.limits = limits
        self._path = local_path(location)

    def __len__(self) -> int:
        return os.stat(self._path).st_size

    def exists(self) -> bool:
        """Whether the path is a file."""
        return os.path.isfile(self._path)

    def open(self, seekable: bool = True) -> InputStream:
        """Open a binary stream from the start. Raises FileNotFoundError, FormatError for a file that is too large."""
        stream = open(self._path, "rb")  # noqa: SIM115 - the open file is returned
        if limit := self.limits.of_file(self.location):
            try:
                limit.require(self.location, os.fstat(stream.fileno()).st_size)
            except FormatError:
                stream.close()
                raise
        return stream

    def create(self, overwrite: bool = False) -> OutputStream:
        """Open a stream into a new file and create its folders. Raises FileExistsError unless ``overwrite``."""
        mode: Literal["wb", "xb"] = "wb" if overwrite else "xb"
        try:
            return open(self._path, mode)
        except FileNotFoundError:
            make_folder(os.path.dirname(self._path))
            return open(self._path, mode)

    def to_input_file(self) -> InputFile:
        """Return itself, for reading."""
        return self


class LocalFileIO(StoreFiles):
    """PyIceberg's FileIO for the local disk, by plain path or ``file:`` URI."""

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties=properties)
        self._limits = ReadLimits.of(properties)

    def new_input(self, location: str) -> InputFile:
        """Return the file to read; opens nothing yet."""
        return LocalFile(location, self._limits)

    def new_output(self, location: str) -> OutputFile:
        """Return the file to create; opens nothing yet."""
        return LocalFile(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove the file. Raises FileNotFoundError if it does not exist."""
        remove(location if isinstance(location, str) else location.location)

    def arrow_paths(self, locations: Sequence[str]) -> tuple[pafs.FileSystem, list[str]]:
        """Return Arrow's local file system, and plain paths."""
        return pafs.LocalFileSystem(), [local_path(location) for location in locations]
