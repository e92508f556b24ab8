"""The folders of a materialized view's rows: one for each refresh, never changed once it is complete.

``<workspace>/<view>/<refresh>/`` holds the rows as Parquet files. Beside them are ``_state`` (partial results from
which a later refresh continues) and ``_sources.parquet`` (the files that were read); readers of data skip these names.
``_sources.parquet`` is written last: a folder without it belongs to a refresh that did not finish. The name of a
refresh begins with its time, so that a folder that is still being written is not taken for an abandoned one.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from metastore.errors import ConflictError, StorageError
from metastore.ground.digests import digest
from metastore.lake.formats.source_file import Fingerprint, SourceFile
from metastore.lake.stores.arrow import open_location
from metastore.lake.stores.bounded_reading import ReadLimits, parquet_rows
from metastore.lake.stores.listed_files import OpenedFolders
from metastore.lake.stores.local import local_path
from metastore.model.identity import TableInfo
from metastore.sql.views.runner import WrittenFolder

STATE: Final = "_state"
NEW_STATE: Final = "_new_state"
SOURCES: Final = "_sources.parquet"

_REFRESH: Final = re.compile(r"(\d{13})-[0-9a-f]{12}")
"""The name of a refresh: its time in epoch ms, and a part that makes it unique."""

_COLUMNS: Final[list[pa.Field[Any]]] = [
    pa.field("table", pa.string()),
    pa.field("path", pa.string()),
    pa.field("size", pa.int64()),
    pa.field("mtime_ns", pa.int64()),
]
_SCHEMA: Final = pa.schema(_COLUMNS)

SourceFiles = Mapping[str, Mapping[str, Fingerprint]]
"""Files by path, with their fingerprints, of each table by its name."""


@dataclass(frozen=True)
class Workspace:
    """The workspace of a materialized view: its location, and the options to open it."""

    plugin: str
    name: str
    location: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    limits: ReadLimits = field(default_factory=ReadLimits)

    def folder(self, data_location: str) -> RefreshFolder:
        """Returns the folder at ``data_location``, relative to the workspace."""
        return RefreshFolder(self, data_location)

    def new_folder(self, view: str, now_ms: int) -> RefreshFolder:
        """Returns an unused name for a folder of ``view``."""
        return RefreshFolder(self, f"{view.strip('/')}/{now_ms:013d}-{uuid.uuid4().hex[:12]}")


@dataclass(frozen=True)
class RefreshFolder:
    """The folder of one refresh; ``data_location`` is relative to the workspace."""

    workspace: Workspace
    data_location: str

    @property
    def table(self) -> TableInfo:
        """The name under which the rows can be analyzed and read."""
        return TableInfo(self.workspace.plugin, self.workspace.name, self.data_location)

    @property
    def rows(self) -> WrittenFolder:
        """The location of the rows."""
        return WrittenFolder(f"{self.workspace.location.rstrip('/')}/{self.data_location}", self.workspace.options)

    @property
    def state(self) -> WrittenFolder:
        """The location of the partial results."""
        return WrittenFolder(f"{self.rows.location}/{STATE}", self.workspace.options)

    @property
    def new_state(self) -> WrittenFolder:
        """The location of the partial results of new files, until they are merged."""
        return WrittenFolder(f"{self.rows.location}/{NEW_STATE}", self.workspace.options)

    def forget_new_state(self) -> None:
        """Delete :attr:`new_state` after it has been merged. Raises StorageError."""
        self._delete(NEW_STATE)

    def require_new(self) -> None:
        """Raises ConflictError if the folder already exists, because it then belongs to someone else.

        Raises StorageError.
        """
        store, root = self._open()
        try:
            found = store.get_file_info(root)
        except OSError as error:
            raise StorageError(f"cannot look at {root}: {error}") from error
        if found.type != fs.FileType.NotFound:
            raise ConflictError(f"{root} exists already, so another refresh owns it; nothing was changed. Try again")

    def has_state(self) -> bool:
        """Whether there are partial results."""
        store, root = self._open()
        return store.get_file_info(f"{root}/{STATE}").type == fs.FileType.Directory

    def copy_rows_from(self, other: RefreshFolder) -> None:
        """Copy the rows of ``other`` into this folder, under names that no new file has. Raises StorageError."""
        store, root = self._open()
        _, theirs = other._open()
        try:
            store.create_dir(root, recursive=True)
            for number, info in enumerate(sorted(store.get_file_info(fs.FileSelector(theirs)), key=lambda i: i.path)):
                if info.is_file and not info.base_name.startswith(("_", ".")):
                    store.copy_file(info.path, f"{root}/kept-{number}.parquet")
        except OSError as error:
            raise StorageError(f"cannot copy {theirs} to {root}: {error}") from error

    def digest(self) -> str:
        """Returns a text that changes if the folder or a file in it is deleted, changed or added.

        Raises StorageError.
        """
        store, root = self._open()
        try:
            infos = store.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
        except OSError as error:
            raise StorageError(f"cannot list {root}: {error}") from error
        states = sorted((info.path, info.size, info.mtime_ns or 0) for info in infos if info.is_file)
        return digest(json.dumps(states)).hex()

    def sources(self) -> SourceFiles | None:
        """Returns the files that the refresh has read; None if they are not known.

        Raises FormatError for too large a list.
        """
        store, root = self._open()
        try:
            with store.open_input_file(f"{root}/{SOURCES}") as file:
                limit = self.workspace.limits.limit_of("file_list")
                limit.require(f"{root}/{SOURCES}", file.size())
                rows = parquet_rows(file, f"{root}/{SOURCES}", limit).to_pylist()
        except (OSError, pa.ArrowException):
            return None
        found: dict[str, dict[str, Fingerprint]] = {}
        for row in rows:
            of_table = found.setdefault(row["table"], {})
            if row["path"] is not None:
                of_table[row["path"]] = Fingerprint(row["size"], row["mtime_ns"])
        return found

    def complete(self, sources: Mapping[str, Iterable[SourceFile]]) -> None:
        """Record the files that were read, which completes the folder; on the local disk it is flushed.

        Raises StorageError.
        """
        rows: list[dict[str, Any]] = []
        for table, files in sources.items():
            listed = [{"table": table, "path": f.path, "size": f.size, "mtime_ns": f.mtime_ns} for f in files]
            rows += listed or [{"table": table}]
        store, root = self._open()
        try:
            with store.open_output_stream(f"{root}/{SOURCES}") as stream:
                pq.write_table(pa.Table.from_pylist(rows, _SCHEMA), stream)
            if isinstance(store, fs.LocalFileSystem):
                _flush(root)
        except (OSError, pa.ArrowException) as error:
            raise StorageError(f"cannot write {root}/{SOURCES}: {error}") from error

    def remove(self) -> None:
        """Delete the folder with all of its content, if it exists. Raises StorageError."""
        self._delete("")

    def _delete(self, below: str) -> None:
        store, root = self._open()
        path = f"{root}/{below}".rstrip("/")
        try:
            if isinstance(store, fs.LocalFileSystem):
                self._delete_here(below)
            elif store.get_file_info(path).type != fs.FileType.NotFound:
                store.delete_dir(path)
        except OSError as error:
            raise StorageError(f"cannot delete {path}: {error}") from error

    def _delete_here(self, below: str) -> None:
        """Delete a folder of the local disk by descriptors: no link leads out of the workspace, or to another view."""
        root = os.path.realpath(local_path(self.workspace.location))
        with OpenedFolders([root]) as folders, suppress(FileNotFoundError):
            folders.remove_tree(os.path.join(root, self.data_location, below).rstrip("/"))

    def _open(self) -> tuple[fs.FileSystem, str]:
        return open_location(self.rows.location, self.workspace.options)


def views_with_folders(tables: Iterable[TableInfo]) -> set[TableInfo]:
    """Returns the views whose rows are among ``tables``; the views themselves may be deleted."""
    found = set()
    for table in tables:
        view, _, refresh = table.name.rpartition("/")
        if view and _REFRESH.fullmatch(refresh):
            found.add(TableInfo(table.storage_plugin, table.workspace, view))
    return found


def find_unneeded(workspace: Workspace, view: str, needed: Collection[str], before_ms: int) -> list[RefreshFolder]:
    """Returns folders of refreshes of ``view`` that began before ``before_ms`` and are not ``needed``.

    ``needed`` holds data locations.
    """
    above = f"{workspace.location.rstrip('/')}/{view.strip('/')}"
    store, root = open_location(above, workspace.options)
    found = []
    for info in store.get_file_info(fs.FileSelector(root, allow_not_found=True)):
        refresh = _REFRESH.fullmatch(info.base_name) if info.type == fs.FileType.Directory else None
        location = f"{view.strip('/')}/{info.base_name}"
        if refresh is not None and int(refresh[1]) < before_ms and location not in needed:
            found.append(RefreshFolder(workspace, location))
    return found


def _flush(root: str) -> None:
    """Flush the files below ``root`` to the disk before a commit names them."""
    for folder, _, names in os.walk(root):
        for path in (*(f"{folder}/{name}" for name in names), folder):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
