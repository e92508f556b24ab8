"""Opens catalogs, own and foreign: the file system itself, or any catalog that PyIceberg can load.

No request is sent before the first use. Files are accessed through this package's FileIOs, whatever the catalog, unless
its properties name another one (``py-io-impl``).
"""

from __future__ import annotations

import io
import os
import re
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, Final

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchPropertyException, NotInstalledError
from pyiceberg.io import OutputFile, OutputStream, load_file_io
from pyiceberg.typedef import Identifier
from pyiceberg.utils.config import Config, merge_config

from metastore.config.catalogs import CatalogSettings
from metastore.config.limits import LimitSettings
from metastore.config.settings import ComponentSettings, IcebergSettings
from metastore.errors import ConfigError, StorageError
from metastore.ground.distribution import install_command
from metastore.ground.forks import renew_in_child
from metastore.lake.iceberg.catalogs.catalog_errors import error_text, is_of_database, of_a_catalog
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.lake.iceberg.catalogs.iceberg_private import writing_metadata_by
from metastore.lake.iceberg.catalogs.lossless_metadata import write_metadata
from metastore.lake.stores.arrow_io import BoundedArrowFileIO
from metastore.lake.stores.local import LocalFile, LocalFileIO, local_path, make_durable, make_folder
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.store_module import store_module
from metastore.lake.stores.whole_files import CreatedAtClose
from metastore.redaction import remember, showable

_ARROW: Final = f"{BoundedArrowFileIO.__module__}.{BoundedArrowFileIO.__name__}"
_KEY: Final = "drill.metastore.iceberg.catalog"
_EXTRAS: Final = {"sql": "postgres", "glue": "aws", "dynamodb": "aws", "bigquery": "bigquery"}
_ONE_LEVEL: Final = ("glue", "hive")
_WITHOUT_COMMITS: Final = ("dynamodb", "bigquery")
_GLUE_RETRIES: Final = "glue.max-retries"
_ONE_CONNECTION: Final = ("hive", "in-memory")


_SQLITE_FILE: Final = re.compile(r"sqlite(?:\+\w+)?:///(?!file:|:memory:)([^?]+)(?:\?.*)?")


class CatalogSource(ABC):
    """One catalog by its settings, opened on first use; threads may share it.

    ``key`` names it in messages; ``store_properties`` are the properties to access its files.
    """

    def __init__(self, settings: CatalogSettings, key: str, store_properties: Mapping[str, str]) -> None:
        self.settings = settings
        self.store_properties: Mapping[str, str] = store_properties
        """Properties that open the tables' store, in Hadoop's keys or PyIceberg's."""
        self._key = key
        self._begin()
        renew_in_child(self._begin)
        if settings.type == "filesystem":
            # Opening sends no request, and raises at once for an unsupported store.
            self.catalog  # noqa: B018

    def _begin(self) -> None:
        """Start without a catalog: a forked child must not use its parent's connections."""
        self._opening = threading.Lock()
        one_connection = self.settings.type in _ONE_CONNECTION
        self.turn: AbstractContextManager[object] = threading.RLock() if one_connection else nullcontext()
        """Held during each call: some PyIceberg clients have one connection, which threads must share."""
        vars(self).pop("_catalog", None)

    @cached_property
    def _catalog(self) -> Catalog:
        return self._open()

    @abstractmethod
    def _open(self) -> Catalog:
        """Open PyIceberg's catalog. Raises as :attr:`catalog`."""

    @property
    def catalog(self) -> Catalog:
        """PyIceberg's catalog. ConfigError for missing or wrong settings, StorageError if it does not answer."""
        with self._opening:
            return self._catalog

    @property
    def validates_here(self) -> bool:
        """Whether this process checks a commit's requirements, so that they may be of this package's own kinds."""
        return self.settings.type != "rest"

    def close(self) -> None:
        """Release connections; a later use opens new ones.

        Does nothing while a thread is opening the catalog, because it would have to wait for that thread.
        """
        if self._opening.acquire(blocking=False):
            try:
                if "_catalog" in self.__dict__:
                    self._catalog.close()
            finally:
                self._opening.release()


