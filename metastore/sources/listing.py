"""Lists the data files of a location.

A remote store is listed with one recursive call of ``pyarrow.fs``, the local disk by a walk. The data files are those
that Spark would read. Names that begin with ``_`` or ``.`` are skipped, except a partition directory such as ``_x=1``.
Files that are still being copied are skipped, and so are empty files, which hold no rows. Files that people put beside
data are not data: texts about a table (README, LICENSE, …), checksums, scripts and pages. Only name and suffix decide
this. Every other file below the table is data, whatever its suffix. If a Spark stream writes the table, its log says
which files are data: this module finds the log, and :mod:`metastore.sources.sink_log` reads it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyarrow import fs

from metastore.errors import InvalidRequestError, NotFoundError, StorageError
from metastore.ground.threads import Threads
from metastore.lake.formats.names import SUFFIXES, format_of_suffix
from metastore.lake.formats.source_file import SourceFile
from metastore.lake.stores.arrow import lists_by_prefix, open_location
from metastore.redaction import showable
from metastore.sources.kept_folders import LOG_FOLDERS, require_not_kept
from metastore.sources.local_walk import Entry, walk

SINK_LOG = "_spark_metadata"
"""The directory of a streaming sink's log, inside the table's own directory."""

_LOGS = frozenset((SINK_LOG, *LOG_FOLDERS))
_VIEW_SUFFIX = ".view.drill"
_BESIDE_DATA = frozenset(
    ("crc", "md5", "sha1", "sha256", "sha512", "sql", "md", "rst", "html", "htm", "pdf", "sh", "py", "yaml", "yml")
)
"""Suffixes of files that are never data."""
_ABOUT_DATA = frozenset(("readme", "license", "licence", "notice", "changelog"))
"""Names, up to the first dot, of texts that are never data unless their suffix tells a format."""
_LISTING_THREADS = 8
_LISTING_THREADS_ON_OBJECT_STORES = 64
"""Directories listed at once when only some are wanted."""


@dataclass(frozen=True)
class Listing:
    """The data files of a table, sorted by directories and name.

    ``is_logged``: a stream wrote the table, and its log says which of the files hold its rows. ``has_others``: some
    files may have no suffix of a format.
    """

    location: str
    files: Sequence[SourceFile]
    is_logged: bool = False
    has_others: bool = False


@dataclass(frozen=True)
class FirstLevel:
    """The files in no directory, sorted, and the sorted names of the directories that may hold data."""

    files: Sequence[SourceFile]
    directories: Sequence[str]


def list_files(
    location: str,
    only_directories: Callable[[str], bool] | None = None,
    *,
    options: Mapping[str, str] | None = None,
    passed_over: Sequence[str] = (),
    all_files: bool = True,
) -> Listing:
    """List the data files below ``location``, or the one file that ``location`` is.

    With ``only_directories``, only first-level directories whose name it accepts are listed; files in no directory are
    always listed. Files in directories of ``passed_over`` (relative paths) are left out. Symbolic links are followed.
    Raises NotFoundError if nothing exists there, InvalidRequestError if it is a view or, unless ``all_files``, if a
    table format keeps the folder or one below it; StorageError if the store fails or a name is not UTF-8.
    """
    with _naming(location):
        return _list_location(location, only_directories, options or {}, passed_over, all_files)


def list_first_level(
    location: str,
    least_directories: int,
    *,
    options: Mapping[str, str] | None = None,
    passed_over: Sequence[str] = (),
) -> FirstLevel | None:
    """List what lies directly in ``location``; None if it has fewer directories, or if others keep it.

    Others are a stream, and table formats whose log is there; a full listing finds out more.
    Raises InvalidRequestError if one of the files is a view, StorageError as :func:`list_files`.
    """
    with _naming(location):
        store, root = open_location(location, options or {})
        entries: list[Entry]
        if location.startswith("/"):
            if not os.path.isdir(root) or _count_directories(root) < least_directories:
                return None
            entries = list(walk(root, lambda *_: False))
        else:
            try:
                entries = list(_entries(store.get_file_info(fs.FileSelector(root, allow_not_found=True))))
            except NotADirectoryError:
                return None
        names = {name for _, name, size, _ in entries if size is None}
        if names & _LOGS or names >= {"snapshot", "manifest"}:
            return None
        loose = (entry for entry in entries if entry[2] is not None)
        files = _sorted_out(location, root, loose, passed_over).files
        wanted = sorted(name for name in names if _is_data_name(name) and name not in passed_over)
        return FirstLevel(files, wanted) if len(wanted) >= least_directories else None


def list_directories(
    location: str,
    names: Sequence[str],
    *,
    options: Mapping[str, str] | None = None,
    passed_over: Sequence[str] = (),
    all_files: bool = True,
) -> Sequence[SourceFile]:
    """List the data files below the directories ``names`` of :func:`list_first_level`, sorted.

    Together with the files of the first level, these are the files of :func:`list_files`. A directory that is gone is
    empty. Raises as :func:`list_files`.
    """
    with _naming(location):
        store, root = open_location(location, options or {})
        if location.startswith("/"):
            entries = walk(root, lambda _, name: _is_data_name(name), names)
        else:
            paths = [f"{root.rstrip('/')}/{name}" for name in names]
            entries = _entries(chain.from_iterable(_trees(store, paths)))
        return _sorted_out(location, root, entries, passed_over, all_files=all_files).files


@contextmanager
def _naming(location: str) -> Iterator[None]:
    """Within, failures of the store are raised as StorageError with the location."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise StorageError(
            f"cannot list {location}: the name {error.object!r} is not UTF-8, which the metastore requires of "
            f"names; rename it"
        ) from error
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"cannot list {location}: {error}") from showable(error)


