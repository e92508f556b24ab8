"""The kinds of sources, in one table: directories of files, Delta, Iceberg, Hive and databases.

Place in the flow: a name is looked up by what its kind says (:mod:`metastore.sources.naming`), and the session asks the
kind's finder for the table behind it. A finder returns a source table with everything that whoever keeps the table says
of it; a directory of files has no keeper, and needs no finder. Hive's finder is in a layer above this one, so a session
adds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from metastore.config.settings import StoragePluginSettings, StoragePluginType
from metastore.engine import Engine
from metastore.stores.bounded_reading import ReadLimits

if TYPE_CHECKING:
    from metastore.catalogs import Catalogs
    from metastore.sources.database import JdbcReader
    from metastore.sources.source_table import SourceTable


@dataclass(frozen=True)
class SourceKind:
    """What must be known of a kind before one of its tables is looked for.

    ``in_folders``: tables lie in the folders of the plugin's workspaces, and their location is a path; of other kinds a
    workspace is a schema of a catalog or database. ``kept``: a program beside us keeps the table, so a finder asks it.
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
    """What finders ask with; each is made when it is first needed.

    ``engine`` gives what reads some number of files, ``database_reader`` what reads tables of databases.
    """

    catalogs: Callable[[], Catalogs]
    database_reader: Callable[[], JdbcReader]
    engine: Callable[[int], Engine]
    limits: ReadLimits


Finder = Callable[["SourceTable", StoragePluginSettings, Asking], "SourceTable"]
"""A named table of a plugin -> the same with what its keeper says. NotFoundError where the keeper has none."""
