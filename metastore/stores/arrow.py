"""Any location as a file system of Arrow: the local disk, object stores, HDFS."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote, urlencode

import pyarrow as pa
from pyarrow import fs

from metastore.errors import InvalidRequestError
from metastore.redaction import showable
from metastore.stores.hdfs_arrow import HdfsArrow
from metastore.stores.webhdfs import Clusters

HDFS = ("hdfs://", "webhdfs://", "swebhdfs://")


def open_location(location: str, options: Mapping[str, str] | None = None) -> tuple[fs.FileSystem, str]:
    """The file system of a location and the path on it. InvalidRequestError for a scheme that nothing here knows.

    ``location`` is plain text: a blank, a ``#`` or a ``%20`` is part of a name. ``options`` are those of pyarrow's
    client; on HDFS, Hadoop's own keys.
    """
    if location.startswith("/"):
        return fs.LocalFileSystem(), location
    return _remote(location, tuple(sorted((options or {}).items())))


@lru_cache(maxsize=64)
def _remote(location: str, options: tuple[tuple[str, str], ...]) -> tuple[fs.FileSystem, str]:
    if location.startswith(HDFS):
        return fs.PyFileSystem(HdfsArrow(Clusters(dict(options)))), location
    scheme, separator, place = location.partition("://")
    host, slash, path = place.partition("/")
    uri = f"{scheme}{separator}{host}{slash}{quote(path)}{'?' if options else ''}{urlencode(options)}"
    try:
        return fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRequestError(f"{location} is no location pyarrow can open: {error}") from showable(error)
