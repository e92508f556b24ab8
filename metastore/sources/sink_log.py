"""The log of a Spark streaming sink: which files below a directory are rows of its table.

Place in the flow: :mod:`metastore.sources.listing` lists a table's files. If a stream writes them, the directory has
``_spark_metadata`` with a file for each batch, which names the files that the batch added. Spark reads such a table
only by that log, so files of failed batches and files of other programs do not count. The metastore does the same.

Promise: the files are those that Spark would read, or an error is raised. As in Spark, only a table's own directory may
contain a log. Tables of a Hive Metastore do not use it: their files are those that Hive reads, and Hive ignores the
log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from metastore.errors import FormatError, InvalidRequestError, NotFoundError, StorageError
from metastore.lake.formats.source_file import SourceFile
from metastore.lake.stores.arrow import open_location
from metastore.sources.listing import SINK_LOG, Listing

_BATCH: Final = re.compile(r"(\d+)(\.compact)?")
_VERSION: Final = "v1"

_MOST_BYTES: Final = 512 << 20
"""The most bytes that are read of one batch.

A compacted batch names every file of the table, at about 200 bytes each.
"""


def logged_files(listing: Listing, options: Mapping[str, str], *, whole: bool) -> Sequence[SourceFile]:
    """Returns the files of ``listing`` that its log names, in order.

    ``whole``: no directory was left out of the listing. Raises NotFoundError for a file in the log that does not exist,
    InvalidRequestError for a log of files elsewhere (the table was moved or copied), FormatError for an invalid log,
    StorageError if it cannot be read.
    """
    folder = f"{listing.location}/{SINK_LOG}"
    try:
        sizes = {_below(path, listing.location): size for path, size in _sizes_of_added(folder, options).items()}
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"the streaming sink's log {folder} cannot be read: {error}") from error
    found = {file.path[len(listing.location) + 1 :]: file for file in listing.files}
    gone = (name for name, size in sizes.items() if size and name not in found)
    if whole and (name := next(gone, None)) is not None:
        raise NotFoundError(f"{listing.location}/{name} is gone, and the streaming sink's log {folder} names it")
    return [file for name, file in found.items() if name in sizes]


def _sizes_of_added(folder: str, options: Mapping[str, str]) -> dict[str, int]:
    """Returns the sizes, by URI, of all files that were added and not deleted."""
    entries = [entry for batch in _batches(folder, options) for entry in batch]
    deleted = {entry["path"] for entry in entries if entry.get("action") == "delete"}
    return {entry["path"]: entry["size"] for entry in entries if entry["path"] not in deleted}


def _batches(folder: str, options: Mapping[str, str]) -> Iterator[list[Mapping[str, Any]]]:
    """Yields the entries of each batch, beginning with the last compacted one."""
    store, root = open_location(folder, options)
    numbers: dict[int, str] = {}
    first = 0
    for entry in store.get_file_info(fs.FileSelector(root)):
        if (match := _BATCH.fullmatch(entry.base_name)) is not None:
            if (entry.size or 0) > _MOST_BYTES:
                raise FormatError(
                    f"the batch {entry.base_name} of the streaming sink's log {folder} has {entry.size} bytes; at most "
                    f"{_MOST_BYTES} are read of one, and no setting raises that. Analyze a copy of the table without "
                    "its log"
                )
            number = int(match[1])
            if match[2]:
                first = max(first, number)
            if match[2] or number not in numbers:
                numbers[number] = entry.path
    last = max(numbers, default=first - 1)
    for number in range(first, last + 1):
        if number not in numbers:
            raise FormatError(f"the streaming sink's log {folder} lacks batch {number}")
        with store.open_input_stream(numbers[number], compression=None) as source:
            yield _entries(source.read(), f"{folder}/{number}")


def _entries(content: bytes, place: str) -> list[Mapping[str, Any]]:
    try:
        version, *lines = content.decode().splitlines()
        entries = [json.loads(line) for line in lines]
        if version != _VERSION or not all(type(entry["path"]) is str and "size" in entry for entry in entries):
            raise FormatError(f"{place} is no batch of version {_VERSION} of a streaming sink's log")
    except (ValueError, TypeError, KeyError) as error:
        raise FormatError(f"{place} is no batch of a streaming sink's log: {error!r}") from error
    return entries


def _below(uri: str, location: str) -> str:
    """Returns the path of a logged file below the table."""
    path = unquote(urlsplit(uri).path)
    place = location.partition("://")[2]
    own = f"/{place.partition('/')[2]}".rstrip("/") if place else location
    if not path.startswith(f"{own}/"):
        raise InvalidRequestError(
            f"the streaming sink's log in {location} names {path}, which lies elsewhere: the table was moved or copied "
            f"and Spark would not read what is here; remove {SINK_LOG} to have all files counted"
        )
    return path[len(own) + 1 :]
