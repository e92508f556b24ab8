"""The kinds of sources, in one table: directories of files, Delta, Iceberg, Hive and databases.

Place in the flow: a name is resolved by the properties of its kind (:mod:`metastore.sources.naming`), and the session
calls the kind's finder for the table. A finder returns a source table with everything that the table's keeper (its
catalog, log or database) records. A directory of files has no keeper, and needs no finder. Hive's finder is in a higher
layer, so a session adds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from metastore.config.settings import StoragePluginSettings, StoragePluginType
from metastore.engines.engine import Engine
from metastore.lake.stores.bounded_reading import ReadLimits

if TYPE_CHECKING:
    from metastore.components.catalogs import Catalogs
    from metastore.sources.database import JdbcReader
    from metastore.sources.source_table import SourceTable


@dataclass(frozen=True)
class SourceKind:
    """The properties of a kind that must be known before one of its tables is looked up.

    ``in_folders``: tables are in the folders of the plugin's workspaces, and their location is a path. For other kinds,
    a workspace is a schema of a catalog or database. ``kept``: another program keeps the table, so a finder is called
    for it.
    """

    in_folders: bool
    kept: bool


KINDS: Final[Mapping[StoragePluginType, SourceKind]] = {
    "file": SourceKind(in_folders=True, kept=False),
    "delta": SourceKind(in_folders=True, kept=True),
    "iceberg": SourceKind(in_folders=False, kept=True),
    "hive": SourceKind(in_folders=False, kept=True),
    "jdbc": SourceKind(in_folders=False, kept=True),
}
"""Every kind, by the type of the storage plugin."""


@dataclass(frozen=True)
class Asking:
    """The resources of finders; each is created on first use.

    ``engine`` returns the engine that reads a number of files, ``database_reader`` the reader for tables of databases.
    """

    catalogs: Callable[[], Catalogs]
    database_reader: Callable[[], JdbcReader]
    engine: Callable[[int], Engine]
    limits: ReadLimits


Finder = Callable[["SourceTable", StoragePluginSettings, Asking], "SourceTable"]
"""Adds its keeper's data to a named table of a plugin. Raises NotFoundError if the keeper has no such table."""
