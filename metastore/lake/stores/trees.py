"""Lists the actual files below a folder on a store, with size and time, by many concurrent tasks.

This process lists the first levels until there are enough folders to distribute; tasks list the rest. Names are used
unchanged, byte for byte: the table's FileIO deletes by the locations returned here, and a file whose name has no such
location is skipped. Links to folders are not followed: their targets are listed at their own place, if at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.fs as pafs
from pyiceberg.io import FileIO

from metastore.engines.engine import EngineFor
from metastore.errors import StorageError
from metastore.lake.stores.files import arrow_paths
from metastore.lake.stores.listed_files import identity_of
from metastore.lake.stores.local import local_path
from metastore.lake.stores.locations import is_local

_ENOUGH_FOLDERS: Final = 64
_DEEPEST: Final = 4

_LISTED_COLUMNS: Final[dict[str, pa.DataType]] = {
    "location": pa.string(),
    "size": pa.int64(),
    "modified_ms": pa.int64(),
    "identity": pa.string(),
}
_LISTED: Final = pa.schema(_LISTED_COLUMNS)


class StoredFile(NamedTuple):
    """A file on the store; ``modified_ms`` in epoch milliseconds. ``identity`` is known on the local disk only."""

    location: str
    size: int
    modified_ms: int
    identity: str | None = None


@dataclass(frozen=True)
class Folder:
    """A folder to list through ``io``; hidden names are skipped, unless they begin with one of ``shown``."""

    io: FileIO
    location: str
    shown: tuple[str, ...] = ()

    def shows(self, name: str) -> bool:
        """Whether a name below the folder counts; names with ``_`` or ``.`` in front are temporary files of others."""
        return not name.startswith(("_", ".")) or name.startswith(self.shown)


_Level: TypeAlias = tuple[list[StoredFile], list[Folder]]


def stored_files(folders: Iterable[Folder], engine: EngineFor) -> Iterator[StoredFile]:
    """Yield every file below ``folders``, in any order. A missing folder is empty. Raises StorageError."""
    to_share = list(folders)
    for _ in range(_DEEPEST):
        if not to_share or len(to_share) >= _ENOUGH_FOLDERS:
            break
        levels = [_level(folder) for folder in to_share]
        to_share = [below for _, folders_below in levels for below in folders_below]
        for files, _ in levels:
            yield from files
    if to_share:
        for batch in engine(len(to_share)).run(to_share, list_folder, _LISTED):
            yield from map(StoredFile, *(column.to_pylist() for column in batch.columns))


def files_in(folder: Folder) -> list[StoredFile]:
    """Return files directly below ``folder``; none if it is missing. Raises StorageError."""
    return _level(folder)[0]


def list_folder(folder: Folder) -> Iterator[pa.RecordBatch]:
    """The task: yields every file below the folder, one batch for each level."""
    todo = [folder]
    while todo:
        files, below = _level(todo.pop())
        todo += below
        if files:
            columns = zip(*files, strict=True)
            typed = [pa.array(column, kind) for column, kind in zip(columns, _LISTED.types, strict=True)]
            yield pa.RecordBatch.from_arrays(typed, schema=_LISTED)


def _level(folder: Folder) -> _Level:
    """Return files and folders directly below ``folder``."""
    try:
        system, [path] = arrow_paths(folder.io, [folder.location])
        if is_local(folder.location):
            return _local_level(folder, local_path(path))
        return _arrow_level(folder, system, path)
    except FileNotFoundError:
        return [], []
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"cannot list {folder.location}: {error}") from error


def _local_level(folder: Folder, path: str) -> _Level:
    files: list[StoredFile] = []
    below: list[Folder] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if not folder.shows(entry.name) or not _is_text(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                below.append(Folder(folder.io, entry.path, folder.shown))
            elif not entry.is_dir():
                status = entry.stat(follow_symlinks=False)
                modified_ms = status.st_mtime_ns // 1_000_000
                files.append(StoredFile(entry.path, status.st_size, modified_ms, identity_of(status)))
    return files, below


def _is_text(name: str) -> bool:
    """Whether every engine can express the name; a table cannot refer to a name that is not valid UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _arrow_level(folder: Folder, system: pafs.FileSystem, path: str) -> _Level:
    root = folder.location.rstrip("/")
    files: list[StoredFile] = []
    below: list[Folder] = []
    for entry in system.get_file_info(pafs.FileSelector(path.rstrip("/"), allow_not_found=True)):
        location = f"{root}/{entry.base_name}"
        if not folder.shows(entry.base_name):
            continue
        if ("?" in location or "#" in location) and arrow_paths(folder.io, [location])[1] != [entry.path]:
            continue  # PyIceberg's FileIO would cut the name there, and delete another file
        if entry.type == pafs.FileType.Directory:
            below.append(Folder(folder.io, location, folder.shown))
        elif entry.type == pafs.FileType.File:
            files.append(StoredFile(location, entry.size or 0, (entry.mtime_ns or 0) // 1_000_000))
    return files, below
