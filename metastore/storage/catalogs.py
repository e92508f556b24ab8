"""Opening the configured catalog: the file system itself, or any catalog that PyIceberg can load.

Nothing is asked of a catalog before its first use. Files go through the FileIOs of this package, whatever the catalog,
unless its properties name another one (``py-io-impl``).
"""

from __future__ import annotations

import io
import os
import threading
import uuid
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchPropertyException, NotInstalledError
from pyiceberg.io import OutputFile, OutputStream, load_file_io
from pyiceberg.typedef import Identifier

from metastore.config.settings import CatalogSettings, ComponentSettings, IcebergSettings
from metastore.errors import ConfigError, StorageError
from metastore.storage.catalog_errors import is_of_database, of_a_catalog, said
from metastore.storage.file_system_catalog import FileSystemCatalog
from metastore.storage.hadoop_properties import file_io_properties
from metastore.storage.local import LocalFile, LocalFileIO, local_path, make_durable
from metastore.storage.locations import is_local

_KEY: Final = "drill.metastore.iceberg.catalog"
_EXTRAS: Final = {"sql": "postgres", "glue": "aws", "dynamodb": "aws", "bigquery": "bigquery"}
_ONE_CONNECTION: Final = ("hive", "in-memory")


class ConfiguredCatalog:
    """The catalog of ``iceberg``, opened when it is first needed; shared by all components and threads."""

    def __init__(self, iceberg: IcebergSettings) -> None:
        self.settings: CatalogSettings = iceberg.catalog
        self._iceberg = iceberg
        self._opening = threading.Lock()
        one_connection = iceberg.catalog.type in _ONE_CONNECTION
        self.turn: AbstractContextManager[object] = threading.RLock() if one_connection else nullcontext()
        """Held during each call: PyIceberg's clients for some catalogs are one connection, which threads must share."""
        if iceberg.catalog.type == "filesystem":
            # Opening asks nothing of the store, and says at once when it is not one that is served.
            self.opened  # noqa: B018

    @cached_property
    def _catalog(self) -> Catalog:
        iceberg = self._iceberg
        if iceberg.catalog.type == "filesystem":
            return FileSystemCatalog("metastore", iceberg.base_location, **iceberg.config_properties)
        return _load(iceberg.catalog, _store_properties(iceberg.base_location, iceberg.config_properties))

    @property
    def opened(self) -> Catalog:
        """PyIceberg's catalog. ConfigError for what is missing or wrong, StorageError when it does not answer."""
        with self._opening:
            return self._catalog

    @property
    def validates_here(self) -> bool:
        """Whether requirements are checked in this process, and so may be of a kind that only we know."""
        return self.settings.type != "rest"

    @property
    def store_properties(self) -> Mapping[str, str]:
        """What opens the store of the component tables, by Hadoop's keys or PyIceberg's."""
        return self._iceberg.config_properties

    def identifier_of(self, component: ComponentSettings) -> Identifier:
        """Name of the component's table: its folder on the file system, elsewhere its own name in the namespace."""
        if self.settings.type == "filesystem":
            return tuple(part for part in component.location.split("/") if part)
        return (*self.settings.namespace, component.name)

    def location_of(self, component: ComponentSettings) -> str:
        """Folder of the component's table, the same on every catalog."""
        return f"{self._iceberg.base_location.rstrip('/')}/{component.location}"

    def close(self) -> None:
        """Give connections back; a later use opens new ones."""
        with self._opening:
            if "_catalog" in self.__dict__:
                self._catalog.close()

    def __str__(self) -> str:
        """How people name it; holds no secret."""
        if self.settings.type == "filesystem":
            return f"the file system at {self._iceberg.base_location}"
        return f"namespace {'.'.join(self.settings.namespace)} of the {self.settings.type} catalog {self.settings.name}"


class DurableFileIO(LocalFileIO):
    """Local files for catalogs that keep pointers elsewhere: metadata is on the disk before anything points to it."""

    def new_output(self, location: str) -> OutputFile:
        """The file to create; metadata files are flushed when they are closed."""
        return _MetadataFile(location) if location.endswith(".metadata.json") else super().new_output(location)


class _MetadataFile(LocalFile):
    def create(self, overwrite: bool = False) -> OutputStream:
        return _DurableStream(self.location, overwrite)


class _DurableStream(io.BytesIO):
    """Written when it is closed. StorageError: no catalog can point to the file yet, so nothing was changed."""

    def __init__(self, location: str, overwrite: bool) -> None:
        super().__init__()
        self._location = location
        self._mode = "wb" if overwrite else "xb"

    def close(self) -> None:
        if self.closed:
            return
        try:
            path = local_path(self._location)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, self._mode) as file:
                file.write(self.getbuffer())
            make_durable([self._location])
        except OSError as error:
            raise StorageError(f"cannot write {self._location}: {error}; nothing was changed") from error
        finally:
            super().close()


def _store_properties(base_location: str, properties: Mapping[str, str]) -> dict[str, str]:
    if is_local(base_location):
        return {"py-io-impl": f"{__name__}.{DurableFileIO.__name__}", **properties}
    impl = "metastore.storage.object_store_io.ObjectFileIO"
    return {"py-io-impl": impl, **file_io_properties(base_location, properties)}


def _load(settings: CatalogSettings, store_properties: Mapping[str, str]) -> Catalog:
    properties = {**store_properties, **settings.properties, "type": settings.type}
    if settings.type == "in-memory":
        # SQLite's plain ":memory:" would be another database for each thread.
        properties.setdefault("uri", f"sqlite:///file:/{uuid.uuid4()}?vfs=memdb&uri=true")
    try:
        load_file_io(properties)  # A FileIO that cannot be had is found out here, not by the first file.
        return _load_even_in_a_race(settings.name, properties)
    except NotInstalledError as error:
        extra = _EXTRAS.get(settings.type)
        hint = f"; pip install 'metastore[{extra}]'" if extra else ""
        raise ConfigError(f"{_KEY}.type = {settings.type}: its library is not installed ({error}){hint}") from error
    except (ValueError, NoSuchPropertyException) as error:
        raise ConfigError(f"{_KEY} of type {settings.type} cannot be used: {said(error)}") from error
    except Exception as error:
        if not of_a_catalog(error):
            raise
        raise StorageError(f"cannot open the {settings.type} catalog {settings.name}: {said(error)}") from error


def _load_even_in_a_race(name: str, properties: Mapping[str, str]) -> Catalog:
    """Another process that makes a SQL catalog's tables at the same moment makes this one fail, once."""
    try:
        return load_catalog(name, **properties)
    except Exception as error:
        if not is_of_database(error):
            raise
    return load_catalog(name, **properties)
