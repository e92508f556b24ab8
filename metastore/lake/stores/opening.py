"""Opens the store of a location: its pointers and its files, from one configuration."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.io import FileIO

from metastore.lake.stores.local import LocalFileIO
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.pointer_store import LOCAL_POINTERS, PointerStore
from metastore.lake.stores.store_module import store_module


def open_store(location: str, properties: Mapping[str, str]) -> tuple[PointerStore, FileIO]:
    """Return pointers and files of the store of ``location``; ``properties`` are Hadoop's and PyIceberg's.

    Sends no request yet. Raises StorageError for an unsupported store, ConfigError for properties that its client
    refuses.
    """
    if is_local(location):
        return LOCAL_POINTERS, LocalFileIO(dict(properties))
    module = store_module(location)
    files = module.open_files(location, properties)
    return module.open_pointers(location, files), files