def data_files(
    location: str, root: str, infos: Iterable[fs.FileInfo], passed_over: Sequence[str]
) -> Sequence[SourceFile]:
    """Returns the data files among the files ``infos`` below ``root``, which is ``location`` on its store.

    Raises InvalidRequestError if one of them is a view.
    """
    return _sorted_out(location, root, _entries(infos), passed_over).files


def directories_at(location: str, options: Mapping[str, str] | None = None) -> list[str]:
    """Returns the sorted names of the directories directly below ``location`` that may hold data.

    The result is empty if nothing exists there. Raises StorageError if the store fails or a name is not UTF-8.
    """
    with _naming(location):
        store, root = open_location(location, options or {})
        entries = store.get_file_info(fs.FileSelector(root, allow_not_found=True))
        directories = (entry.base_name for entry in entries if entry.type == fs.FileType.Directory)
        return sorted(name for name in directories if _is_data_name(name))


def _list_location(
    location: str,
    only_directories: Callable[[str], bool] | None,
    options: Mapping[str, str],
    passed_over: Sequence[str],
    all_files: bool,
) -> Listing:
    """Files at ``location``. A prefix without objects is asked for as a single file; NotFoundError if it is none."""
    store, root = open_location(location, options)
    found = _below(store, root, only_directories) if lists_by_prefix(store) else []
    if found:
        return _sorted_out(location, root, _entries(found), passed_over, all_files=all_files)
    top = store.get_file_info(root)
    if top.type == fs.FileType.NotFound:
        if store.get_file_info(root + _VIEW_SUFFIX).is_file:
            raise _is_view(location)
        raise NotFoundError(f"there is no file or directory {location}")
    if top.is_file:
        if location.endswith(_VIEW_SUFFIX):
            raise _is_view(location)
        file = SourceFile((), top.base_name, location, top.size, top.mtime_ns or 0)
        return Listing(location, [file] if top.size else [])
    if location.startswith("/"):
        entries = _walk_files(root, only_directories)
    else:
        entries = _entries(_below(store, root, only_directories))
    return _sorted_out(location, root, entries, passed_over, all_files=all_files)


def _below(store: fs.FileSystem, root: str, is_wanted: Callable[[str], bool] | None) -> Sequence[fs.FileInfo]:
    """Yields the entries below a directory, but only the wanted ones of its own directories.

    Yields nothing if the directory does not exist.
    """
    if is_wanted is None:
        return store.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
    return _descend(store, root, is_wanted)


def _walk_files(root: str, is_wanted: Callable[[str], bool] | None) -> Iterator[Entry]:
    """Yields the local files below ``root``; only the wanted ones of its own directories are descended into."""
    top = len(root.rstrip("/")) + 1

    def descends(path: str, name: str) -> bool:
        if not _is_data_name(name):
            return False
        return is_wanted is None or "/" in path[top:] or is_wanted(name)

    return walk(root, descends)


