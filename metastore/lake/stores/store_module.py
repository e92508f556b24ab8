"""The functions that the module of a store has, and the module for a location, which is loaded on first use."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from metastore.lake.stores.locations import StoreLocation, known_store

if TYPE_CHECKING:
    from pyarrow import fs

    from metastore.lake.stores.pointer_store import PointerStore
    from metastore.lake.stores.store_files import StoreFiles


class StoreModule(Protocol):
    """What the module of a store has; ``location`` is on that store. None of them sends a request."""

    def open_files(self, location: str, properties: Mapping[str, str]) -> StoreFiles:
        """Return the files of a table or a metastore; ``properties`` are Hadoop's and PyIceberg's."""

    def open_pointers(self, location: str, files: StoreFiles) -> PointerStore:
        """Return the pointers beside ``files``. Raises ConfigError for properties that the client refuses."""

    def open_data(self, location: str, options: Mapping[str, str]) -> tuple[fs.FileSystem, str]:
        """Return a file system for plain data and the path on it; ``options`` are those of a storage plugin.

        Raises ConfigError for values that the client refuses.
        """


def store_module(location: str) -> StoreModule:
    """Return the module of the store of ``location``. Raises StorageError for an unsupported store."""
    store = known_store(location)
    if store is None:
        StoreLocation.parse(location)  # says which stores there are
        raise AssertionError(location)
    return cast("StoreModule", import_module(store.module))