class ConfiguredCatalog(CatalogSource):
    """The catalog of the settings ``iceberg``, shared by all components."""

    def __init__(self, iceberg: IcebergSettings) -> None:
        self._iceberg = iceberg
        super().__init__(iceberg.catalog, _KEY, {**iceberg.config_properties, **iceberg.limits.properties})

    def _open(self) -> Catalog:
        base, properties = self._iceberg.base_location, self.store_properties
        if self.settings.type == "filesystem":
            return FileSystemCatalog("metastore", base, **properties)
        if self.settings.type in _ONE_LEVEL and len(self.settings.namespace) > 1:
            raise ConfigError(
                f"{_KEY}.namespace = {'.'.join(self.settings.namespace)}: a {self.settings.type} catalog has "
                "namespaces of one level; give a name without dots"
            )
        if self.settings.type in _WITHOUT_COMMITS:
            raise ConfigError(
                f"{_KEY}.type = {self.settings.type}: PyIceberg cannot commit to such a catalog, only read it. Choose "
                "another type for the metastore; tables of this one can be read by drill.metastore.catalogs"
            )
        return _load(self.settings, self._key, _store_properties(base, properties))

    def identifier_of(self, component: ComponentSettings) -> Identifier:
        """Return the name of a component's table: its folder on the file system, else its own name in the namespace."""
        if self.settings.type == "filesystem":
            return tuple(part for part in component.location.split("/") if part)
        return (*self.settings.namespace, component.name)

    def location_of(self, component: ComponentSettings) -> str:
        """Return the folder of a component's table, the same on every catalog."""
        return f"{self._iceberg.base_location.rstrip('/')}/{component.location}"

    def __str__(self) -> str:
        """Return a name for messages, without secrets; it is unique, so it also identifies the owner of a table."""
        settings = self.settings
        if settings.type == "filesystem":
            return f"the file system at {self._iceberg.base_location}"
        named = f"namespace {'.'.join(settings.namespace)} of the {settings.type} catalog {settings.name}"
        if uri := settings.properties.get("uri"):
            named += f" at {_without_secrets(uri)}"
        if settings.type == "rest" and (warehouse := settings.properties.get("warehouse")):
            named += f", warehouse {warehouse}"
        return named


class ForeignCatalog(CatalogSource):
    """A catalog of ``drill.metastore.catalogs``, called ``name`` there; its tables may have any owner and location.

    If the catalog's ``warehouse`` shows its store, files are accessed through this package's FileIOs, else through the
    one that PyIceberg chooses for a location.
    """

    def __init__(self, name: str, settings: CatalogSettings, limits: LimitSettings) -> None:
        self.name = name
        self.may_create = False
        """Whether a missing database may be created; otherwise its path is taken for a mistake."""
        super().__init__(settings, f"drill.metastore.catalogs.{name}", {**settings.properties, **limits.properties})

    def _open(self) -> Catalog:
        if not self.may_create:
            self._require_database()
        properties = dict(self.store_properties)
        if self.settings.type == "filesystem":
            return FileSystemCatalog(self.settings.name, properties.pop("warehouse"), **properties)
        warehouse = properties.get("warehouse", "")
        is_place = "://" in warehouse or warehouse.startswith(("/", "file:"))
        if is_place:
            return _load(self.settings, self._key, _store_properties(warehouse, properties))
        return _load(self.settings, self._key, {"py-io-impl": _ARROW, **properties})

    def _require_database(self) -> None:
        """Raise StorageError if the catalog is a missing SQLite file; SQLite would create an empty one."""
        file = sqlite_file(self.settings.properties.get("uri", ""))
        if self.settings.type == "sql" and file is not None and not os.path.exists(file):
            raise StorageError(
                f"{file}, the database of {self._key}.uri, is not there. Is the path right? A new catalog is made "
                f"there by CREATE SCHEMA {self.name}.<schema>, or by "
                f"metastore.connect(conf).catalogs.open({self.name!r})"
            )

    def __str__(self) -> str:
        """Return a name for messages, without secrets."""
        return f"the {self.settings.type} catalog {self.name}"


class DurableFileIO(LocalFileIO):
    """Local files for catalogs that keep pointers elsewhere: metadata is on disk before a pointer refers to it."""

    def new_output(self, location: str) -> OutputFile:
        """Return the file to create; metadata files are flushed when they are closed."""
        return _MetadataFile(location) if location.endswith(".metadata.json") else super().new_output(location)


class _MetadataFile(LocalFile):
    def create(self, overwrite: bool = False) -> OutputStream:
        return _DurableStream(self.location, overwrite)


class _DurableStream(CreatedAtClose, io.BytesIO):
    """A file that is written on close. StorageError: no catalog can refer to it yet, so nothing was changed.

    FileNotFoundError: the file was removed before it was flushed, as happens to metadata of older versions when others
    commit and expire meanwhile. If this happens during a commit, another writer has won: treat it as a conflict.
    """

    def __init__(self, location: str, overwrite: bool) -> None:
        super().__init__()
        self._location = location
        self._mode = "wb" if overwrite else "xb"

    def close(self) -> None:
        """Write the file and make it durable; a second call does nothing."""
        if self.closed:
            return
        try:
            path = local_path(self._location)
            make_folder(os.path.dirname(path))
            with open(path, self._mode) as file:
                file.write(self.getbuffer())
        except OSError as error:
            raise self._not_written(error) from error
        finally:
            super().close()
        try:
            make_durable([self._location])
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._not_written(error) from error

    def _not_written(self, error: OSError) -> StorageError:
        return StorageError(f"cannot write {self._location}: {error}; nothing was changed")


