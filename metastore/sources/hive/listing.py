"""The data files of Hive tables: the files that count as data at the locations that the metastore names.

Locations are taken byte for byte, as in Hadoop: ``%2F`` in a folder's name is three characters. Files count if Hive and
Spark read them. Names that begin with ``_`` or ``.`` are hidden, and empty files hold no rows. Iceberg metadata that
another tool may have left in the table's folder is not data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyarrow import fs

from metastore.errors import InvalidRequestError, StorageError
from metastore.lake.stores.local import local_path, make_durable
from metastore.lake.stores.locations import is_local

if TYPE_CHECKING:
    from pyiceberg.io.pyarrow import PyArrowFileIO

_LOCAL: Final = fs.LocalFileSystem()
_THREADS: Final = 16
_ICEBERG_FOLDER: Final = "metadata"
_ICEBERG_FILE: Final = re.compile(
    r"(\d{5}-[0-9a-f-]{36}.*\.metadata\.json|v\d+(\.gz)?\.metadata\.json|version-hint\.text"
    r"|snap-\d+-\d+-[0-9a-f-]{36}\.avro|[0-9a-f-]{36}-m\d+\.avro|.*\.stats)"
)


class NestedDirectories(str, Enum):
    """How to treat directories in the directory of a table or partition."""

    READ = "true"
    IGNORE = "false"
    REFUSE = "fail"

    @classmethod
    def parse(cls, text: str) -> NestedDirectories:
        """Returns the argument ``recursive_directory``. Raises InvalidRequestError unless it is true, false or fail."""
        try:
            return cls(text.lower())
        except ValueError:
            raise InvalidRequestError(f"recursive_directory is 'true', 'false' or 'fail', not {text!r}") from None


class DataFile(NamedTuple):
    """One data file. Its location begins with the given location of its folder, unchanged."""

    location: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class LocationContents:
    """The contents of one location: data files sorted by location, and the first nested directory.

    ``exists`` is False if the location does not exist.
    """

    location: str
    files: tuple[DataFile, ...] = ()
    nested: str | None = None
    exists: bool = True


class HiveStore:
    """Access to files: Arrow file systems by location, opened with PyIceberg's properties. It pickles as plain data."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties: Final = dict(properties)

    def place(self, location: str) -> tuple[fs.FileSystem, str]:
        """Returns the file system of a location, and its path there. Raises StorageError for an unsupported scheme."""
        if is_local(location):
            return _LOCAL, local_path(location)
        try:
            scheme, host, path = self._io.parse_location(location, self.properties)
            return self._io.fs_by_scheme(scheme, host), path
        except (ValueError, pa.ArrowException) as error:
            raise StorageError(f"{location} is on no store that can be read: {error}") from error

    @cached_property
    def _io(self) -> PyArrowFileIO:
        # Loading this takes longer than reading 1,000 footers from the local disk, which does not need it.
        from pyiceberg.io.pyarrow import PyArrowFileIO  # noqa: PLC0415

        return PyArrowFileIO(self.properties)

    def open(self, location: str) -> pa.NativeFile:
        """Returns the file, open for reading. Raises FileNotFoundError, OSError."""
        store, path = self.place(location)
        return store.open_input_file(path)

    def contents(self, locations: Sequence[str], nested: NestedDirectories) -> list[LocationContents]:
        """Returns the contents of each of ``locations``, in this order; a missing location has no files."""
        with ThreadPoolExecutor(_THREADS) as threads:
            return list(threads.map(lambda location: self._folder(location, nested), locations))

    def make_durable(self, folder: str) -> None:
        """Make the files of a folder survive a crash. An object store guarantees that already."""
        store, path = self.place(folder)
        if isinstance(store, fs.LocalFileSystem):
            make_durable(entry.path for entry in store.get_file_info(fs.FileSelector(path)))

    def folders(self, location: str, depth: int) -> list[tuple[str, ...]]:
        """Returns the visible directories ``depth`` levels below ``location``, each as names relative to it."""
        store, root = self.place(location)
        found: list[tuple[str, ...]] = [()]
        for _ in range(depth):
            below = [self._subfolders(store, root, names) for names in found]
            found = [names for each in below for names in each]
        return sorted(found)

    def _subfolders(self, store: fs.FileSystem, root: str, above: tuple[str, ...]) -> list[tuple[str, ...]]:
        place = "/".join((root, *above))
        try:
            entries = store.get_file_info(fs.FileSelector(place, allow_not_found=True))
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"cannot list {place}: {error}") from error
        names = [entry.base_name for entry in entries if entry.type == fs.FileType.Directory]
        return [(*above, name) for name in names if not _is_hidden(name) or "=" in name]

    def _folder(self, location: str, nested: NestedDirectories) -> LocationContents:
        store, root = self.place(location)
        try:
            selector = fs.FileSelector(root, recursive=nested is NestedDirectories.READ, allow_not_found=True)
            entries = store.get_file_info(selector)
            if not entries and store.get_file_info(root).type != fs.FileType.Directory:
                return LocationContents(location, exists=False)
            if left_over := _iceberg_folder(store, root, entries):
                entries = [entry for entry in entries if f"{entry.path}/".find(left_over) != 0]
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"cannot list {location}: {error}") from error
        return _folder_of(location, root, entries)


def plain_location(location: str) -> str:
    """Returns the path for ``file:`` URIs, which have several spellings; other locations are returned unchanged."""
    return "/" + location[len("file:") :].lstrip("/") if location.startswith("file:") else location


def unusable(location: str) -> str | None:
    """Returns why Iceberg's readers would not find a file at ``location``: they cut it at some characters. Or None."""
    for char in "#?":
        if char in location:
            return f"{location} contains {char!r}, where PyIceberg ends a path"
    return None


def _folder_of(location: str, root: str, entries: Iterable[fs.FileInfo]) -> LocationContents:
    files: list[DataFile] = []
    folders: list[str] = []
    for entry in entries:
        names = _names(entry, root)
        if any(map(_is_hidden, names)):
            continue
        place = "/".join((location, *names))
        if entry.type == fs.FileType.Directory:
            folders.append(place)
        elif entry.size and not entry.base_name.endswith("._COPYING_"):
            files.append(DataFile(place, entry.size, entry.mtime_ns or 0))
    return LocationContents(location, tuple(sorted(files)), min(folders, default=None))


def _iceberg_folder(store: fs.FileSystem, root: str, entries: Iterable[fs.FileInfo]) -> str | None:
    """Returns the directory, with a slash at its end, that holds only Iceberg's metadata, or None if there is none."""
    path = f"{root.rstrip('/')}/{_ICEBERG_FOLDER}"
    if not any(entry.path == path and entry.type == fs.FileType.Directory for entry in entries):
        return None
    inside = store.get_file_info(fs.FileSelector(path))
    own = all(_is_hidden(entry.base_name) or _ICEBERG_FILE.fullmatch(entry.base_name) for entry in inside)
    return f"{path}/" if own else None


def _names(entry: fs.FileInfo, root: str) -> tuple[str, ...]:
    return tuple(name for name in entry.path[len(root) :].split("/") if name)


def _is_hidden(name: str) -> bool:
    return name[:1] in ("_", ".")