def _entries(infos: Iterable[fs.FileInfo]) -> Iterator[Entry]:
    """Yields Arrow's entries in the walk's form; an entry that is neither file nor directory has no bytes."""
    for info in infos:
        # Only files have a size. Arrow makes a new type object for each request, which would cost more than all other
        # work.
        size: int | None = info.size
        if size is None and info.type != fs.FileType.Directory:
            size = 0
        yield info.path, info.base_name, size, info.mtime_ns


def _descend(store: fs.FileSystem, root: str, is_wanted: Callable[[str], bool]) -> Sequence[fs.FileInfo]:
    first = store.get_file_info(fs.FileSelector(root, allow_not_found=True))
    directories = [entry for entry in first if entry.type == fs.FileType.Directory]
    chosen = [entry for entry in directories if _is_data_name(entry.base_name) and is_wanted(entry.base_name)]
    files = [entry for entry in first if entry.type != fs.FileType.Directory or entry.base_name in _LOGS]
    below = _trees(store, [entry.path for entry in chosen])
    return list(chain(files, chosen, chain.from_iterable(below)))


def _trees(store: fs.FileSystem, directories: Sequence[str]) -> list[Sequence[fs.FileInfo]]:
    """Returns all entries below each of ``directories``, listed concurrently."""
    at_once = _LISTING_THREADS_ON_OBJECT_STORES if lists_by_prefix(store) else _LISTING_THREADS
    with Threads(at_once) as threads:
        selected = (fs.FileSelector(path, recursive=True, allow_not_found=True) for path in directories)
        return list(threads.map(store.get_file_info, selected))


def _sorted_out(
    location: str, root: str, entries: Iterable[Entry], passed_over: Sequence[str], *, all_files: bool = True
) -> Listing:
    """The listing of data files among ``entries``, in order, and whether Spark's sink log or other files are there."""
    root = root.rstrip("/")
    if passed_over:
        own = tuple(f"{root}/{each}/" for each in passed_over)
        entries = (entry for entry in entries if not f"{entry[0]}/".startswith(own))
    is_logged = has_others = False
    known: dict[str, tuple[str, ...] | None] = {"": ()}
    files: list[SourceFile] = []
    start = len(root)
    for path, name, size, mtime_ns in entries:
        if not _is_data_name(name):
            is_logged = is_logged or path[start:] == f"/{SINK_LOG}"
            if name in LOG_FOLDERS:
                known[path[start:]] = None
            continue
        parent = path[start : -len(name) - 1]
        if parent not in known:
            known[parent] = _directories(parent)
        directories = known[parent]
        if directories is None or not size:
            continue
        if name.endswith(_VIEW_SUFFIX):
            raise _is_view(location + path[start:])
        if name[name.rfind(".") + 1 :] not in SUFFIXES:  # false for nearly all names
            if _lies_beside_data(name):
                continue
            has_others = True
        files.append(SourceFile(directories, name, location + path[start:], size, mtime_ns or 0))
    if not all_files:
        require_not_kept(location, known, files)
    files.sort()
    # Some stores list no directories, only the files in them.
    return Listing(location, files, is_logged or f"/{SINK_LOG}" in known, has_others)


def _directories(parent: str) -> tuple[str, ...] | None:
    """Returns the directory names of a path relative to the table, or None if one of them is hidden."""
    names = tuple(parent.split("/")[1:])
    return names if all(map(_is_data_name, names)) else None


def _count_directories(root: str) -> int:
    """Returns how many directories a local directory has; asks the disk about none of its files."""
    with os.scandir(root) as entries:
        return sum(entry.is_dir() for entry in entries)


def _is_data_name(name: str) -> bool:
    if name[:1] == "_":
        return "=" in name
    return name[:1] != "." and not name.endswith("._COPYING_")


def _lies_beside_data(name: str) -> bool:
    """Whether a file, by its name, is one that people put beside data."""
    stem, *suffixes = name.lower().split(".")
    if not suffixes:
        return stem in _ABOUT_DATA
    return suffixes[-1] in _BESIDE_DATA or (stem in _ABOUT_DATA and format_of_suffix(name) is None)


def _is_view(path: str) -> InvalidRequestError:
    return InvalidRequestError(f"{path} is a view: it has no files of its own; analyze the tables it reads")
