"""An open metastore: its components in one catalog, with their caches and expiration; and the registry of classes.

``Metastore.open(conf)`` opens the components alone; ``metastore.connect`` adds sources, procedures and an engine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from metastore.components.component import Backing, Component, ComponentDefinition, U
from metastore.components.expiration.handler import ExpirationHandler
from metastore.components.expiration.policy import ExpirationPolicy
from metastore.components.expiration.worker import ExpirationWorker
from metastore.components.materialized_views import MATERIALIZED_VIEWS, MaterializedViews
from metastore.components.runs import RUNS, Runs
from metastore.components.storage.commit import Committer
from metastore.components.storage.group_commit import GroupCommitter
from metastore.components.storage.handover import TableRegistration, hand_over
from metastore.components.storage.own_folders import require_apart
from metastore.components.storage.reader import Reader
from metastore.components.storage.table import ComponentTable
from metastore.components.tables import TABLES, Tables
from metastore.components.views import VIEWS, Views
from metastore.config.components import DELETIONS_FOLDER
from metastore.config.settings import ComponentSettings, Settings, load
from metastore.errors import ConfigError, NotFoundError
from metastore.ground.clock import Clock
from metastore.lake.iceberg.catalogs.catalog_entry import CatalogEntry
from metastore.lake.iceberg.catalogs.catalogs import ConfiguredCatalog
from metastore.lake.iceberg.catalogs.open_tables import FileCache
from metastore.lake.stores.deletion_list import DeletionList
from metastore.lake.stores.opening import open_store


class Metastore:
    """The components of one metastore; a context manager. Threads may share it."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        settings.remember_secrets()
        require_apart(settings)
        self.settings = settings
        self.clock = clock or Clock()
        self._cache = FileCache(settings.iceberg.cache_bytes)
        self._workers: list[ExpirationWorker] = []
        self._catalog = ConfiguredCatalog(settings.iceberg)

    @classmethod
    def open(cls, conf: str | Path | Settings | None = None, *, clock: Clock | None = None) -> Metastore:
        """Open the metastore that ``conf`` describes: a HOCON directory or file, settings, or None to search for one.

        Writes and creates nothing. Sends no request to the store or catalog; resolves links on the local disk. Raises
        ConfigError, and StorageError for an unsupported store.
        """
        return cls(conf if isinstance(conf, Settings) else load(conf), clock)

    @cached_property
    def tables(self) -> Tables:
        """Metadata of tables."""
        return Tables(TABLES, self._backing(TABLES))

    @property
    def components(self) -> Mapping[str, Component[Any]]:
        """All components, by name."""
        every: tuple[Component[Any], ...] = (self.tables, self.views, self.materialized_views, self.runs)
        return {component.definition.name: component for component in every}

    @cached_property
    def views(self) -> Views:
        """Definitions of views."""
        return Views(VIEWS, self._backing(VIEWS))

    @cached_property
    def materialized_views(self) -> MaterializedViews:
        """Definitions of materialized views, and the locations of their rows."""
        return MaterializedViews(MATERIALIZED_VIEWS, self._backing(MATERIALIZED_VIEWS))

    @cached_property
    def runs(self) -> Runs:
        """The history of the daemon's runs."""
        return Runs(RUNS, self._backing(RUNS))

    @cached_property
    def deletions(self) -> DeletionList:
        """The list of files whose deletion is put off (``drill.metastore.procedures.deletion.delay``)."""
        folder = f"{self.settings.iceberg.base_location.rstrip('/')}/{DELETIONS_FOLDER}"
        store = cache(lambda: open_store(folder, self.settings.iceberg.config_properties)[0])
        return DeletionList(store, folder, self.settings.procedures.deletion_delay, self.clock.now_ms)

    def register(self, source: Settings | None = None) -> list[TableRegistration]:
        """Register the component tables of ``source`` in the configured catalog, which then owns their commits.

        ``source`` defaults to the same metastore without a catalog, on the file system. Stop its writers first:
        afterwards, readers and writers of the source are refused. If a call is interrupted, the next call completes it.
        Raises NotFoundError when the source has no table, and the errors of
        :func:`metastore.components.storage.handover.hand_over`.
        """
        iceberg = self.settings.iceberg
        given = source.iceberg if source else replace(iceberg, catalog=replace(iceberg.catalog, type="filesystem"))
        theirs = ConfiguredCatalog(given)
        entries = [
            (CatalogEntry.of(theirs, given.components[name]), CatalogEntry.of(self._catalog, component))
            for name, component in iceberg.components.items()
        ]
        try:
            found = [done for each in entries if (done := hand_over(*each))]
        finally:
            theirs.close()
        if not found:
            raise NotFoundError(f"there is no component table in {theirs}")
        return found

    def close(self) -> None:
        """Stop starting background work; does not wait for an expiration in progress."""
        for worker in self._workers:
            worker.close()
        self._catalog.close()

    def __enter__(self) -> Metastore:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[[Settings], Metastore], tuple[Settings]]:
        """Pickle the settings only: another process opens the metastore again, with empty caches."""
        return Metastore, (self.settings,)

    def _backing(self, definition: ComponentDefinition[U]) -> Backing:
        component = self._component_settings(definition.name)
        iceberg = self.settings.iceberg
        entry = CatalogEntry.of(self._catalog, component)
        table = ComponentTable(entry, definition.unit_type, component.properties, self._cache)
        expiration = iceberg.expiration
        policy = ExpirationPolicy(
            expiration.period, expiration.retain_last, expiration.min_age, component.versions_kept
        )
        handler = ExpirationHandler(table, policy, self.clock)
        worker = ExpirationWorker(handler)
        self._workers.append(worker)
        committer = GroupCommitter(Committer(table, iceberg.commit.timeout, self.clock))
        return Backing(table, Reader(table, self._cache, iceberg.read), committer, handler, worker)

    def _component_settings(self, name: str) -> ComponentSettings:
        try:
            return self.settings.iceberg.components[name]
        except KeyError:
            raise ConfigError(f"drill.metastore.iceberg.components.{name}.location is not configured") from None


class MetastoreRegistry:
    """One open metastore for each implementation class, created on first use and shared between threads.

    ``implementation`` is the dotted path of a class whose ``open(conf)`` returns a metastore, as in Drill's settings.
    """

    DEFAULT: Final = "metastore.metastore.Metastore"

    def __init__(self, conf: str | Path | Settings | None = None) -> None:
        self._conf = conf
        self._open: dict[type[Metastore], Metastore] = {}
        self._lock = threading.Lock()

    def get(self, implementation: str = DEFAULT) -> Metastore:
        """Return the metastore of ``implementation``. Raises ConfigError if it is missing or not a metastore class."""
        chosen = _implementation(implementation)
        with self._lock:
            if chosen not in self._open:
                self._open[chosen] = chosen.open(self._conf)
            return self._open[chosen]

    def close(self) -> None:
        """Close every open metastore; a later :meth:`get` opens it again."""
        with self._lock:
            for metastore in self._open.values():
                metastore.close()
            self._open.clear()


def _implementation(path: str) -> type[Metastore]:
    module, _, name = path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"there is no metastore implementation {path!r}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Metastore)):
        raise ConfigError(f"{path!r} is not a metastore: it must be a subclass of {MetastoreRegistry.DEFAULT}")
    return found
