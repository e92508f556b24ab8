"""Opens any location as an Arrow file system: the local disk, and each known store."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote, urlencode

import pyarrow as pa
from pyarrow import fs

from metastore.errors import InvalidRequestError
from metastore.lake.stores.locations import KNOWN, known_store
from metastore.lake.stores.store_module import store_module
from metastore.redaction import showable


def open_location(location: str, options: Mapping[str, str] | None = None) -> tuple[fs.FileSystem, str]:
    """Return a location's file system and the path on it. InvalidRequestError for an unknown scheme.

    ``location`` is plain text: a blank, a ``#`` or a ``%20`` is part of a name. ``options`` are Hadoop's keys; on
    object stores also PyIceberg's and those of pyarrow's clients, see :mod:`metastore.lake.stores.arrow_options`.
    Raises ConfigError for values that a store's client refuses.
    """
    if location.startswith("/"):
        return fs.LocalFileSystem(), location
    if known_store(location) is not None:
        return store_module(location).open_data(location, options or {})
    return _remote(location, tuple(sorted((options or {}).items())))


def lists_by_prefix(store: fs.FileSystem) -> bool:
    """Whether listing a path that is no directory returns nothing, so that no check is needed before."""
    return isinstance(store, fs.PyFileSystem) and getattr(store.handler, "lists_by_prefix", False)


@lru_cache(maxsize=64)
def _remote(location: str, options: tuple[tuple[str, str], ...]) -> tuple[fs.FileSystem, str]:
    scheme, separator, place = location.partition("://")
    host, slash, path = place.partition("/")
    uri = f"{scheme}{separator}{host}{slash}{quote(path)}{'?' if options else ''}{urlencode(options)}"
    try:
        return fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        known = ", ".join(("file", *(each for store in KNOWN for each in store.schemes)))
        raise InvalidRequestError(f"{location} has a scheme that is not known; there are {known}") from showable(error)
