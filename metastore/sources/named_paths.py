"""Looks up single files of a table by path, without a listing: whether they exist, their size and time.

Place in the flow: ANALYZE of named paths. The rules for data files are those of :mod:`metastore.sources.listing`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
from pyarrow import fs

from metastore.errors import InvalidRequestError, StorageError
from metastore.ground.threads import Threads
from metastore.lake.formats.source_file import SourceFile
from metastore.lake.stores.arrow import open_location
from metastore.lake.stores.locations import one_spelling
from metastore.redaction import showable
from metastore.sources.listing import SINK_LOG, data_files
from metastore.sources.source_table import SourceTable

_AT_ONCE: Final = 64
"""Number of files looked up concurrently; each costs one request on an object store."""


def files_at(source: SourceTable, paths: Iterable[str]) -> Mapping[str, SourceFile | None]:
    """Returns the table's data file at each of ``paths``, or None, by the path as listings spell it.

    Raises InvalidRequestError for a path outside of the table, a directory, a view, or a table whose files are in a
    stream's log; StorageError if the store fails.
    """
    wanted = sorted({path_within(source, path) for path in paths})
    if not wanted:
        return {}
    try:
        store, root = open_location(source.location, source.options)
        start = len(source.location)
        log = f"{root}/{SINK_LOG}"
        with Threads(min(_AT_ONCE, len(wanted) + 1), "metastore-paths") as threads:
            places = [log, *(root + path[start:] for path in wanted)]
            [logged, *found] = threads.map(store.get_file_info, places)
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"cannot look at files of {source.location}: {error}") from showable(error)
    if logged.type == fs.FileType.Directory:
        raise InvalidRequestError(
            f"{source.table} is written by a stream, whose log {SINK_LOG} says which files count; analyze it whole: "
            f"metastore analyze {source.table}"
        )
    for path, info in zip(wanted, found, strict=True):
        if info.type == fs.FileType.Directory:
            raise InvalidRequestError(f"{path} is a directory; name its files, or name partitions instead of paths")
    there = data_files(source.location, root, [info for info in found if info.is_file], source.passed_over)
    return dict.fromkeys(wanted) | {file.path: file for file in there}


def path_within(source: SourceTable, path: str) -> str:
    """Returns ``path`` as listings of the table spell it; raises InvalidRequestError if it is not below the table.

    A path that is neither absolute nor a URI is relative to the table.
    """
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequestError(f"{path!r} is not UTF-8, which the metastore requires of names") from error
    given = path.removeprefix("file://") if path.startswith("file:///") else one_spelling(path)
    if "://" not in given and not given.startswith("/"):
        given = f"{source.location}/{given}"
    own = f"{one_spelling(source.location)}/"
    below = given.removeprefix(own)
    if not given.startswith(own) or not below or {"", ".", ".."} & set(below.split("/")):
        raise InvalidRequestError(f"{path} is no path of a file below {source.location}, where {source.table} lies")
    return f"{source.location}/{below}"
