"""What is never deleted, wherever it lies: components, analyzed tables, materialized views, databases, configuration.

Place in the flow: the proof that a file may be deleted begins here, because this costs one read of the metastore. Only
folders that were configured, analyzed or refreshed count. A workspace alone does not: ``/`` would contain everything.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from metastore.components.metastore import Metastore
from metastore.config.components import DAMAGED_FOLDER, DELETIONS_FOLDER, LEASE_FOLDER
from metastore.config.settings import Settings
from metastore.lake.iceberg.catalogs.catalogs import sqlite_file
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.model.vocabulary import MetadataType
from metastore.sources.naming import workspace_location

_JDBC_SQLITE: Final = "jdbc:sqlite:"
_OF_SQLITE: Final = ("", "-wal", "-shm", "-journal")


@dataclass(frozen=True)
class KeptFolder:
    """A folder or a file, and the owner of its files: ``whose`` completes the sentence "it belongs to …"."""

    location: str
    whose: str


class KeptFolders:
    """The folders of the deployment whose files no procedure on ``target`` may delete."""

    def __init__(self, metastore: Metastore, target: TargetTable) -> None:
        self._metastore = metastore
        self._target = target
        self._known: tuple[list[str | None], list[KeptFolder]] = ([], [])

    def now(self) -> list[KeptFolder]:
        """Returns the folders as of the newest versions of the metastore's components, which are read if they changed.

        Raises StorageError or FormatError if the metastore cannot be read: then it is unknown which tables were
        analyzed.
        """
        components = (self._metastore.tables, self._metastore.materialized_views)
        loaded = [component.table.load() for component in components]
        versions = [table.metadata_location if table else None for table in loaded]
        if versions != self._known[0]:
            found = [*_of_components(self._metastore.settings, self._target)]
            found += _of_analyzed_tables(self._metastore, self._target) if loaded[0] else ()
            found += _of_materialized_views(self._metastore) if loaded[1] else ()
            self._known = versions, found
        return self._known[1]


def kept_files(settings: Settings) -> Iterator[KeptFolder]:
    """Yields the files of this deployment that no table names: databases of catalogs, and files of configuration."""
    catalogs = {"the metastore": settings.iceberg.catalog, **settings.catalogs}
    for name, catalog in catalogs.items():
        if (database := sqlite_file(catalog.properties.get("uri", ""))) is not None:
            for suffix in _OF_SQLITE:
                yield KeptFolder(os.path.abspath(database) + suffix, f"the database of the catalog {name}")
    for plugin in settings.storage.values():
        if plugin.type == "jdbc" and plugin.connection.startswith(_JDBC_SQLITE):
            path = plugin.connection.removeprefix(_JDBC_SQLITE)
            for suffix in _OF_SQLITE:
                yield KeptFolder(os.path.abspath(path) + suffix, f"the database of the storage plugin {plugin.name}")
    for file in {setting.origin.path for setting in settings.effective} - {None}:
        yield KeptFolder(str(file), "the configuration")


def workspaces(settings: Settings) -> Iterator[KeptFolder]:
    """Yields the folders of all workspaces of enabled plugins."""
    for plugin in settings.storage.values():
        if plugin.enabled:
            for workspace in plugin.workspaces.values():
                whose = f"the workspace {plugin.name}.{workspace.name}"
                yield KeptFolder(workspace_location(plugin, workspace), whose)


def _of_components(settings: Settings, target: TargetTable) -> Iterator[KeptFolder]:
    base = settings.iceberg.base_location.rstrip("/")
    for component in settings.iceberg.components.values():
        if not (target.is_component and target.name == component.name):
            yield KeptFolder(f"{base}/{component.location}", f"the metastore's component {component.name}")
    yield KeptFolder(f"{base}/{LEASE_FOLDER}", "the lease of the daemon")
    yield KeptFolder(f"{base}/{DAMAGED_FOLDER}", "the damaged files that metastore repair moved aside")
    yield KeptFolder(f"{base}/{DELETIONS_FOLDER}", "the list of deletions that are put off")


def _of_analyzed_tables(metastore: Metastore, target: TargetTable) -> Iterator[KeptFolder]:
    read = metastore.tables.read().metadata_types(MetadataType.TABLE)
    rows = read.columns("storagePlugin", "workspace", "tableName", "location").to_arrow()
    for plugin, workspace, name, location in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        if location and not _is_target(metastore.settings, (plugin, workspace, name), target):
            yield KeptFolder(location, f"the analyzed table {plugin}.{workspace}.{name}")


def _is_target(settings: Settings, analyzed: tuple[str, str, str], target: TargetTable) -> bool:
    """Returns whether the proof reads the metadata of the analyzed table, so that its folder need not be kept."""
    plugin = settings.storage.get(analyzed[0])
    if plugin is None:
        return False
    same_name = (target.schema_name, target.name) == analyzed[1:]
    return plugin.type == "iceberg" or (plugin.type == "hive" and same_name)


def _of_materialized_views(metastore: Metastore) -> Iterator[KeptFolder]:
    storage = metastore.settings.storage
    read = metastore.materialized_views.read().metadata_types(MetadataType.MATERIALIZED_VIEW)
    rows = read.columns("storagePlugin", "workspace", "name", "dataLocation").to_arrow()
    for plugin, workspace, name, data in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        known = storage[plugin].workspaces.get(workspace) if plugin in storage else None
        if known is not None and data:
            # The data lies in one folder for each refresh, below the folder of the view.
            refresh = f"{workspace_location(storage[plugin], known).rstrip('/')}/{data}"
            yield KeptFolder(posixpath.dirname(refresh), f"the materialized view {plugin}.{workspace}.{name}")