def sqlite_file(uri: str) -> str | None:
    """Return the path of the SQLite database that ``uri`` names; None if it names another or one in memory."""
    found = _SQLITE_FILE.fullmatch(uri)
    return found[1] if found else None


def _without_secrets(uri: str) -> str:
    """Return the address without user, password (which may have slashes and at signs) and parameters."""
    return re.sub(r"://\S*@", "://", uri).partition("?")[0]


def _store_properties(base_location: str, properties: Mapping[str, str]) -> dict[str, str]:
    if is_local(base_location):
        return {"py-io-impl": f"{__name__}.{DurableFileIO.__name__}", **properties}
    files = store_module(base_location).open_files(base_location, properties)
    return {"py-io-impl": f"{type(files).__module__}.{type(files).__name__}", **files.properties}


def _load(settings: CatalogSettings, key: str, store_properties: Mapping[str, str]) -> Catalog:
    """PyIceberg's catalog. ConfigError if settings or libraries do not allow it, StorageError if it does not answer."""
    properties: dict[str, Any] = {**store_properties, **settings.properties, "type": settings.type}
    if _GLUE_RETRIES in properties:
        # AWS's client needs a number, and PyIceberg passes the value on unchanged.
        properties[_GLUE_RETRIES] = _count(properties[_GLUE_RETRIES], f"{key}.{_GLUE_RETRIES}")
    if settings.type == "in-memory":
        # SQLite's plain ":memory:" is a separate database for each thread.
        properties.setdefault("uri", f"sqlite:///file:/{uuid.uuid4()}?vfs=memdb&uri=true")
    try:
        load_file_io(properties)  # An unavailable FileIO fails here, not at the first file.
        return _load_even_in_a_race(settings.name, properties)
    except NotInstalledError as error:
        extra = _EXTRAS.get(settings.type)
        hint = f"; {install_command(extra)}" if extra else ""
        raise ConfigError(f"{key}.type = {settings.type}: its library is not installed ({error}){hint}") from error
    except (ValueError, NoSuchPropertyException) as error:
        raise ConfigError(f"{key} of type {settings.type} cannot be used: {error_text(error)}") from showable(error)
    except Exception as error:
        if not of_a_catalog(error):
            raise
        raise StorageError(
            f"cannot open the {settings.type} catalog {settings.name}: {error_text(error)}"
        ) from showable(error)


def _count(text: str, key: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{key} = {text}: a whole number is expected") from None


def _load_even_in_a_race(name: str, properties: Mapping[str, Any]) -> Catalog:
    """Load a catalog, twice if needed: another process that creates the same SQL tables makes this one fail once."""
    try:
        return _load_catalog(name, properties)
    except Exception as error:
        if not is_of_database(error):
            raise
    return _load_catalog(name, properties)


def _load_catalog(name: str, properties: Mapping[str, Any]) -> Catalog:
    """As :func:`load_catalog`, with PyIceberg's own configuration; requests to a server have time limits."""
    given: Mapping[str, Any] = merge_config(Config().get_catalog_config(name) or {}, dict(properties))
    remember(given)
    if given.get("uri") and given["type"] in ("rest", "hive"):
        from metastore.lake.iceberg.catalogs import server_catalogs  # noqa: PLC0415 - its libraries take long to import

        rest, hive = server_catalogs.RestCatalogThatEnds, server_catalogs.HiveCatalogThatEnds
        return (
            rest(name, **given) if given["type"] == "rest" else writing_metadata_by(write_metadata, hive(name, **given))
        )
    catalog = load_catalog(name, **properties)
    if given["type"] == "sql":
        _close_after_failed_commits(catalog)
    return writing_metadata_by(write_metadata, catalog)


def _close_after_failed_commits(catalog: Any) -> None:
    """Let SQLAlchemy close each connection of a SQL catalog whose COMMIT fails, which ends its transaction.

    SQLite keeps the transaction open when others hold the file, and SQLAlchemy would use the connection again: later
    reads would see the refused change, and the next commit would publish it.
    """
    from sqlalchemy import event  # noqa: PLC0415 - a library of SQL catalogs alone

    @event.listens_for(catalog.engine, "handle_error")
    def close_connection(context: Any) -> None:
        if context.statement is None:
            context.is_disconnect, context.invalidate_pool_on_disconnect = True, False
