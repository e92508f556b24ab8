"""Lists the files for ``add_files``, and reads partition values from their paths. Pure except for the listing itself.

Folders named ``column=value`` are partitions, as in Hive. For all other folders below a location, the call decides:
they are refused, skipped, or included.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from pyiceberg.io import FileIO

from metastore.engines.engine import EngineFor
from metastore.errors import InvalidRequestError, NotFoundError, ProcedureError
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.trees import Folder, StoredFile, stored_files
from metastore.sources.directories import column_of
from metastore.sources.directory_values import NULL_DIRECTORY
from metastore.sources.hive.listing import NestedDirectories

_DECODED_BY_SOME: Final = ("%", "?", "#")


@dataclass(frozen=True)
class ImportedFile:
    """One file to add. ``keys`` are the partition values in its path (None for null), by lower-case column name."""

    location: str
    size: int | None
    keys: tuple[tuple[str, str | None], ...] = ()


def list_files(location: str, io: FileIO, engine: EngineFor, recursive: NestedDirectories) -> list[ImportedFile]:
    """Returns the data files below ``location``, sorted. Empty and hidden files are skipped.

    Raises NotFoundError if there is no file, and InvalidRequestError if there are folders that the call must decide
    about.
    """
    root = location.rstrip("/")
    files = list(stored_files([Folder(io, root, ("_",))], engine))
    if not files:
        raise NotFoundError(f"Location not found, or there is no file in it: {location}")
    return sorted(_below(root, files, recursive), key=lambda file: file.location)


def files_at(locations: Iterable[str]) -> list[ImportedFile]:
    """Returns the files that a call names, in its order."""
    return [ImportedFile(location, None, tuple(_keys(posixpath.dirname(location)))) for location in locations]


def matching(files: Sequence[ImportedFile], values: Mapping[str, str] | None, table: str) -> list[ImportedFile]:
    """Returns the ``files`` whose paths have the ``values`` partition values; column names regardless of case.

    Raises ProcedureError if there are files but none matches.
    """
    if not values:
        return list(files)
    needed = {(name.lower(), None if value == NULL_DIRECTORY else value) for name, value in values.items()}
    found = [file for file in files if needed <= set(file.keys)]
    if files and not found:
        shown = ", ".join(f"{name}={value}" for name, value in values.items())
        raise ProcedureError(f"Cannot find any matching partitions in table {table}: no path of a file says {shown}")
    return found


def _below(root: str, files: Sequence[StoredFile], recursive: NestedDirectories) -> Iterator[ImportedFile]:
    """Files below ``root`` with their partition keys; empty and hidden ones are left out, strange folders by choice."""
    start = _start(root, files)
    for file in files:
        relative = file.location[start:].lstrip("/")
        folders = posixpath.dirname(relative).split("/") if "/" in relative else []
        if not file.size or any(name.startswith("_") and "=" not in name for name in relative.split("/")):
            continue
        if any("=" not in name for name in folders):
            if recursive is NestedDirectories.IGNORE:
                continue
            if recursive is NestedDirectories.REFUSE:
                raise InvalidRequestError(
                    f"Found a sub-directory that is no partition: {posixpath.dirname(file.location)}; set "
                    "recursive_directory to true to add the files below such folders, or to false to leave them out"
                )
        yield ImportedFile(
            _spell_location(root, relative, file.location), file.size, tuple(_keys(posixpath.dirname(relative)))
        )


def _start(root: str, files: Sequence[StoredFile]) -> int:
    """Returns the position in listed locations after the root; listings of the local disk have plain paths."""
    if files[0].location.startswith(f"{root}/"):
        return len(root)
    path = root[root.index("/") :]
    while path.startswith("//"):
        path = path[1:]
    return len(path) if files[0].location.startswith(f"{path}/") else len(unquote(path))


def _spell_location(root: str, relative: str, location: str) -> str:
    """Returns the location in the spelling of the root; a plain path if URI readers would decode it differently."""
    if is_local(root) and any(mark in location for mark in _DECODED_BY_SOME):
        return location
    return f"{root}/{relative}"


def _keys(folder: str) -> Iterator[tuple[str, str | None]]:
    for name in folder.split("/"):
        if (found := column_of(name)) is not None:
            column, value = found
            yield column.lower(), None if value == NULL_DIRECTORY else unquote(value)
