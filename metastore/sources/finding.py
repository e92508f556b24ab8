"""Finds a table of a storage plugin through the finder of its kind: Iceberg, Delta, Hive, databases.

Place in the flow: a name is resolved by the properties of its kind (:mod:`metastore.sources.naming`), and the session
asks here for the table. A finder returns a source table with everything that the table's keeper (its catalog, log or
database) records. A directory of files has no keeper, and needs no finder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, cast

from metastore.config.plugins import StoragePluginSettings
from metastore.engines.engine import Engine
from metastore.lake.stores.bounded_reading import ReadLimits

if TYPE_CHECKING:
    from metastore.components.catalogs import Catalogs
    from metastore.sources.database import JdbcReader
    from metastore.sources.source_table import SourceTable


@dataclass(frozen=True)
class FinderResources:
    """The resources of finders; each is created on first use.

    ``engine`` returns the engine that reads a number of files, ``database_reader`` the reader for tables of databases.
    """

    catalogs: Callable[[], Catalogs]
    database_reader: Callable[[], JdbcReader]
    engine: Callable[[int], Engine]
    limits: ReadLimits


Finder = Callable[["SourceTable", StoragePluginSettings, FinderResources], "SourceTable"]
"""Adds its keeper's data to a named table of a plugin. Raises NotFoundError if the keeper has no such table."""


def found_table(source: SourceTable, plugin: StoragePluginSettings, resources: FinderResources) -> SourceTable:
    """Return ``source`` with what its keeper records; unchanged if nobody keeps it. Raises the finder's errors."""
    if plugin.kind.finder is None:
        return source
    module, _, name = plugin.kind.finder.partition(":")
    finder = cast("Finder", getattr(import_module(module), name))  # a client may take long to import
    return finder(source, plugin, resources)
